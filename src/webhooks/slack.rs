//! A notice as a Slack message: <https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks>. Pure.
//!
//! Slack refuses a message that breaks one of its limits as a whole, so every text is cut to one of ours that is within:
//! section 3,000, ten fields of 2,000.

use serde_json::{Value, json};

use super::notice::Notice;
use super::text::joined;

const TITLE_LEN_MAX: usize = 300;
const FACT_LEN_MAX: usize = 300;
const FIELDS_MAX: usize = 10;
/// With the title it is within a section's text.
const LINK_LEN_MAX: usize = 2_500;

/// The body of the request. Strangers' text stands in plain text, but for the title where it is a link.
pub(super) fn message(notice: &Notice) -> Value {
    let title = escaped(&notice.title, TITLE_LEN_MAX);
    let link = notice.link.as_deref().map(in_link).filter(|link| link.len() <= LINK_LEN_MAX);
    let heading = match link {
        // Verbatim: names and addresses in the text do not become mentions and links.
        Some(link) => json!({ "type": "mrkdwn", "text": format!("<{link}|{title}>"), "verbatim": true }),
        None => plain_text(title.clone()),
    };
    let at = notice.at.iter().map(|at| ("At", at.as_str()));
    let facts = notice.facts.iter().map(|(label, text)| (*label, text.as_str())).chain(at);
    let fields = facts.map(|(label, text)| plain_text(format!("{label}: {}", escaped(text, FACT_LEN_MAX))));
    let fields: Vec<Value> = fields.take(FIELDS_MAX).collect();
    let mut blocks = vec![json!({ "type": "section", "text": heading })];
    if !fields.is_empty() {
        blocks.push(json!({ "type": "section", "fields": fields }));
    }
    json!({
        "text": title,
        "attachments": [{ "color": format!("#{:06x}", notice.colour), "blocks": blocks }],
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
    })
}

fn plain_text(text: String) -> Value {
    json!({ "type": "plain_text", "text": text, "emoji": false })
}

/// The three characters that Slack gives a meaning to; without them there is no mention, no link and no command.
fn escaped(text: &str, len_max: usize) -> String {
    let piece = |c| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        c => c.to_string(),
    };
    joined(text.chars().map(piece), len_max)
}

/// A link ends at its label or its bracket.
fn in_link(link: &str) -> String {
    link.replace('&', "&amp;").replace('<', "%3C").replace('>', "%3E").replace('|', "%7C")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::notice::tests::{push, scan};
    use super::*;
    use crate::outbox::Trigger;

    fn of_push(repository: &str, tag: &str) -> Value {
        message(&Notice::read(Trigger::Push, &push(repository, tag)))
    }

    #[test]
    fn nobody_is_mentioned_and_no_link_is_made() {
        let message = of_push("a|b>c", "<!channel> <@U1> <https://evil.example|x> &lt;");
        let text = message["text"].as_str().unwrap();
        assert!(!text.contains(['<', '>']), "{text}");
        assert!(text.contains("&lt;!channel&gt; &lt;@U1&gt;") && text.contains("&amp;lt;"), "{text}");
        let heading = &message["attachments"][0]["blocks"][0]["text"];
        assert_eq!(heading["verbatim"], true);
        let heading = heading["text"].as_str().unwrap();
        assert!(
            heading.starts_with("<https://atcr.example/r/alice.test/a%7Cb%3Ec|alice.test/a|b&gt;c:"),
            "{heading}"
        );
        assert_eq!((heading.matches('<').count(), heading.matches('>').count()), (1, 1));
    }

    #[test]
    fn every_limit_is_kept_whatever_a_stranger_writes() {
        for (text, times) in [("x", 9_000), ("🐳", 9_000), ("<", 9_000), ("&", 1_900), ("ä>", 9_000)] {
            let message = of_push(&text.repeat(times), &text.repeat(times));
            let len = |value: &Value| value.as_str().unwrap().encode_utf16().count();
            assert!(len(&message["text"]) <= 4_000);
            for block in message["attachments"][0]["blocks"].as_array().unwrap() {
                assert!(block.get("text").is_none_or(|text| len(&text["text"]) <= 3_000));
                let fields = block["fields"].as_array().map_or(&[][..], Vec::as_slice);
                assert!(fields.len() <= 10 && fields.iter().all(|field| len(&field["text"]) <= 2_000));
            }
        }
    }

    #[test]
    fn a_scan_shows_counts_and_colour() {
        let message = message(&Notice::read(Trigger::ScanChanged, &scan([0, 3, 0, 0], Some(1))));
        let attachment = &message["attachments"][0];
        assert_eq!(attachment["color"], "#e8590c");
        assert_eq!(attachment["blocks"][0]["text"]["type"], "plain_text");
        assert_eq!(attachment["blocks"][1]["fields"][0]["text"], "Critical: 0 (was 1)");
    }
}

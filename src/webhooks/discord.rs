//! A notice as a Discord message: <https://docs.discord.com/developers/resources/webhook#execute-webhook>. Pure.
//!
//! Discord refuses a message that breaks one of its limits as a whole, so every text is cut to one of ours that is within:
//! title 256 of 256, labels and texts of 25 fields 256 and 1,024, all embeds together 6,000.

use serde_json::{Value, json};

use super::notice::Notice;
use super::text::joined;

const TITLE_LEN_MAX: usize = 256;
/// Ten of them with their labels are half of what a message may have.
const FACT_LEN_MAX: usize = 256;
const USERNAME: &str = "ATCR";

/// What has a meaning in Discord's markup, at the beginning of a line or anywhere. A backslash before any of them takes it
/// away, that of mentions, emoji and links included.
const MARKUP: &str = r"\*_~`|<>[]()#@:-+=";

/// The body of the request.
pub(super) fn message(notice: &Notice) -> Value {
    let fields = notice.facts.iter().map(|(label, text)| {
        json!({ "name": label, "value": escaped(text, FACT_LEN_MAX), "inline": text.len() <= 32 })
    });
    let mut embed = json!({
        "title": escaped(&notice.title, TITLE_LEN_MAX),
        "color": notice.colour,
        "fields": fields.collect::<Vec<_>>(),
    });
    if let Some(link) = &notice.link {
        embed["url"] = json!(link);
    }
    if let Some(at) = &notice.at {
        embed["timestamp"] = json!(at);
    }
    json!({ "username": USERNAME, "embeds": [embed], "allowed_mentions": { "parse": [] } })
}

fn escaped(text: &str, len_max: usize) -> String {
    let pieces = text.chars().map(|c| if MARKUP.contains(c) { format!("\\{c}") } else { c.to_string() });
    joined(pieces, len_max)
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
    fn nobody_is_mentioned_and_no_markup_takes_effect() {
        let message = of_push("@everyone", "<@&1> **b** [x](https://evil.example) :x: `c` ||d||");
        assert_eq!(message["allowed_mentions"], json!({ "parse": [] }));
        let title = message["embeds"][0]["title"].as_str().unwrap();
        assert!(
            title.starts_with(
                r"alice.test/\@everyone\:\<\@&1\> \*\*b\*\* \[x\]\(https\://evil.example\) \:x\: "
            )
        );
        assert!(title.contains(r"\`c\` \|\|d\|\|"), "{title}");
    }

    #[test]
    fn every_limit_is_kept_whatever_a_stranger_writes() {
        for text in ["x", "🐳", "*", "\u{202e}", "ä*"] {
            let message = of_push(&text.repeat(9_000), &text.repeat(9_000));
            let embed = &message["embeds"][0];
            let len = |value: &Value| value.as_str().unwrap().encode_utf16().count();
            assert!(len(&embed["title"]) <= 256);
            let fields = embed["fields"].as_array().unwrap();
            assert!(fields.len() <= 25);
            let mut total = len(&embed["title"]);
            for field in fields {
                assert!(
                    (1..=256).contains(&len(&field["name"])) && (1..=1_024).contains(&len(&field["value"]))
                );
                total += len(&field["name"]) + len(&field["value"]);
            }
            assert!(total <= 6_000, "{total}");
            assert!(embed.get("url").is_none_or(|url| url.as_str().unwrap().len() <= 2_048));
        }
    }

    #[test]
    fn a_scan_shows_counts_and_colour() {
        let message = message(&Notice::read(Trigger::ScanChanged, &scan([2, 0, 0, 0], Some(1))));
        let embed = &message["embeds"][0];
        assert_eq!(embed["color"], 0xb0_00_20);
        assert_eq!(
            embed["fields"][0],
            json!({ "name": "Critical", "value": r"2 \(was 1\)", "inline": true })
        );
        assert_eq!(embed["timestamp"], "2026-09-01T12:00:00Z");
    }
}

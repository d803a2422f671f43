//! What a payload says, in the few words that a chat message has room for. Pure; reads the outbox's own JSON, and makes do
//! with whatever is missing in it.

use serde_json::Value;
use url::Url;

use super::text::clean;
use crate::outbox::Trigger;

const PUSHED: u32 = 0x2f_6f_eb;
const CRITICAL: u32 = 0xb0_00_20;
const HIGH: u32 = 0xe8_59_0c;
const MEDIUM: u32 = 0xf2_c9_4c;
const LOW: u32 = 0x4a_90_d9;
const CLEAN: u32 = 0x2e_b6_7d;

/// Beyond this no chat follows a link, Discord for one.
const LINK_LEN_MAX: usize = 2_048;

/// A digest in a title: enough to find it by.
const DIGEST_CHARS: usize = 19;

/// What is told. Texts are clean but not escaped, and of any length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// What happened to what.
    pub(super) title: String,
    /// Where to look; http or https.
    pub(super) link: Option<String>,
    /// `0xRRGGBB`.
    pub(super) colour: u32,
    /// Labels, and what they are labels of; none is empty.
    pub(super) facts: Vec<(&'static str, String)>,
    /// When it happened (RFC 3339).
    pub(super) at: Option<String>,
}

impl Notice {
    /// Reads a payload.
    pub(super) fn read(trigger: Trigger, payload: &str) -> Self {
        let payload = Payload(serde_json::from_str(payload).unwrap_or_default());
        match trigger {
            Trigger::Push => payload.push(),
            Trigger::ScanFirst | Trigger::ScanAll | Trigger::ScanChanged => payload.scan(trigger),
            Trigger::Test => payload.test(),
        }
    }
}

struct Payload(Value);

impl Payload {
    fn push(&self) -> Notice {
        let (tag, digest) = (self.text("/push_data/tag"), self.text("/push_data/digest"));
        let pusher = self.either("/push_data/pusher", "/push_data/pusher_did");
        let name = self.either("/repository/repo_name", "/repository/name");
        Notice {
            title: format!("{} pushed", image(&name, &tag, &digest)),
            link: self.link("/repository/repo_url"),
            colour: PUSHED,
            facts: facts([
                ("Tag", tag),
                ("Pushed by", pusher),
                ("Digest", digest),
                ("Hold", self.either("/hold/endpoint", "/hold/did")),
            ]),
            at: self.time("/push_data/pushed_at"),
        }
    }

    fn scan(&self, trigger: Trigger) -> Notice {
        let (tag, digest) = (self.text("/manifest/tag"), self.text("/manifest/digest"));
        let owner = self.either("/manifest/userHandle", "/manifest/userDid");
        let name = [owner, self.text("/manifest/repository")];
        let name = name.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let image = image(&name, &tag, &digest);
        let title = match trigger {
            Trigger::ScanFirst => format!("{image} scanned for the first time"),
            Trigger::ScanChanged => format!("{image}: the findings have changed"),
            _ => format!("{image} scanned"),
        };
        Notice {
            title,
            link: None,
            colour: self.worst(),
            facts: facts([
                ("Critical", self.count("critical")),
                ("High", self.count("high")),
                ("Medium", self.count("medium")),
                ("Low", self.count("low")),
                ("Total", self.count("total")),
                ("Digest", digest),
                ("Scanner", self.text("/scan/scannerVersion")),
            ]),
            at: self.time("/scan/scannedAt"),
        }
    }

    fn test(&self) -> Notice {
        Notice {
            title: "A test of this webhook".to_owned(),
            link: None,
            colour: PUSHED,
            facts: facts([("Of", self.either("/userHandle", "/userDid"))]),
            at: self.time("/sentAt"),
        }
    }

    fn text(&self, at: &str) -> String {
        self.0.pointer(at).and_then(Value::as_str).map(clean).unwrap_or_default()
    }

    fn either(&self, at: &str, or: &str) -> String {
        let text = self.text(at);
        if text.is_empty() || text == "handle.invalid" { self.text(or) } else { text }
    }

    fn link(&self, at: &str) -> Option<String> {
        let link = Url::parse(&self.text(at)).ok()?;
        let good = matches!(link.scheme(), "http" | "https") && link.as_str().len() <= LINK_LEN_MAX;
        good.then(|| link.into())
    }

    fn time(&self, at: &str) -> Option<String> {
        let text = self.text(at);
        chrono::DateTime::parse_from_rfc3339(&text).ok().map(|_| text)
    }

    fn found(&self, severity: &str) -> Option<u64> {
        self.0.pointer(&format!("/scan/vulnerabilities/{severity}"))?.as_u64()
    }

    fn count(&self, severity: &str) -> String {
        let before = self.0.pointer(&format!("/previous/{severity}")).and_then(Value::as_u64);
        match (self.found(severity), before) {
            (Some(now), Some(before)) if now != before => format!("{now} (was {before})"),
            (Some(now), _) => now.to_string(),
            (None, _) => String::new(),
        }
    }

    fn worst(&self) -> u32 {
        let severities = [("critical", CRITICAL), ("high", HIGH), ("medium", MEDIUM), ("low", LOW)];
        let worst = severities.into_iter().find(|(severity, _)| self.found(severity).is_some_and(|n| n > 0));
        worst.map_or(CLEAN, |(_, colour)| colour)
    }
}

fn image(name: &str, tag: &str, digest: &str) -> String {
    let name = if name.is_empty() { "An image" } else { name };
    match (tag, digest) {
        ("", "") => name.to_owned(),
        ("", digest) => format!("{name}@{}", digest.chars().take(DIGEST_CHARS).collect::<String>()),
        (tag, _) => format!("{name}:{tag}"),
    }
}

fn facts<const N: usize>(facts: [(&'static str, String); N]) -> Vec<(&'static str, String)> {
    facts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A push of this tag to this repository, as the outbox writes it.
    pub(in crate::webhooks) fn push(repository: &str, tag: &str) -> String {
        json!({
            "trigger": "push",
            "push_data": {
                "pushed_at": "2026-09-01T12:00:00Z", "pusher": "alice.test", "pusher_did": "did:plc:alice",
                "tag": tag, "digest": format!("sha256:{}", "ab".repeat(32)),
            },
            "repository": {
                "name": repository, "namespace": "alice.test", "repo_name": format!("alice.test/{repository}"),
                "repo_url": format!("https://atcr.example/r/alice.test/{repository}"),
                "media_type": "application/vnd.oci.image.manifest.v1+json", "star_count": 1, "pull_count": 2,
            },
            "hold": { "did": "did:web:hold01.test", "endpoint": "https://hold01.test" },
        })
        .to_string()
    }

    /// A scan that found so many of each severity, from critical to low, and before so many critical ones.
    pub(in crate::webhooks) fn scan(found: [u64; 4], critical_before: Option<u64>) -> String {
        let [critical, high, medium, low] = found;
        let mut scan = json!({
            "trigger": "scan:changed", "holdDid": "did:web:hold01.test", "holdEndpoint": "https://hold01.test",
            "manifest": {
                "digest": "sha256:abc", "repository": "hello", "tag": "latest", "userDid": "did:plc:alice",
                "userHandle": "alice.test",
            },
            "scan": {
                "scannedAt": "2026-09-01T12:00:00Z", "scannerVersion": "trivy 0.60",
                "vulnerabilities": {
                    "critical": critical, "high": high, "medium": medium, "low": low, "total": found.iter().sum::<u64>(),
                },
            },
        });
        if let Some(before) = critical_before {
            scan["previous"] =
                json!({ "critical": before, "high": high, "medium": medium, "low": low, "total": 0 });
        }
        scan.to_string()
    }

    fn fact<'a>(notice: &'a Notice, label: &str) -> Option<&'a str> {
        notice.facts.iter().find(|(name, _)| *name == label).map(|(_, text)| text.as_str())
    }

    #[test]
    fn a_push_tells_what_who_and_where() {
        let notice = Notice::read(Trigger::Push, &push("hello", "v1"));
        assert_eq!(notice.title, "alice.test/hello:v1 pushed");
        assert_eq!(notice.link.as_deref(), Some("https://atcr.example/r/alice.test/hello"));
        assert_eq!(fact(&notice, "Pushed by"), Some("alice.test"));
        assert_eq!(notice.at.as_deref(), Some("2026-09-01T12:00:00Z"));
    }

    #[test]
    fn a_push_without_a_tag_is_named_by_its_digest() {
        let notice = Notice::read(Trigger::Push, &push("hello", ""));
        assert_eq!(notice.title, "alice.test/hello@sha256:abababababab pushed");
        assert_eq!(fact(&notice, "Tag"), None);
    }

    #[test]
    fn a_scan_has_the_colour_of_the_worst_that_was_found() {
        for (found, colour) in [
            ([1, 1, 1, 1], CRITICAL),
            ([0, 1, 1, 1], HIGH),
            ([0, 0, 1, 1], MEDIUM),
            ([0, 0, 0, 1], LOW),
            ([0; 4], CLEAN),
        ] {
            assert_eq!(Notice::read(Trigger::ScanAll, &scan(found, None)).colour, colour, "{found:?}");
        }
    }

    #[test]
    fn a_changed_scan_says_what_was_before() {
        let notice = Notice::read(Trigger::ScanChanged, &scan([2, 1, 0, 0], Some(1)));
        assert_eq!(notice.title, "alice.test/hello:latest: the findings have changed");
        assert_eq!(fact(&notice, "Critical"), Some("2 (was 1)"));
        assert_eq!(fact(&notice, "High"), Some("1"));
    }

    #[test]
    fn whatever_is_missing_or_wrong_is_left_out() {
        for payload in ["", "[]", "{}", r#"{"push_data":3,"repository":{"repo_url":"javascript:alert(1)"}}"#]
        {
            let notice = Notice::read(Trigger::Push, payload);
            assert_eq!((notice.title.as_str(), &notice.link), ("An image pushed", &None), "{payload}");
            assert!(notice.facts.is_empty() && notice.at.is_none());
        }
    }
}

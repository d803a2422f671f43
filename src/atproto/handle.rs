//! Handles: the names that people see. Syntax: <https://atproto.com/specs/handle>.

use super::identifier::identifier;

/// The bounds of DNS on a name and on one label, in bytes.
const LEN_MAX: usize = 253;
const LABEL_LEN_MAX: usize = 63;

identifier!(
    /// A handle, in lower case. The placeholder `handle.invalid` is valid syntax, and nobody's.
    Handle, "handle", checked
);

impl Handle {
    /// Whether the specification forbids that this name ever resolves. `.test` is left to the resolver's settings.
    pub fn is_reserved(&self) -> bool {
        const NEVER: [&str; 8] =
            [".alt", ".arpa", ".example", ".internal", ".invalid", ".local", ".localhost", ".onion"];
        NEVER.iter().any(|end| self.0.ends_with(end))
    }
}

fn checked(text: &str) -> Option<Box<str>> {
    let label_ok = |label: &str| {
        (1..=LABEL_LEN_MAX).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let (_, last) = text.rsplit_once('.')?;
    let valid = text.len() <= LEN_MAX
        && text.split('.').all(label_ok)
        && !last.starts_with(|c: char| c.is_ascii_digit());
    valid.then(|| {
        let mut text: Box<str> = text.into();
        text.make_ascii_lowercase();
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// From the protocol's interoperability files.
    #[test]
    fn the_specifications_examples_are_accepted_in_lower_case() {
        for text in [
            "A.ISI.EDU",
            "SRI-NIC.ARPA",
            "john.test",
            "a234567890123456789.test",
            "jan.xn--bcher-kva.ch",
            "xn--bcher-kva.tld",
            "12345.test",
            "4chan.org",
            "expyuzz4wqqyqhjn.onion",
            "handle.invalid",
            &format!("short.{}.test", "o".repeat(63)),
        ] {
            assert_eq!(Handle::parse(text).unwrap().as_str(), text.to_lowercase());
        }
    }

    #[test]
    fn the_specifications_counter_examples_are_refused() {
        for text in [
            "",
            "did:thing.test",
            "john-.test",
            "john.0",
            "john.-",
            "xn--bcher-.tld",
            "john..test",
            "jo_hn.test",
            "-john.test",
            ".john.test",
            "jo!hn.test",
            "john💩.test",
            "bücher.test",
            "john.test.",
            "john",
            " john.test",
            "john.te\0t",
            "john.tes-",
            "cn.8",
            "thing.0aa",
            "127.0.0.1",
            "fe80::7325:8a97:c100:94b",
            &format!("short.{}.test", "o".repeat(64)),
            &format!("shoooort{}.test", format!(".l{}ng", "o".repeat(25)).repeat(9)),
        ] {
            assert!(Handle::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn reserved_ends_are_known_and_test_is_not_among_them() {
        assert!(Handle::parse("handle.invalid").unwrap().is_reserved());
        assert!(Handle::parse("x.LOCAL").unwrap().is_reserved());
        assert!(!Handle::parse("alice.test").unwrap().is_reserved());
        assert!(!Handle::parse("local.example.com").unwrap().is_reserved());
    }
}

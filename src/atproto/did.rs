//! Decentralized identifiers: who an account or a hold is, for good. Syntax: <https://atproto.com/specs/did>.

use super::identifier::identifier;

/// The specification's bound on a DID, in bytes.
const LEN_MAX: usize = 2_048;

identifier!(
    /// A DID, such as `did:plc:ewvi7nxzyoun6zhxrhs64oiz`. Any method is valid syntax; only `plc` and `web` resolve.
    Did, "DID", checked
);

impl Did {
    /// The method: `plc` of `did:plc:…`.
    pub fn method(&self) -> &str {
        self.0.split(':').nth(1).unwrap_or_default()
    }

    /// What follows the method: `example.com` of `did:web:example.com`.
    pub fn id(&self) -> &str {
        self.0.splitn(3, ':').nth(2).unwrap_or_default()
    }
}

fn checked(text: &str) -> Option<Box<str>> {
    let (method, id) = text.strip_prefix("did:")?.split_once(':')?;
    let method_ok = !method.is_empty() && method.bytes().all(|b| b.is_ascii_lowercase());
    let id_ok = id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:%-".contains(&b));
    // A percent sign is checked for its place only, as the specification asks: decoding is the method's business.
    let end_ok = !id.is_empty() && !id.ends_with([':', '%']);
    (text.len() <= LEN_MAX && method_ok && id_ok && end_ok).then(|| text.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// From the protocol's interoperability files.
    #[test]
    fn the_specifications_examples_are_accepted() {
        let long = format!("did:method:{}", "v".repeat(LEN_MAX - 11));
        for text in [
            "did:method:val",
            "did:method:VAL",
            "did:method:123",
            "did:method:val-two",
            "did:method:val_two",
            "did:method:val.two",
            "did:method:val:two",
            "did:method:val%BB",
            "did:m:v",
            "did:method::::val",
            "did:method:-:_:.:%ab",
            "did:method:.",
            "did:onion:2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid",
            "did:plc:7iza6de2dwap2sbkpav7c6c6",
            "did:web:localhost%3A1234",
            "did:ethr:0xb9c5714089478a327f09197987f16f9e5d936e8a",
            &long,
        ] {
            assert_eq!(Did::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn the_specifications_counter_examples_are_refused() {
        let long = format!("did:method:{}", "v".repeat(LEN_MAX - 10));
        for text in [
            "",
            "did",
            "did:",
            "did:plc",
            "didmethodval",
            "method:did:val",
            "did:method:",
            "did::val",
            "didmethod:val",
            "did:methodval)",
            ":did:method:val",
            "did.method.val",
            "did:method:val:",
            "did:method:val%",
            "DID:method:val",
            "did:METHOD:val",
            "did:m123:val",
            "did:method:val/two",
            "did:method:val?two",
            "did:method:val#two",
            "did:method:v\0l",
            "did:method:väl",
            " did:method:val",
            &long,
        ] {
            assert!(Did::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn method_and_id_are_the_parts_of_the_text() {
        let did = Did::parse("did:web:localhost%3A1234").unwrap();
        assert_eq!((did.method(), did.id()), ("web", "localhost%3A1234"));
        assert_eq!(Did::parse("did:x:a:b").unwrap().id(), "a:b");
    }

    #[test]
    fn json_is_checked_like_any_other_text() {
        assert_eq!(serde_json::from_str::<Did>(r#""did:m:v""#).unwrap().as_str(), "did:m:v");
        assert!(serde_json::from_str::<Did>(r#""did:m""#).is_err());
        assert_eq!(serde_json::to_string(&Did::parse("did:m:v").unwrap()).unwrap(), r#""did:m:v""#);
    }
}

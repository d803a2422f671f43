//! Where a record is: `at://DID/COLLECTION/RKEY`. Syntax: <https://atproto.com/specs/at-uri-scheme>, `/record-key`, `/nsid`.

use std::fmt;

use super::did::Did;
use super::identifier::{SyntaxError, identifier};

/// The specifications' bounds, in bytes.
const URI_LEN_MAX: usize = 8_192;
const RKEY_LEN_MAX: usize = 512;
const NSID_LEN_MAX: usize = 317;
const NSID_PART_LEN_MAX: usize = 63;

identifier!(
    /// The key of a record within its collection.
    Rkey, "record key", checked_rkey
);

identifier!(
    /// The name of a collection, wanted or not.
    Nsid, "collection name", checked_nsid
);

/// The address of one record. An address that stops at the account or the collection, or names the account by its
/// handle, is no address of a record that stays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AtUri {
    /// Whose repository.
    pub did: Did,
    /// Which collection in it.
    pub collection: Nsid,
    /// Which record in that.
    pub rkey: Rkey,
}

impl AtUri {
    /// Reads `at://DID/COLLECTION/RKEY`.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let parts = || {
            let (did, path) = text.strip_prefix("at://")?.split_once('/')?;
            let (collection, rkey) = path.split_once('/')?;
            (text.len() <= URI_LEN_MAX).then_some((did, collection, rkey))
        };
        let (did, collection, rkey) = parts().ok_or(SyntaxError("record address"))?;
        Ok(Self { did: Did::parse(did)?, collection: Nsid::parse(collection)?, rkey: Rkey::parse(rkey)? })
    }
}

impl fmt::Display for AtUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at://{}/{}/{}", self.did, self.collection, self.rkey)
    }
}

fn checked_rkey(text: &str) -> Option<Box<str>> {
    let valid = (1..=RKEY_LEN_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:~".contains(&b))
        && text != "."
        && text != "..";
    valid.then(|| text.into())
}

fn checked_nsid(text: &str) -> Option<Box<str>> {
    let (authority, name) = text.rsplit_once('.')?;
    let part_ok = |part: &str| {
        (1..=NSID_PART_LEN_MAX).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let valid = text.len() <= NSID_LEN_MAX
        && authority.contains('.')
        && authority.split('.').all(part_ok)
        && authority.starts_with(|c: char| c.is_ascii_alphabetic())
        && part_ok(name)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !name.contains('-');
    valid.then(|| text.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// From the protocol's interoperability files.
    #[test]
    fn record_keys_follow_the_specification() {
        let longest = "o".repeat(RKEY_LEN_MAX);
        for text in ["self", "example.com", "~1.2-3_", "dHJ1ZQ", "pre:fix", "_", "...", &longest] {
            assert_eq!(Rkey::parse(text).unwrap().as_str(), text);
        }
        let too_long = "o".repeat(RKEY_LEN_MAX + 1);
        for text in [
            "",
            "alpha/beta",
            ".",
            "..",
            "#extra",
            "@handle",
            "any space",
            "any+space",
            "number[3]",
            "\"quote\"",
            "dHJ1ZQ==",
            "nul\0",
            "é",
            &too_long,
        ] {
            assert!(Rkey::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn collection_names_follow_the_specification() {
        for text in [
            "com.example.fooBar",
            "a-0.b-1.c",
            "net.users.bob.ping",
            "a.b.c",
            "com.2x.c0",
            "io.atcr.repo.page",
        ] {
            assert_eq!(Nsid::parse(text).unwrap().as_str(), text);
        }
        for text in [
            "",
            "com.example",
            "com.example.",
            ".com.example",
            "com.example.foo_bar",
            "com.exa💩ple.thing",
            "com.example.3",
            "com.example.foo-bar",
            "1.example.foo",
            "com.-example.foo",
            "a..b.c",
        ] {
            assert!(Nsid::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn the_address_of_a_record_is_read_and_written_back() {
        for text in
            ["at://did:plc:asdf123/com.atproto.feed.post/record", "at://did:web:a.b/io.atcr.manifest/pre:fix"]
        {
            assert_eq!(AtUri::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_not_the_address_of_one_record_is_refused() {
        for text in [
            "",
            "at://",
            "a://did:plc:asdf123/com.atproto.feed.post/r",
            "AT://did:plc:asdf123/com.atproto.feed.post/r",
            "at:/did:plc:asdf123/com.atproto.feed.post/r",
            "at://did:plc:asdf123",
            "at://did:plc:asdf123/com.atproto.feed.post",
            "at://did:plc:asdf123/com.atproto.feed.post/",
            "at://did:plc:asdf123/com.atproto.feed.post/r/more",
            "at://did:plc:asdf123/com.atproto.feed.post/%23",
            "at://did:plc:asdf123/com.atproto.feed.post/r#frag",
            "at://did:plc:asdf123/short/stuff",
            "at://alice.test/com.atproto.feed.post/r",
            "at://did:plc:asdf123//r",
        ] {
            assert!(AtUri::parse(text).is_err(), "{text:?} was accepted");
        }
    }
}

//! Timestamp identifiers. The one that matters here is a repository's revision. Syntax: <https://atproto.com/specs/tid>.

use super::identifier::{SyntaxError, text_traits};
use super::times::Micros;

/// A repository's revision: 13 characters of sortable base32, so that the order of the texts is the order in time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rev([u8; 13]);

impl Rev {
    /// Checks `text`. Allocates nothing: a revision is its 13 bytes.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let bytes: [u8; 13] = text.as_bytes().try_into().map_err(|_| SyntaxError("revision"))?;
        // 13 digits of 5 bits are 65 bits, so the first one has only half of the alphabet.
        let first_ok = matches!(bytes[0], b'2'..=b'7' | b'a'..=b'j');
        let rest_ok = bytes[1..].iter().all(|b| matches!(b, b'2'..=b'7' | b'a'..=b'z'));
        if first_ok && rest_ok { Ok(Self(bytes)) } else { Err(SyntaxError("revision")) }
    }

    /// The text, as it is stored and sent.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("parse lets only ASCII in")
    }

    /// When it was made, by the clock of whoever made it: the upper bits, above ten of a clock's number.
    pub fn time(&self) -> Micros {
        let digit = |byte: &u8| u64::from(if byte.is_ascii_digit() { byte - b'2' } else { byte - b'a' + 6 });
        let value = self.0.iter().fold(0_u64, |value, byte| value << 5 | digit(byte));
        Micros(i64::try_from(value >> 10).unwrap_or(i64::MAX))
    }
}

text_traits!(Rev, "revision");

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// From the protocol's interoperability files.
    #[test]
    fn the_specifications_examples_are_told_apart() {
        for text in [
            "3jzfcijpj2z2a",
            "7777777777777",
            "3zzzzzzzzzzzz",
            "a222222222222",
            "j222222222222",
            "azzzzzzzzzzzz",
        ] {
            assert_eq!(Rev::parse(text).unwrap().as_str(), text);
        }
        for text in [
            "",
            "3jzfcijpj2z21",
            "0000000000000",
            "3JZFCIJPJ2Z2A",
            "3jzfcijpj2z2aa",
            "3jzfcijpj2z2",
            "3jzf-cij-pj2z-2a",
            "zzzzzzzzzzzzz",
            "kjzfcijpj2z2a",
            "3jzfcijpj2zé",
        ] {
            assert!(Rev::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    /// The first was seen on the network, half a second later.
    #[test]
    fn a_revision_tells_when_it_was_made() {
        let time = |text| Rev::parse(text).unwrap().time().0;
        assert_eq!(time("3mptbypluud2a"), 1_783_175_887_514_441);
        assert_eq!((time("2222222222222"), time("2222222222322")), (0, 1));
        assert!(time("jzzzzzzzzzzzz") > time("7zzzzzzzzzzzz"));
    }

    #[test]
    fn a_later_revision_is_greater() {
        assert!(Rev::parse("3mptbypluud2a").unwrap() < Rev::parse("3mptbypmbsa2p").unwrap());
        assert!(Rev::parse("7zzzzzzzzzzzz").unwrap() < Rev::parse("a222222222222").unwrap());
    }
}

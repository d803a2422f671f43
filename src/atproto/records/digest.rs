//! Digests of content, as the OCI image specification writes them: `algorithm:encoded`.

use crate::atproto::uri::Rkey;

/// The lexicons' bound on a digest, in bytes.
const LEN_MAX: usize = 128;

/// The digest that a manifest's or scan's key stands for: a key of 64 hexadecimal digits is a SHA-256, any other is opaque.
/// What a delete removes is known by this alone.
pub fn digest_of_rkey(rkey: &Rkey) -> Option<String> {
    let hex = rkey.as_str();
    let is_sha256 = hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_sha256.then(|| format!("sha256:{hex}"))
}

pub(super) fn is_digest(text: &str) -> bool {
    let algorithm_ok = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'.' | b'_' | b'-');
    let encoded_ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'=' | b'_' | b'-');
    text.len() <= LEN_MAX
        && text.split_once(':').is_some_and(|(algorithm, encoded)| {
            !algorithm.is_empty()
                && !encoded.is_empty()
                && algorithm.bytes().all(algorithm_ok)
                && encoded.bytes().all(encoded_ok)
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_a_key_of_64_lower_case_hexadecimal_digits_is_a_digest() {
        let hex = "0123456789abcdef".repeat(4);
        let digest = |key: &str| digest_of_rkey(&Rkey::parse(key).unwrap());
        assert_eq!(digest(&hex), Some(format!("sha256:{hex}")));
        for opaque in [&hex[1..], &hex.to_uppercase(), &"g".repeat(64), "3jzfcijpj2z2a"] {
            assert_eq!(digest(opaque), None);
        }
    }

    #[test]
    fn a_digest_has_an_algorithm_and_an_encoded_part() {
        for text in
            ["sha256:abc", "sha512:00", "multihash+base58:QmRZxt2b1FVZPNqd8hsiykDL3TdBDeTSPX9Kv46HmX4Gx8"]
        {
            assert!(is_digest(text), "{text}");
        }
        for text in ["", "sha256", "sha256:", ":abc", "SHA256:abc", "sha256:a/b", "sha256:a\0", "sha256:é"] {
            assert!(!is_digest(text), "{text:?} was accepted");
        }
        assert!(!is_digest(&format!("sha256:{}", "a".repeat(122))));
    }
}

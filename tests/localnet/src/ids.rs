//! Made-up identifiers of the right shape: TIDs that rise, CIDs and DIDs that follow from their input.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sha2::{Digest, Sha256};

const SORTABLE: &[u8; 32] = b"234567abcdefghijklmnopqrstuvwxyz";
const RFC4648_LOWER: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// CIDv1, dag-cbor, sha2-256 of 32 bytes.
const CID_PREFIX: [u8; 4] = [0x01, 0x71, 0x12, 0x20];

/// Microseconds since the Unix epoch, by the wall clock.
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The TID of a moment (microseconds) and a clock number below 1,024: 13 characters whose order is time's.
pub fn tid(time_us: i64, clock: u16) -> String {
    let value = (time_us.unsigned_abs() << 10 | u64::from(clock & 0x3ff)) & (u64::MAX >> 1);
    let letter = |shift: u32| char::from(SORTABLE[(value >> shift & 31) as usize]);
    (0..13).rev().map(|i| letter(i * 5)).collect()
}

/// A CID of the right form. It is the hash of the record's JSON, not of its CBOR: equal records have equal CIDs,
/// which is all that a consumer of Jetstream can check.
pub fn cid(record: &Value) -> String {
    let hash = Sha256::digest(record.to_string());
    format!("b{}", base32(&[&CID_PREFIX, hash.as_slice()].concat(), RFC4648_LOWER))
}

/// `did:plc:` with 24 characters that follow from the seed and the name.
pub fn did_plc(seed: u64, name: &str) -> String {
    let hash = Sha256::digest(format!("{seed}/{name}"));
    format!("did:plc:{}", base32(&hash[..15], RFC4648_LOWER))
}

/// `sha256:` and 64 hex digits.
pub fn digest(of: &[u8]) -> String {
    let digit = |b: u8| char::from_digit(u32::from(b), 16).unwrap_or('0');
    let hex = Sha256::digest(of).into_iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]);
    "sha256:".chars().chain(hex).collect()
}

/// The key of a hold's statistics record: the first 16 bytes of sha256("owner/repository"), base32.
pub fn stats_rkey(owner: &str, repository: &str) -> String {
    base32(&Sha256::digest(format!("{owner}/{repository}"))[..16], RFC4648_LOWER)
}

fn base32(bytes: &[u8], alphabet: &[u8; 32]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut value, mut bits) = (0_u32, 0);
    for byte in bytes {
        value = value << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(alphabet[(value >> bits & 31) as usize]));
        }
        value &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(alphabet[(value << (5 - bits) & 31) as usize]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_tids_is_the_order_of_time() {
        let tids = [tid(1, 1023), tid(2, 0), tid(1_783_175_888_085_434, 7), tid(1_783_175_888_085_435, 0)];
        assert!(tids.is_sorted());
        assert!(tids.iter().all(|t| t.len() == 13));
        // A rev seen in production, and the moment that it names.
        assert!(tid(1_783_175_888_085_434, 0).starts_with("3mptby"));
    }

    #[test]
    fn a_stats_key_is_the_base32_of_half_a_hash() {
        // printf 'did:plc:abc/hello' | sha256sum | xxd -r -p | head -c16 | base32
        assert_eq!(stats_rkey("did:plc:abc", "hello"), "z5drqnuc5lthsuogwte6r6c6n4");
    }

    #[test]
    fn made_up_identifiers_have_the_real_lengths() {
        assert_eq!(cid(&serde_json::json!({})).len(), 59);
        assert!(cid(&serde_json::json!({})).starts_with("bafyrei"));
        assert_eq!(did_plc(1, "alice").len(), 32);
    }
}

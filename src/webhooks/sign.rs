//! How an endpoint knows that a delivery is ours: two signatures with one secret over the very bytes of the body, the plain
//! one that GitHub made usual and that of <https://www.standardwebhooks.com>. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::settings::Secret;

/// Before a secret that is base64 of the key, as Standard Webhooks writes them.
const STANDARD_PREFIX: &str = "whsec_";

/// The headers that carry signatures, for a body sent at `unix_seconds`. They differ from attempt to attempt by that time,
/// which keeps a recorded delivery from being played again later.
pub(super) fn signatures(
    secret: &Secret,
    id: &str,
    unix_seconds: u64,
    body: &[u8],
) -> [(&'static str, String); 4] {
    let plain = hmac(secret.reveal().as_bytes(), &[body]);
    let time = unix_seconds.to_string();
    let standard = hmac(&standard_key(secret), &[id.as_bytes(), b".", time.as_bytes(), b".", body]);
    [
        ("x-webhook-signature-256", format!("sha256={}", hex(&plain))),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", time),
        ("webhook-signature", format!("v1,{}", STANDARD.encode(standard))),
    ]
}

/// A secret of Standard Webhooks stands for its decoded bytes; any other for itself.
fn standard_key(secret: &Secret) -> Vec<u8> {
    let encoded = secret.reveal().strip_prefix(STANDARD_PREFIX);
    let decoded = encoded.and_then(|text| STANDARD.decode(text).ok());
    decoded.unwrap_or_else(|| secret.reveal().as_bytes().to_vec())
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn signed(secret: &str, id: &str, at: u64, body: &str) -> [(&'static str, String); 4] {
        signatures(&secret.parse().unwrap(), id, at, body.as_bytes())
    }

    /// RFC 4231, test case 2.
    #[test]
    fn the_plain_signature_is_that_of_the_standard() {
        let [(name, value), ..] = signed("Jefe", "id", 1, "what do ya want for nothing?");
        assert_eq!(name, "x-webhook-signature-256");
        assert_eq!(value, "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    /// The example of the specification of Standard Webhooks, as its libraries test it.
    #[test]
    fn the_signature_of_standard_webhooks_is_that_of_its_example() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = r#"{"test": 2432232314}"#;
        let [_, id, time, signature] = signed(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(id, ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned()));
        assert_eq!(time, ("webhook-timestamp", "1614265330".to_owned()));
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature, ("webhook-signature", expected.to_owned()));
    }

    #[test]
    fn a_secret_that_is_no_base64_stands_for_itself() {
        for text in ["whsec_***", "plain", "whsec"] {
            assert_eq!(standard_key(&text.parse().unwrap()), text.as_bytes());
        }
        assert_eq!(standard_key(&"whsec_YWJj".parse().unwrap()), b"abc");
    }
}

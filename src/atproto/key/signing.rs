//! A private key, and the tokens that it signs. Owns how a key's text is read and which two kinds there are; where the text
//! comes from, and who is told what, is the caller's business. The key itself is never shown.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use k256::ecdsa::signature::hazmat::PrehashSigner;
use rand::Rng;
use serde_json::json;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{PublicKey, base58};

/// The multicodec numbers of private keys as varints, <https://github.com/multiformats/multicodec>: `secp256k1-priv`
/// (0x1301) and `p256-priv` (0x1306).
const K256_PRIVATE: [u8; 2] = [0x81, 0x26];
const P256_PRIVATE: [u8; 2] = [0x86, 0x26];
/// The same of public keys: an easy mistake, and worth its own sentence.
const PUBLIC: [[u8; 2]; 2] = [[0xe7, 0x01], [0x80, 0x24]];

/// A private key has 48 letters.
const TEXT_LEN_MAX: usize = 128;

/// What a text was expected to be.
const EXPECTED: &str = "expected a private key as multibase text: z and base58, with the multicodec prefix of secp256k1 (0x1301) or P-256 (0x1306)";

/// Why a text is no private key. Never a part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadKey {
    /// It is no multibase text.
    #[error("{EXPECTED}; it is no such text")]
    Text,
    /// It is a public key.
    #[error("{EXPECTED}; it is a public key")]
    Public,
    /// It is of another kind, or of another length.
    #[error("{EXPECTED}; it is a key of another kind")]
    Kind,
    /// Its number is none that its curve has.
    #[error("{EXPECTED}; its number is not one of the curve")]
    Number,
}

/// Who says what to whom, for how long.
#[derive(Debug, Clone, Copy)]
pub struct Claims<'a> {
    /// Whose key signs.
    pub issuer: &'a str,
    /// For whom alone it is.
    pub audience: &'a str,
    /// For which method alone.
    pub method: &'a str,
    /// From when (seconds since the Unix epoch).
    pub issued_at: u64,
    /// Until when.
    pub expires_at: u64,
}

/// A private key of one of the two kinds. Wiped when dropped; its `Debug` shows the public half only.
pub struct PrivateKey(Curve);

enum Curve {
    K256(k256::ecdsa::SigningKey),
    P256(p256::ecdsa::SigningKey),
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PrivateKey").field(&self.public().to_string()).finish()
    }
}

impl PrivateKey {
    /// Reads a key's text, blanks around it left out.
    pub fn read(text: &str) -> Result<Self, BadKey> {
        let digits = text.trim().strip_prefix('z').filter(|digits| digits.len() <= TEXT_LEN_MAX);
        let bytes = digits.and_then(base58::decode).ok_or(BadKey::Text)?;
        let (prefix, number) = bytes.split_first_chunk::<2>().ok_or(BadKey::Kind)?;
        if PUBLIC.contains(prefix) {
            return Err(BadKey::Public);
        }
        let number: &[u8; 32] = number.try_into().map_err(|_| BadKey::Kind)?;
        let curve = match *prefix {
            K256_PRIVATE => k256::ecdsa::SigningKey::from_slice(number).map(Curve::K256).ok(),
            P256_PRIVATE => p256::ecdsa::SigningKey::from_slice(number).map(Curve::P256).ok(),
            _ => return Err(BadKey::Kind),
        };
        curve.map(Self).ok_or(BadKey::Number)
    }

    /// Its public half, as a DID document has it.
    pub fn public(&self) -> PublicKey {
        PublicKey(match &self.0 {
            Curve::K256(key) => super::Curve::K256(*key.verifying_key()),
            Curve::P256(key) => super::Curve::P256(*key.verifying_key()),
        })
    }

    /// A signed token (JWT) with a random number of its own. <https://atproto.com/specs/xrpc#inter-service-authentication-jwt>
    ///
    /// # Errors
    /// If the signature cannot be made.
    pub fn token(&self, claims: &Claims<'_>) -> Result<String, String> {
        let algorithm = match &self.0 {
            Curve::K256(_) => "ES256K",
            Curve::P256(_) => "ES256",
        };
        let number: u128 = rand::rng().random();
        let body = json!({
            "iss": claims.issuer, "aud": claims.audience, "lxm": claims.method, "iat": claims.issued_at,
            "exp": claims.expires_at, "jti": format!("{number:032x}"),
        });
        let part = |json: serde_json::Value| BASE64.encode(json.to_string());
        let signed = format!("{}.{}", part(json!({ "typ": "JWT", "alg": algorithm })), part(body));
        let signature = self.sign(signed.as_bytes()).map_err(|error| error.to_string())?;
        Ok(format!("{signed}.{}", BASE64.encode(signature)))
    }

    /// r and s of the SHA-256 of `message`, with the lower of the two s that would do.
    fn sign(&self, message: &[u8]) -> Result<[u8; 64], k256::ecdsa::Error> {
        let hash = Sha256::digest(message);
        Ok(match &self.0 {
            Curve::K256(key) => {
                let signature: k256::ecdsa::Signature = key.sign_prehash(&hash)?;
                signature.normalize_s().unwrap_or(signature).to_bytes().into()
            }
            Curve::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign_prehash(&hash)?;
                signature.normalize_s().unwrap_or(signature).to_bytes().into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn multibase(prefix: &[u8], number: &[u8]) -> String {
        format!("z{}", base58::encode(&[prefix, number].concat()))
    }

    fn one() -> [u8; 32] {
        let mut number = [0; 32];
        number[31] = 1;
        number
    }

    /// The public halves of the number 1 are the curves' own base points, known from their standards.
    #[test]
    fn both_kinds_are_read_with_blanks_around_them() {
        for (prefix, base_point) in [
            (K256_PRIVATE, "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
            (P256_PRIVATE, "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"),
        ] {
            let key = PrivateKey::read(&format!(" {}\n", multibase(&prefix, &one()))).unwrap();
            let public = base58::decode(&key.public().to_string()[1..]).unwrap();
            let hex: String = public[2..].iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, base_point);
        }
    }

    #[test]
    fn what_is_no_private_key_is_refused_by_what_is_wrong_and_never_shown() {
        let secret = multibase(&K256_PRIVATE, &one());
        for (text, why) in [
            (String::new(), BadKey::Text),
            ("-----BEGIN PRIVATE KEY-----".to_owned(), BadKey::Text),
            (secret[1..].to_owned(), BadKey::Text),
            (format!("{secret}0"), BadKey::Text),
            ("z".to_owned(), BadKey::Kind),
            (multibase(&PUBLIC[0], &[2; 33]), BadKey::Public),
            (multibase(&PUBLIC[1], &[2; 33]), BadKey::Public),
            (multibase(&[0x80, 0x26], &one()), BadKey::Kind),
            (multibase(&K256_PRIVATE, &one()[1..]), BadKey::Kind),
            (multibase(&P256_PRIVATE, &[one().as_slice(), &[0]].concat()), BadKey::Kind),
            (multibase(&K256_PRIVATE, &[0; 32]), BadKey::Number),
            (multibase(&P256_PRIVATE, &[0xff; 32]), BadKey::Number),
        ] {
            assert_eq!(PrivateKey::read(&text).unwrap_err(), why, "{text}");
        }
        let key = PrivateKey::read(&secret).unwrap();
        assert!(!format!("{key:?}").contains(&secret[3..]), "{key:?}");
    }

    fn part(part: &str) -> serde_json::Value {
        serde_json::from_slice(&BASE64.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn a_token_says_who_to_whom_for_what_and_until_when_and_is_signed() {
        let claims = Claims {
            issuer: "did:web:registry.example",
            audience: "did:web:hold.example",
            method: "io.atcr.hold.updateCrewTier",
            issued_at: 1_800_000_000,
            expires_at: 1_800_000_060,
        };
        for (prefix, algorithm) in [(K256_PRIVATE, "ES256K"), (P256_PRIVATE, "ES256")] {
            let key = PrivateKey::read(&multibase(&prefix, &one())).unwrap();
            let mut numbers = std::collections::BTreeSet::new();
            for _ in 0..50 {
                let token = key.token(&claims).unwrap();
                let [head, body, signature] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
                assert_eq!(part(head), json!({ "typ": "JWT", "alg": algorithm }));
                let mut body_read = part(body);
                let number = body_read.as_object_mut().unwrap().remove("jti").unwrap();
                assert!(numbers.insert(number.as_str().unwrap().to_owned()), "the same number twice");
                assert_eq!(
                    body_read,
                    json!({
                        "iss": "did:web:registry.example", "aud": "did:web:hold.example",
                        "lxm": "io.atcr.hold.updateCrewTier", "iat": 1_800_000_000, "exp": 1_800_000_060,
                    })
                );
                // It also refuses the higher s.
                let signed = format!("{head}.{body}");
                assert!(key.public().has_signed(signed.as_bytes(), &BASE64.decode(signature).unwrap()));
                assert!(!key.public().has_signed(body.as_bytes(), &BASE64.decode(signature).unwrap()));
            }
        }
    }
}

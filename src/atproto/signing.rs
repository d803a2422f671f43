//! A private key, and the tokens that it signs. Owns how a key's text is read and which two kinds there are; where the text
//! comes from, and who is told what, is the caller's business. The key itself is never shown.

use shrike::crypto::{K256SigningKey, P256SigningKey, SigningKey};
use shrike::service_auth::{ServiceJwtParams, create_service_jwt};
use thiserror::Error;

/// The multicodec numbers of private keys as varints, <https://github.com/multiformats/multicodec>: `secp256k1-priv`
/// (0x1301) and `p256-priv` (0x1306).
const K256_PRIVATE: [u8; 2] = [0x81, 0x26];
const P256_PRIVATE: [u8; 2] = [0x86, 0x26];
/// The same of public keys: an easy mistake, and worth its own sentence.
const PUBLIC: [[u8; 2]; 2] = [[0xe7, 0x01], [0x80, 0x24]];

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
pub struct PrivateKey(Box<dyn SigningKey>);

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PrivateKey").field(&self.public_multibase()).finish()
    }
}

impl PrivateKey {
    /// Reads a key's text, blanks around it left out.
    pub fn read(text: &str) -> Result<Self, BadKey> {
        let base58 = text.trim().strip_prefix('z').ok_or(BadKey::Text)?;
        let bytes = bs58::decode(base58).into_vec().map_err(|_| BadKey::Text)?;
        let (prefix, number) = bytes.split_first_chunk::<2>().ok_or(BadKey::Kind)?;
        if PUBLIC.contains(prefix) {
            return Err(BadKey::Public);
        }
        let number: &[u8; 32] = number.try_into().map_err(|_| BadKey::Kind)?;
        let key: Box<dyn SigningKey> = match *prefix {
            K256_PRIVATE => Box::new(K256SigningKey::from_bytes(number).map_err(|_| BadKey::Number)?),
            P256_PRIVATE => Box::new(P256SigningKey::from_bytes(number).map_err(|_| BadKey::Number)?),
            _ => return Err(BadKey::Kind),
        };
        Ok(Self(key))
    }

    /// Its public half as multibase text, as a DID document has it.
    pub fn public_multibase(&self) -> String {
        self.0.public_key().multibase()
    }

    /// A signed token with a random number of its own: ES256K or ES256, by the kind of the key.
    ///
    /// # Errors
    /// If the signature cannot be made.
    pub fn token(&self, claims: &Claims<'_>) -> Result<String, String> {
        let parameters = ServiceJwtParams {
            iss: claims.issuer,
            aud: claims.audience,
            lxm: Some(claims.method),
            iat: Some(claims.issued_at),
            exp: Some(claims.expires_at),
        };
        create_service_jwt(&parameters, self.0.as_ref()).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn multibase(prefix: &[u8], number: &[u8]) -> String {
        format!("z{}", bs58::encode([prefix, number].concat()).into_string())
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
            let public = bs58::decode(&key.public_multibase()[1..]).into_vec().unwrap();
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
}

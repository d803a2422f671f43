//! Public keys: how documents write them, and what they have signed. Owns both curves of the protocol and the rules for a
//! signature; where a key comes from and what is signed is the caller's business. <https://atproto.com/specs/cryptography>

mod base58;
pub mod signing;

use std::fmt;

use k256::ecdsa::signature::hazmat::PrehashVerifier;
use sha2::{Digest, Sha256};

/// A key has 48 characters or so; the longest older form has 89.
const TEXT_LEN_MAX: usize = 128;

/// The multicodec prefixes.
const K256_CODE: [u8; 2] = [0xe7, 0x01];
const P256_CODE: [u8; 2] = [0x80, 0x24];

/// A text is no public key that the protocol has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no public key of a kind that is known")]
pub struct KeyError;

/// A public key on one of the protocol's two curves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Curve);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Curve {
    K256(k256::ecdsa::VerifyingKey),
    P256(p256::ecdsa::VerifyingKey),
}

impl PublicKey {
    /// Reads a Multikey: `z`, then base58 of the curve's code and the compressed point. What follows `did:key:`, too.
    pub fn from_multikey(text: &str) -> Result<Self, KeyError> {
        let bytes = multibase(text)?;
        match bytes.split_first_chunk::<2>() {
            Some((&K256_CODE, point)) if point.len() == 33 => Self::k256(point),
            Some((&P256_CODE, point)) if point.len() == 33 => Self::p256(point),
            _ => Err(KeyError),
        }
    }

    /// Reads the `publicKeyMultibase` of a verification method of this type: a Multikey, or an older type, whose name tells the
    /// curve and whose point may be uncompressed.
    pub fn from_method(kind: &str, text: &str) -> Result<Self, KeyError> {
        match kind {
            "Multikey" => Self::from_multikey(text),
            "EcdsaSecp256k1VerificationKey2019" => Self::k256(&multibase(text)?),
            "EcdsaSecp256r1VerificationKey2019" => Self::p256(&multibase(text)?),
            _ => Err(KeyError),
        }
    }

    /// Whether `signature` is this key's of the SHA-256 of `message`: 64 bytes, r and s, with the lower of the two s that would
    /// do. The other is refused, as everybody can make it from the first.
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let hash = Sha256::digest(message);
        match &self.0 {
            Curve::K256(key) => k256::ecdsa::Signature::from_slice(signature)
                .is_ok_and(|sig| sig.normalize_s().is_none() && key.verify_prehash(&hash, &sig).is_ok()),
            Curve::P256(key) => p256::ecdsa::Signature::from_slice(signature)
                .is_ok_and(|sig| sig.normalize_s().is_none() && key.verify_prehash(&hash, &sig).is_ok()),
        }
    }

    fn k256(point: &[u8]) -> Result<Self, KeyError> {
        let key = k256::ecdsa::VerifyingKey::from_sec1_bytes(point).map_err(|_| KeyError)?;
        Ok(Self(Curve::K256(key)))
    }

    fn p256(point: &[u8]) -> Result<Self, KeyError> {
        let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(point).map_err(|_| KeyError)?;
        Ok(Self(Curve::P256(key)))
    }
}

/// As a Multikey.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, point) = match &self.0 {
            Curve::K256(key) => (K256_CODE, key.to_encoded_point(true).as_bytes().to_vec()),
            Curve::P256(key) => (P256_CODE, key.to_encoded_point(true).as_bytes().to_vec()),
        };
        write!(f, "z{}", base58::encode(&[&code[..], &point].concat()))
    }
}

/// Base58 is the one encoding that documents use.
fn multibase(text: &str) -> Result<Vec<u8>, KeyError> {
    let digits = text.strip_prefix('z').filter(|_| text.len() <= TEXT_LEN_MAX).ok_or(KeyError)?;
    base58::decode(digits).ok_or(KeyError)
}

/// For tests elsewhere that make keys.
#[cfg(test)]
pub(crate) fn base58_of(bytes: &[u8]) -> String {
    base58::encode(bytes)
}

#[cfg(test)]
mod tests;

//! Vectors: the protocol's interoperability files (crypto/signature-fixtures.json, crypto/w3c_didkey_*.json).
#![allow(clippy::unwrap_used)]

use k256::ecdsa::signature::hazmat::PrehashSigner;

use super::*;

const K256: &str = "zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme";
const P256: &str = "zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169";

fn signer() -> k256::ecdsa::SigningKey {
    k256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap()
}

fn key_of(signer: &k256::ecdsa::SigningKey) -> PublicKey {
    PublicKey::k256(signer.verifying_key().to_encoded_point(true).as_bytes()).unwrap()
}

#[test]
fn a_key_of_either_curve_is_read_and_written_back() {
    for text in [K256, P256] {
        assert_eq!(PublicKey::from_multikey(text).unwrap().to_string(), text);
        assert_eq!(PublicKey::from_method("Multikey", text).unwrap().to_string(), text);
    }
}

#[test]
fn the_older_types_are_read_compressed_or_not() {
    let signer = signer();
    for compressed in [true, false] {
        let point = signer.verifying_key().to_encoded_point(compressed);
        let text = format!("z{}", base58::encode(point.as_bytes()));
        let key = PublicKey::from_method("EcdsaSecp256k1VerificationKey2019", &text).unwrap();
        assert_eq!(key, key_of(&signer));
    }
    // Of a compressed point of one curve, every other one can be read as one of the other.
    let whole = signer.verifying_key().to_encoded_point(false);
    let text = format!("z{}", base58::encode(whole.as_bytes()));
    assert!(PublicKey::from_method("EcdsaSecp256r1VerificationKey2019", &text).is_err());
}

#[test]
fn what_is_no_key_is_refused() {
    let long = format!("z{}", "1".repeat(200));
    for text in ["", "z", "Q3shok", "z0OIl", &K256[..40], &format!("{K256}1"), "mAQ", &long] {
        assert!(PublicKey::from_multikey(text).is_err(), "{text:?} was accepted");
    }
    assert!(PublicKey::from_method("Ed25519VerificationKey2020", K256).is_err());
}

#[test]
fn a_signature_counts_for_its_message_and_key_alone() {
    let signer = signer();
    let signature: k256::ecdsa::Signature = signer.sign_prehash(&Sha256::digest(b"said")).unwrap();
    let key = key_of(&signer);
    assert!(key.has_signed(b"said", &signature.to_bytes()));
    assert!(!key.has_signed(b"other", &signature.to_bytes()));
    assert!(!PublicKey::from_multikey(K256).unwrap().has_signed(b"said", &signature.to_bytes()));
    assert!(!PublicKey::from_multikey(P256).unwrap().has_signed(b"said", &signature.to_bytes()));
    for cut in [&signature.to_bytes()[..63], &[], &[0; 64], &[0xff; 64]] {
        assert!(!key.has_signed(b"said", cut));
    }
    let mut longer = signature.to_bytes().to_vec();
    longer.push(0);
    assert!(!key.has_signed(b"said", &longer), "a byte too many");
}

/// p256's own verification accepts the high one.
#[test]
fn the_higher_s_is_refused_on_both_curves() {
    let hash = Sha256::digest(b"said");
    let k256_signer = signer();
    let low: k256::ecdsa::Signature = k256_signer.sign_prehash(&hash).unwrap();
    let high = k256::ecdsa::Signature::from_scalars(low.r(), -*low.s()).unwrap();
    let key = key_of(&k256_signer);
    assert!(key.has_signed(b"said", &low.to_bytes()) && !key.has_signed(b"said", &high.to_bytes()));

    let p256_signer = p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap();
    let any: p256::ecdsa::Signature = p256_signer.sign_prehash(&hash).unwrap();
    let low = any.normalize_s().unwrap_or(any);
    let high = p256::ecdsa::Signature::from_scalars(low.r(), -*low.s()).unwrap();
    let key = PublicKey::p256(p256_signer.verifying_key().to_encoded_point(true).as_bytes()).unwrap();
    assert!(key.has_signed(b"said", &low.to_bytes()) && !key.has_signed(b"said", &high.to_bytes()));
}

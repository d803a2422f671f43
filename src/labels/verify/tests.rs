//! Signatures: over what, by whom, and how often the labeler's document is asked for.
#![allow(clippy::unwrap_used)]

use k256::ecdsa::signature::hazmat::PrehashSigner;
use sha2::{Digest, Sha256};

use super::*;
use crate::labels::decode::tests::{map, plain, t};
use crate::labels::decode::{Message, message};

fn signer() -> k256::ecdsa::SigningKey {
    k256::ecdsa::SigningKey::from_slice(&[9; 32]).unwrap()
}

fn key() -> PublicKey {
    let code = [&[0xe7, 0x01][..], signer().verifying_key().to_encoded_point(true).as_bytes()].concat();
    PublicKey::from_multikey(&format!("z{}", crate::atproto::key::base58_of(&code))).unwrap()
}

/// A label whose signature is over these fields, which stand in their order.
fn signed_over(sent: &[(&'static str, Value)], signed: &[(&'static str, Value)]) -> Label {
    let mut bytes = Vec::new();
    cbor::write(&map(signed), &mut bytes);
    let sig: k256::ecdsa::Signature = signer().sign_prehash(&Sha256::digest(&bytes)).unwrap();
    let mut sent = sent.to_vec();
    sent.push(("sig", Value::Bytes(sig.to_bytes().to_vec())));
    let mut frame = Vec::new();
    cbor::write(&map(&[("op", Value::Int(1)), ("t", t("#labels"))]), &mut frame);
    cbor::write(&map(&[("seq", Value::Int(1)), ("labels", Value::List(vec![map(&sent)]))]), &mut frame);
    let Message::Labels { labels, .. } = message(&frame).unwrap() else { panic!() };
    labels.into_iter().next().unwrap().unwrap()
}

fn verdict(label: &Label) -> Verdict {
    judge(label, &Did::parse("did:plc:labeler").unwrap(), Some(&key()), true)
}

/// The label with a field in its place.
fn and(key: &'static str, value: Value) -> Vec<(&'static str, Value)> {
    let mut fields = plain("did:plc:alice");
    fields.push((key, value));
    fields.sort_by_key(|(key, _)| *key);
    fields
}

#[test]
fn each_field_of_a_label_is_signed() {
    for (field, value, other) in [
        ("cid", t("bafya"), t("bafyb")),
        ("exp", t("2027-01-01T00:00:00Z"), t("2028-01-01T00:00:00Z")),
        ("exp", t("2027-01-01T00:00:00Z"), t("2027-01-01T00:00:00.000Z")),
        ("neg", Value::Bool(true), Value::Bool(false)),
    ] {
        let fields = and(field, value);
        assert_eq!(verdict(&signed_over(&fields, &fields)), Verdict::Good, "{field}");
        assert_eq!(verdict(&signed_over(&and(field, other), &fields)), Verdict::Bad, "{field}");
        assert_eq!(verdict(&signed_over(&plain("did:plc:alice"), &fields)), Verdict::Bad, "{field}");
    }
    for field in ["cts", "uri", "val", "ver"] {
        let fields = plain("did:plc:alice");
        let mut sent = fields.clone();
        let at = sent.iter().position(|(key, _)| *key == field).unwrap();
        sent[at].1 = match field {
            "ver" => Value::Int(2),
            "cts" => t("2026-01-02T03:04:05.679Z"),
            "uri" => t("did:plc:bob"),
            _ => t("!hide"),
        };
        assert_eq!(verdict(&signed_over(&sent, &fields)), Verdict::Bad, "{field}");
    }
}

/// What @skyware/labeler and the reference labeler do.
#[test]
fn a_negation_that_is_false_may_be_signed_or_not() {
    let with = and("neg", Value::Bool(false));
    assert_eq!(verdict(&signed_over(&with, &with)), Verdict::Good);
    assert_eq!(verdict(&signed_over(&with, &plain("did:plc:alice"))), Verdict::Good);
    assert_eq!(verdict(&signed_over(&plain("did:plc:alice"), &with)), Verdict::Bad, "nobody sent it");
}

#[test]
fn what_the_specification_does_not_know_is_not_signed() {
    let fields = plain("did:plc:alice");
    assert_eq!(verdict(&signed_over(&and("zzz", Value::Int(1)), &fields)), Verdict::Good);
}

// S36: hipstersmoothie/standard-reader#92
#[test]
fn a_label_of_another_source_or_without_a_signature_does_not_count() {
    let fields = plain("did:plc:alice");
    let good = signed_over(&fields, &fields);
    let unsigned = Label { sig: None, ..good.clone() };
    assert_eq!(verdict(&unsigned), Verdict::Unsigned);
    let broken = Label { sig: Some(vec![0; 64]), ..good.clone() };
    assert_eq!(verdict(&broken), Verdict::Bad);
    let other = Did::parse("did:plc:other").unwrap();
    assert_eq!(judge(&good, &other, Some(&key()), true), Verdict::Foreign);
    assert_eq!(judge(&good, &other, Some(&key()), false), Verdict::Foreign, "whether anybody asks or not");
    let src = Did::parse("did:plc:labeler").unwrap();
    assert_eq!(judge(&good, &src, None, true), Verdict::Bad, "without a key nothing is good");
    assert_eq!(judge(&unsigned, &src, None, false), Verdict::Unasked);
}

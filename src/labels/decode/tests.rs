//! What a message can be, and what a label.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::label::KEY_LEN_MAX;
use super::*;

pub(crate) fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

pub(crate) fn t(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// A label of the tests' labeler, without a signature.
pub(crate) fn plain(uri: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("cts", t("2026-01-02T03:04:05.678Z")),
        ("src", t("did:plc:labeler")),
        ("uri", t(uri)),
        ("val", t("!takedown")),
        ("ver", Value::Int(1)),
    ]
}

fn frame(header: &Value, body: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    cbor::write(header, &mut bytes);
    cbor::write(body, &mut bytes);
    bytes
}

fn of_kind(kind: &str, body: &Value) -> Vec<u8> {
    frame(&map(&[("op", Value::Int(1)), ("t", t(kind))]), body)
}

fn with(label: &[(&'static str, Value)]) -> Vec<u8> {
    of_kind("#labels", &map(&[("seq", Value::Int(7)), ("labels", Value::List(vec![map(label)]))]))
}

fn one(bytes: &[u8]) -> Result<Label, Fault> {
    match message(bytes).unwrap() {
        Message::Labels { seq: 7, labels } => labels.into_iter().next().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_label_keeps_its_texts_as_they_came() {
    let mut said = plain("did:plc:alice");
    said.extend([("exp", t("2027-01-01T00:00:00+00:00")), ("cid", t("bafy")), ("neg", Value::Bool(false))]);
    said.extend([("sig", Value::Bytes(vec![1])), ("later", Value::Int(5))]);
    let label = one(&with(&said)).unwrap();
    assert_eq!(label.cts.0, "2026-01-02T03:04:05.678Z");
    assert_eq!(label.exp.unwrap().0, "2027-01-01T00:00:00+00:00");
    assert_eq!((label.ver, label.neg, label.cid.as_deref()), (Some(1), Some(false), Some("bafy")));
}

#[test]
fn a_label_that_breaks_its_shape_is_told_alone() {
    let long = "x".repeat(KEY_LEN_MAX);
    let but = |key: &'static str, value: Value| {
        let mut said: Vec<_> = plain("did:plc:a").into_iter().filter(|(name, _)| *name != key).collect();
        said.push((key, value));
        one(&with(&said))
    };
    for (key, value, fault) in [
        ("src", t("alice.test"), "src"),
        ("src", Value::Int(1), "shape"),
        ("uri", t(""), "missing"),
        ("uri", t(&long), "too_long"),
        ("uri", t("did:plc:a\0"), "nul"),
        ("val", t(&"v".repeat(129)), "too_long"),
        ("cts", t("now"), "time"),
        ("cts", Value::Null, "missing"),
        ("exp", t("never"), "time"),
        ("neg", Value::Int(1), "shape"),
        ("sig", t("AAAA"), "shape"),
        ("sig", Value::Bytes(vec![0; 300]), "too_long"),
    ] {
        assert_eq!(but(key, value.clone()), Err(fault), "{key}: {value:?}");
    }
}

#[test]
fn notices_errors_and_unknown_kinds_are_told_apart() {
    let info = map(&[("name", t("OutdatedCursor")), ("message", t("old\n"))]);
    let heard = message(&of_kind("#info", &info)).unwrap();
    assert_eq!(heard, Message::Info { name: "OutdatedCursor".into(), said: "OutdatedCursor: old".into() });
    let error = frame(&map(&[("op", Value::Int(-1))]), &map(&[("error", t("FutureCursor"))]));
    let heard = message(&error).unwrap();
    assert_eq!(
        heard,
        Message::Error { name: "FutureCursor".into(), said: "FutureCursor: no message".into() }
    );
    assert_eq!(message(&of_kind("#tomorrow", &map(&[]))).unwrap(), Message::Unknown);
    let op = frame(&map(&[("op", Value::Int(5)), ("t", t("#labels"))]), &map(&[]));
    assert_eq!(message(&op).unwrap(), Message::Unknown);
}

#[test]
fn bad_framing_is_no_message() {
    let good = with(&plain("did:plc:a"));
    let mut longer = good.clone();
    longer.push(0xf6);
    let no_body = &good[..15];
    let no_list = of_kind("#labels", &map(&[("seq", Value::Int(7)), ("labels", Value::Int(1))]));
    let no_seq = of_kind("#labels", &map(&[("labels", Value::List(vec![]))]));
    let no_kind = frame(&map(&[("op", Value::Int(1))]), &map(&[]));
    let no_map = of_kind("#labels", &Value::List(vec![]));
    for bytes in [&longer[..], no_body, &no_list, &no_seq, &no_kind, &no_map, b"", b"<html>", b"{\"op\":1}"] {
        assert!(message(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn a_message_with_too_many_labels_is_not_taken() {
    let many = vec![map(&[]); LABELS_MAX + 1];
    let bytes = of_kind("#labels", &map(&[("seq", Value::Int(9)), ("labels", Value::List(many))]));
    assert_eq!(message(&bytes).unwrap(), Message::TooMany { seq: 9 });
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = message(&bytes);
    }
}

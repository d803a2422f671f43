//! Frames of the second wire as hosts send them, and as nobody should.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::Operation;
use super::*;

/// Keys in the order that the real servers write them.
const CREATE: &str = r#"{"$type":"message","payload":{"$type":"network.bsky.jetstream.subscribeEvents#commit","cid":"bafy","collection":"io.atcr.tag","did":"did:plc:a","operation":"create","record":{"a":[1,{"b":null}]},"rev":"3l","rkey":"r","seq":26210877813,"time":"2026-07-04T14:38:08.085434Z"}}"#;
const TIME: i64 = 1_783_175_888_085_434;

fn event(text: &str) -> Event<'_> {
    match decode_v2(text.as_bytes()).unwrap() {
        Message::Event(event) => event,
        other => panic!("no event: {other:?}"),
    }
}

fn of_kind(kind: &str, body: &Value) -> String {
    json!({"$type": "message", "payload": {
        "$type": format!("network.bsky.jetstream.subscribeEvents#{kind}"), "did": "did:plc:a", "seq": 5,
        "time": "2026-07-04T14:38:08Z", kind: body,
    }})
    .to_string()
}

fn with(key: &str, value: Value) -> String {
    let mut frame: Value = serde_json::from_str(CREATE).unwrap();
    frame["payload"][key] = value;
    frame.to_string()
}

fn without(key: &str) -> String {
    let mut frame: Value = serde_json::from_str(CREATE).unwrap();
    frame["payload"].as_object_mut().unwrap().remove(key).unwrap();
    frame.to_string()
}

fn kind_of(text: &str) -> &'static str {
    decode_v2(text.as_bytes()).expect_err(text).kind()
}

#[test]
fn a_commit_is_the_event_that_the_first_wire_would_have_sent() {
    let event = event(CREATE);
    assert!(matches!(event.did, Cow::Borrowed("did:plc:a")));
    assert_eq!((event.seq, event.time_us), (Some(26_210_877_813), TIME));
    let Kind::Commit(commit) = event.kind else { panic!("no commit") };
    assert_eq!(commit.operation, Operation::Create);
    assert_eq!((&*commit.rev, &*commit.collection, &*commit.rkey), ("3l", "io.atcr.tag", "r"));
    assert_eq!(commit.cid.as_deref(), Some("bafy"));
    assert_eq!(commit.record.unwrap().get(), r#"{"a":[1,{"b":null}]}"#);
}

/// happyview#80: a delete carries neither record nor cid.
#[test]
fn a_delete_needs_no_record_and_no_cid() {
    let mut frame: Value = serde_json::from_str(CREATE).unwrap();
    let payload = frame["payload"].as_object_mut().unwrap();
    payload["operation"] = json!("delete");
    payload.remove("record");
    payload.remove("cid");
    let text = frame.to_string();
    let Kind::Commit(commit) = event(&text).kind else { panic!("no commit") };
    assert!(commit.operation == Operation::Delete && commit.record.is_none() && commit.cid.is_none());
}

#[test]
fn account_identity_and_sync_wrap_what_the_relay_sent() {
    let account = of_kind(
        "account",
        &json!({"active": false, "did": "did:plc:a", "seq": 9, "time": "t", "status": "new"}),
    );
    let Kind::Account { active, status, seq, .. } = event(&account).kind else { panic!() };
    assert_eq!((active, status.as_deref(), seq), (false, Some("new"), Some(9)));
    let identity =
        of_kind("identity", &json!({"did": "did:plc:a", "handle": "a.test", "seq": 9, "time": "t"}));
    let Kind::Identity { handle, .. } = event(&identity).kind else { panic!() };
    assert_eq!(handle.as_deref(), Some("a.test"));
    let sync = of_kind(
        "sync",
        &json!({"did": "did:plc:a", "rev": "3l", "seq": 9, "time": "t", "blocks": {"$bytes": "AA"}}),
    );
    assert!(matches!(event(&sync).kind, Kind::Sync { rev: Some(rev) } if rev == "3l"));
    assert_eq!(event(&identity).seq, Some(5), "the host's number, not the relay's");
    for kind in ["commit", "identity", "account", "sync"] {
        assert_eq!(kind_of(&of_kind("x", &Value::Null).replace("#x", &format!("#{kind}"))), "missing_field");
    }
}

#[test]
fn the_time_is_when_the_host_saw_it_even_where_an_operator_changed_it_for_show() {
    let changed = with("witnessedAt", json!("2026-07-04T14:38:09Z"));
    assert_eq!(event(&changed).time_us, 1_783_175_889_000_000);
    assert_eq!(kind_of(&with("time", json!("yesterday"))), "bad_time");
    assert_eq!(kind_of(&with("time", json!("1969-12-31T23:59:59Z"))), "bad_time");
}

#[test]
fn a_notice_is_no_event_and_an_error_is_the_last_word() {
    let info = r##"{"$type":"message","payload":{"$type":"#info","name":"OutdatedCursor","message":"m"}}"##;
    assert!(matches!(decode_v2(info.as_bytes()), Ok(Message::Info(n)) if n.name == "OutdatedCursor"));
    let error = r#"{"$type":"error","error":"ConsumerTooSlow"}"#;
    assert!(matches!(decode_v2(error.as_bytes()), Ok(Message::Error(n)) if n.name == "ConsumerTooSlow"));
    assert_eq!(kind_of(r#"{"$type":"error","message":"m"}"#), "missing_field");
}

#[test]
fn what_is_newer_than_this_code_is_named_and_keeps_its_place() {
    let later = of_kind("label", &json!({}));
    let event = event(&later);
    assert!(matches!(&event.kind, Kind::Unknown(kind) if kind.ends_with("#label")));
    assert_eq!(event.seq, Some(5));
    for text in [r##"{"$type":"message","payload":{"$type":"#tip"}}"##, r#"{"$type":"pause"}"#] {
        assert!(matches!(decode_v2(text.as_bytes()), Ok(Message::Unknown(_))), "{text}");
    }
}

#[test]
fn a_missing_field_and_each_kind_of_bad_frame_has_its_label() {
    for key in ["did", "seq", "time", "rev", "operation", "collection", "rkey", "$type"] {
        assert_eq!(kind_of(&without(key)), "missing_field", "{key}");
    }
    assert_eq!(kind_of(r#"{"$type":"message"}"#), "missing_field");
    assert_eq!(kind_of(r#"{"did":"d","time_us":1,"kind":"commit"}"#), "missing_field", "the first wire's");
    assert_eq!(kind_of(&with("seq", json!(-1))), "negative_seq");
    assert_eq!(kind_of(&with("seq", json!("1"))), "bad_field");
    assert_eq!(kind_of(&with("operation", json!("upsert"))), "unknown_operation");
    assert_eq!(decode_v2(b"\xff").unwrap_err().kind(), "not_utf8");
    assert_eq!(kind_of("{"), "not_json");
}

/// jetstream-legacy#24: one nested record stopped every client that read it into a tree.
#[test]
fn a_record_nested_100_000_deep_is_harmless() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let frame = CREATE.replace(r#"{"a":[1,{"b":null}]}"#, &deep);
    let Kind::Commit(commit) = event(&frame).kind else { panic!() };
    assert_eq!(commit.record.unwrap().get(), deep);
    assert_eq!(kind_of(&CREATE.replace(r#""did:plc:a""#, &deep)), "bad_field");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_v2(&bytes);
    }

    #[test]
    fn no_damage_to_a_real_frame_makes_it_panic(at in 0..CREATE.len(), byte in any::<u8>(), cut in 0..CREATE.len()) {
        let mut bytes = CREATE.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = decode_v2(&bytes);
        prop_assert!(decode_v2(&bytes[..cut]).is_err());
    }

    #[test]
    fn a_written_event_is_read_back_whatever_its_words(
        words in prop::array::uniform5(any::<String>()), seq in 0..i64::MAX,
    ) {
        let text = json!({"payload": {
            "seq": seq, "time": "2026-07-04T14:38:08.085434Z", "rkey": words[3], "collection": words[2],
            "$type": "network.bsky.jetstream.subscribeEvents#commit", "rev": words[1], "did": words[0],
            "operation": "update", "record": {"text": words[4]},
        }, "$type": "message"}).to_string();
        let event = event(&text);
        prop_assert_eq!((&*event.did, event.seq, event.time_us), (&*words[0], Some(seq), TIME));
        let Kind::Commit(commit) = event.kind else { panic!("no commit") };
        prop_assert_eq!([&*commit.rev, &*commit.collection, &*commit.rkey], [&*words[1], &*words[2], &*words[3]]);
        prop_assert_eq!(commit.record.unwrap().get(), json!({"text": words[4]}).to_string());
    }
}

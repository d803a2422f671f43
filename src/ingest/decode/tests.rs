//! Frames as hosts send them, and as nobody should.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const CREATE: &str = r#"{"did":"did:plc:a","time_us":17,"kind":"commit","commit":{"rev":"3l","operation":"create","collection":"io.atcr.tag","rkey":"r","record":{"a":[1,{"b":null}]},"cid":"bafy"}}"#;

fn commit_of<'a>(event: &'a Event<'_>) -> &'a Commit<'a> {
    match &event.kind {
        Kind::Commit(commit) => commit,
        other => panic!("no commit: {other:?}"),
    }
}

fn kind_of(text: &str) -> &'static str {
    decode(text.as_bytes()).expect_err(text).kind()
}

fn with(path: &str, value: Value) -> String {
    let mut event: Value = serde_json::from_str(CREATE).unwrap();
    *event.pointer_mut(path).unwrap() = value;
    event.to_string()
}

fn without(parent: &str, key: &str) -> String {
    let mut event: Value = serde_json::from_str(CREATE).unwrap();
    event.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key).unwrap();
    event.to_string()
}

#[test]
fn an_event_is_borrowed_from_its_frame() {
    let event = decode(CREATE.as_bytes()).unwrap();
    assert!(matches!(event.did, Cow::Borrowed("did:plc:a")));
    assert_eq!(event.time_us, 17);
    let commit = commit_of(&event);
    assert!(matches!(commit.collection, Cow::Borrowed("io.atcr.tag")));
    assert!(matches!(commit.cid, Some(Cow::Borrowed("bafy"))));
    assert_eq!(commit.record.unwrap().get(), r#"{"a":[1,{"b":null}]}"#);
}

/// jetstream-legacy#24: one nested record stopped every client that read it into a tree.
#[test]
fn a_record_nested_100_000_deep_is_harmless() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let frame = CREATE.replace(r#"{"a":[1,{"b":null}]}"#, &deep);
    assert_eq!(commit_of(&decode(frame.as_bytes()).unwrap()).record.unwrap().get(), deep);
    let elsewhere = CREATE.replace(r#""time_us""#, &format!(r#""new":{deep},"time_us""#));
    assert_eq!(decode(elsewhere.as_bytes()).unwrap().time_us, 17);
    assert_eq!(kind_of(&CREATE.replace(r#""did:plc:a""#, &deep)), "bad_field");
}

/// happyview#80: a delete carries neither record nor cid.
#[test]
fn a_delete_needs_no_record_and_no_operation_needs_a_cid() {
    for operation in ["create", "update", "delete"] {
        let mut event: Value = serde_json::from_str(CREATE).unwrap();
        event["commit"]["operation"] = json!(operation);
        event["commit"].as_object_mut().unwrap().remove("cid");
        event["commit"].as_object_mut().unwrap().remove("record");
        let text = event.to_string();
        let event = decode(text.as_bytes()).unwrap();
        let commit = commit_of(&event);
        assert!(commit.cid.is_none() && commit.record.is_none());
        assert_eq!(format!("{:?}", commit.operation).to_lowercase(), operation);
    }
}

#[test]
fn a_missing_field_is_an_error_with_its_name() {
    for (parent, key) in [("", "did"), ("", "time_us"), ("", "kind"), ("", "commit")]
        .into_iter()
        .chain(["rev", "operation", "collection", "rkey"].map(|key| ("/commit", key)))
    {
        let error = decode(without(parent, key).as_bytes()).map(drop).unwrap_err();
        assert!(matches!(error, DecodeError::Missing(name) if name == key), "{key}: {error}");
    }
    assert_eq!(kind_of(r#"{"did":"d","time_us":1,"kind":"account","account":{"seq":1}}"#), "missing_field");
    assert_eq!(kind_of(r#"{"did":"d","time_us":1,"kind":"identity"}"#), "missing_field");
}

#[test]
fn each_kind_of_bad_frame_has_its_label() {
    assert_eq!(decode(b"{\"did\":\"\xff\"}").unwrap_err().kind(), "not_utf8");
    assert_eq!(decode(b"{\"new\":\"\xff\",\"did\":1}").unwrap_err().kind(), "not_utf8");
    for text in ["", "{", "nonsense", "{}x", &CREATE[..80], "{\"did\":\"\\ud800\"}"] {
        assert_eq!(kind_of(text), "not_json", "{text}");
    }
    assert_eq!(kind_of("[]"), "bad_field");
    assert_eq!(kind_of(&with("/time_us", json!(-1))), "negative_time");
    for time in [json!(1.5), json!("17"), json!(u64::MAX), json!({}), json!(true)] {
        assert_eq!(kind_of(&with("/time_us", time)), "bad_field");
    }
    assert_eq!(kind_of(&with("/commit/rev", json!(3))), "bad_field");
    assert_eq!(kind_of(&with("/commit/operation", json!("upsert"))), "unknown_operation");
}

#[test]
fn an_unknown_kind_is_an_event_and_unknown_fields_are_ignored() {
    let event = decode(br#"{"kind":"sync","sync":{"rev":"3l"},"did":"d","time_us":0}"#).unwrap();
    assert!(matches!(&event.kind, Kind::Unknown(kind) if kind == "sync"));
    let with_seq =
        CREATE.replace(r#""kind""#, r#""cursor":5,"kind""#).replace(r#""rev""#, r#""new":[],"rev""#);
    assert_eq!(decode(with_seq.as_bytes()).unwrap().time_us, 17);
}

#[test]
fn an_account_is_told_by_active_whatever_its_status() {
    for status in [json!("throttled"), json!("a word of tomorrow"), Value::Null] {
        let text = json!({"did": "d", "time_us": 1, "kind": "account",
            "account": {"active": false, "did": "d", "seq": 9, "time": "t", "status": status}})
        .to_string();
        let Kind::Account { active, status: told, seq, .. } = decode(text.as_bytes()).unwrap().kind else {
            panic!("no account")
        };
        assert_eq!((active, seq), (false, Some(9)));
        assert_eq!(told.as_deref(), status.as_str());
    }
}

#[test]
fn a_glance_tells_what_it_can_and_leaves_the_rest_to_the_decode() {
    let seen = |text: &str| glance(text.as_bytes()).map(|g| (g.time_us, format!("{:?}", g.about)));
    let commit = Some((17, r#"Commit { collection: "io.atcr.tag" }"#.to_owned()));
    assert_eq!(seen(CREATE), commit);
    assert_eq!(seen(&CREATE.replace(r#""kind""#, r#""cursor":5,"kind""#)), commit);
    let identity = r#"{"did":"d","time_us":1,"kind":"identity","identity":{"did":"d"}}"#;
    assert_eq!(seen(identity), Some((1, "Identity".into())));
    for unclear in [
        CREATE.replace("io.atcr", "io\\u002eatcr"),
        CREATE.replace("17", "1.7"),
        CREATE.replace("17", "017"),
        CREATE.replace("17", "1234567890123456789"),
        CREATE.replace(r#""did""#, r#" "did""#),
        identity.replace("identity", "sync"),
        String::new(),
    ] {
        assert_eq!(seen(&unclear), None, "{unclear}");
    }
}

/// An object whose fields stand in a drawn order.
fn object(fields: Vec<(&'static str, String)>) -> impl Strategy<Value = String> {
    Just(fields).prop_shuffle().prop_map(|fields| {
        let inside: Vec<_> = fields.iter().map(|(key, json)| format!("{}:{json}", json!(key))).collect();
        format!("{{{}}}", inside.join(","))
    })
}

/// A frame, its words (did, rev, collection, rkey, text), its time, and whether it has a cid.
fn any_commit() -> impl Strategy<Value = (String, [String; 5], i64, bool)> {
    (prop::array::uniform5(any::<String>()), 0..i64::MAX, any::<bool>()).prop_flat_map(
        |(words, time, known)| {
            let text = |word: &str| json!(word).to_string();
            let head =
                vec![("did", text(&words[0])), ("time_us", time.to_string()), ("kind", text("commit"))];
            let body = object(vec![
                ("rev", text(&words[1])),
                ("operation", text("update")),
                ("collection", text(&words[2])),
                ("rkey", text(&words[3])),
                ("record", json!({"text": words[4]}).to_string()),
                (if known { "cid" } else { "new" }, text(&words[4])),
            ]);
            let frame = body.prop_flat_map(move |body| {
                let mut fields = head.clone();
                fields.push(("commit", body));
                object(fields)
            });
            (frame, Just(words), Just(time), Just(known))
        },
    )
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let _ = glance(&bytes);
    }

    #[test]
    fn no_damage_to_a_real_frame_makes_it_panic(at in 0..CREATE.len(), byte in any::<u8>(), cut in 0..CREATE.len()) {
        let mut bytes = CREATE.as_bytes().to_vec();
        bytes[at] = byte;
        let told = glance(&bytes);
        if let (Ok(event), Some(told)) = (decode(&bytes), told) {
            prop_assert_eq!((&*event.did, event.time_us), (told.did, told.time_us));
        }
        let _ = decode(&bytes[..cut]);
        let _ = glance(&bytes[..cut]);
    }

    #[test]
    fn a_written_event_is_read_back_in_any_order_of_fields((frame, words, time, known) in any_commit()) {
        let event = decode(frame.as_bytes()).unwrap();
        let commit = commit_of(&event);
        prop_assert_eq!((&*event.did, event.time_us), (&*words[0], time));
        prop_assert_eq!([&*commit.rev, &*commit.collection, &*commit.rkey], [&*words[1], &*words[2], &*words[3]]);
        prop_assert_eq!(commit.record.unwrap().get(), json!({"text": words[4]}).to_string());
        prop_assert_eq!(commit.cid.as_deref(), known.then_some(&*words[4]));
        if let Some(told) = glance(frame.as_bytes()) {
            let about = About::Commit { collection: &commit.collection };
            prop_assert_eq!(told, Glance { did: &event.did, time_us: time, about });
        }
    }
}

//! What frames mean, and that the broken ones mean nothing.

use serde_json::{Value, json};

use super::*;
use crate::atproto::records::Record;

const NOW: i64 = 1_790_000_000_000_000;
const ALICE: &str = "did:plc:aliceaaaaaaaaaaaaaaaaaaa";
const HEX: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn known() -> Known {
    let mut known = Known::default();
    known.extend([ALICE].into_iter());
    known
}

fn seen(event: &Value) -> Projected {
    project(Wire::V1, event.to_string().as_bytes(), &known(), NOW)
}

fn tag() -> Value {
    json!({"repository": "hello", "tag": "v1", "manifestDigest": format!("sha256:{HEX}"), "updatedAt": "2026-09-01T12:00:00Z"})
}

fn commit(operation: &str, record: &Value) -> Value {
    let mut commit = json!({
        "rev": "3mptbypluud2a", "operation": operation, "collection": "io.atcr.tag", "rkey": "hello_v1",
        "cid": "bafyreiguce4jh7kcbmof3pmcvasifqtw24b6isakj5ve5ga2b4z4alpc4i",
    });
    if !record.is_null() {
        commit["record"] = record.clone();
    }
    json!({"did": ALICE, "time_us": NOW - 5, "kind": "commit", "commit": commit})
}

fn changed(event: &Value) -> (Change, Option<&'static str>) {
    match seen(event).what {
        What::Change(change, wrong) => (*change, wrong),
        other => panic!("{other:?}"),
    }
}

fn reason(event: &Value) -> &'static str {
    match seen(event).what {
        What::Dropped(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_create_and_an_update_carry_the_record() {
    for operation in ["create", "update"] {
        let (change, wrong) = changed(&commit(operation, &tag()));
        let State::Present(record) = &change.state else { panic!("{change:?}") };
        let Record::Tag(tag) = &**record else { panic!("{record:?}") };
        assert_eq!((tag.repository.as_str(), tag.tag.as_str(), wrong), ("hello", "v1", None));
        assert_eq!((change.did.as_str(), change.rkey.as_str()), (ALICE, "hello_v1"));
    }
}

/// happyview#80: deletes were received but not applied, since they carry neither record nor cid.
#[test]
fn a_delete_needs_no_record_and_no_cid() {
    let mut event = commit("delete", &Value::Null);
    event["commit"].as_object_mut().expect("an object").remove("cid");
    let (change, _) = changed(&event);
    assert_eq!((change.state, change.cid), (State::Absent, None));
}

#[test]
fn a_create_without_a_cid_is_still_a_create() {
    let mut event = commit("create", &tag());
    event["commit"].as_object_mut().expect("an object").remove("cid");
    let (change, _) = changed(&event);
    assert!(matches!(change.state, State::Present(_)));
}

#[test]
fn a_record_that_breaks_its_lexicon_is_unreadable_and_named() {
    let (change, wrong) = changed(&commit("create", &json!({"repository": "hello"})));
    assert_eq!(change.state, State::Unreadable);
    assert!(wrong.is_some());
}

/// jetstream-legacy#24: one deeply nested record stopped every client of the network that read it into a tree.
#[test]
fn a_record_nested_a_hundred_thousand_deep_is_unreadable_and_harmless() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = commit("create", &json!("HERE"))
        .to_string()
        .replace("\"HERE\"", &format!("{{\"repository\":{deep}}}"));
    let Projected { time_us, what, .. } = project(Wire::V1, text.as_bytes(), &known(), NOW);
    assert_eq!(time_us, Some(NOW - 5));
    assert!(matches!(what, What::Change(change, Some(_)) if change.state == State::Unreadable));
}

#[test]
fn account_and_identity_events_count_only_for_known_accounts() {
    let account = |did| json!({"did": did, "time_us": NOW, "kind": "account", "account": {"active": false, "did": did, "seq": 1, "time": "x", "status": "deactivated"}});
    let identity = |did| json!({"did": did, "time_us": NOW, "kind": "identity", "identity": {"did": did, "seq": 1, "time": "x"}});
    let stranger = "did:plc:strangerrrrrrrrrrrrrrrrr";
    assert_eq!(
        (reason(&account(stranger)), reason(&identity(stranger))),
        ("unknown_account", "unknown_account")
    );
    let did = Did::parse(ALICE).expect("a DID");
    assert_eq!(seen(&identity(ALICE)).what, What::Identity(did.clone()));
    let inactive = What::Account { did, active: false, status: Some("deactivated".into()) };
    assert_eq!(seen(&account(ALICE)).what, inactive);
}

#[test]
fn a_status_is_cut_and_cleaned_before_it_reaches_the_database() {
    let long = format!("a\u{0}{}", "b".repeat(500));
    let event = json!({"did": ALICE, "time_us": NOW, "kind": "account", "account": {"active": false, "status": long}});
    let What::Account { status: Some(status), .. } = seen(&event).what else { panic!() };
    assert_eq!(status, format!("a{}", "b".repeat(63)));
}

#[test]
fn an_event_from_the_future_is_dropped_and_moves_no_position() {
    for ahead in [AHEAD_MAX_US + 1, i64::MAX - NOW] {
        let mut event = commit("create", &tag());
        event["time_us"] = json!(NOW + ahead);
        assert_eq!(seen(&event), Projected { time_us: None, seq: None, what: What::Dropped("future") });
    }
    let mut event = commit("create", &tag());
    event["time_us"] = json!(NOW + AHEAD_MAX_US);
    assert_eq!(seen(&event).time_us, Some(NOW + AHEAD_MAX_US));
}

#[test]
fn what_makes_no_sense_is_dropped_with_a_reason() {
    let with = |change: fn(&mut Value)| {
        let mut event = commit("create", &tag());
        change(&mut event);
        event
    };
    let cases = [
        (with(|e| e["kind"] = json!("sync")), "unknown_kind"),
        (with(|e| e["commit"]["operation"] = json!("merge")), "unknown_operation"),
        (with(|e| e["commit"]["collection"] = json!("app.bsky.feed.post")), "foreign_collection"),
        (with(|e| e["commit"]["rkey"] = json!("a/b")), "bad_address"),
        (with(|e| e["commit"]["rev"] = json!("yesterday")), "bad_address"),
        (with(|e| e["did"] = json!("alice")), "bad_address"),
        (with(|e| drop(e["commit"].as_object_mut().expect("an object").remove("record"))), "missing_record"),
        (with(|e| drop(e.as_object_mut().expect("an object").remove("did"))), "missing_field"),
        (with(|e| e["time_us"] = json!("soon")), "bad_field"),
        (with(|e| e["time_us"] = json!(-1)), "negative_time"),
    ];
    for (event, expected) in cases {
        assert_eq!(reason(&event), expected, "{event}");
    }
    let dropped = |frame: &[u8]| project(Wire::V1, frame, &known(), NOW).what;
    assert_eq!(dropped(b"\xff\xfe{}"), What::Dropped("not_utf8"));
    assert_eq!(dropped(b"{\"did\":"), What::Dropped("not_json"));
}

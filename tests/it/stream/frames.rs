//! Messages that no good host sends: each is counted, costs itself alone, and the next good event arrives.

use localnet::{
    ids,
    jetstream::{Door, Raw},
    records,
};
use serde_json::{Value, json};

use super::{
    rows::On,
    stage::{DROPPED, EVENTS, Stage},
};
use crate::support::truth::Said;

const UNREADABLE: &str = "atcr_stream_unreadable_total";
const SKIPPED: &str = "atcr_stream_skipped_total";

/// A message, the metric that counts it, and the labels.
type Bad = (Vec<u8>, &'static str, &'static [(&'static str, &'static str)]);

/// jetstream-legacy#24, and the rest of what may come by mistake or malice.
#[tokio::test]
async fn each_bad_message_is_counted_and_costs_itself_alone() {
    let mut stage = Stage::on(On::Sqlite).await;
    let alice = stage.net.add_account("alice");
    stage.start_and_subscribe().await;
    let now = ids::now_us();
    let deep = ["[".repeat(100_000), "]".repeat(100_000)].concat();
    let future = now + 3_600_000_000;
    let tag = records::tag(&alice, "web", "v1", &ids::digest(b"1"), now).to_string();
    let bad: Vec<Bad> = vec![
        (commit(&alice, now, "create", "deep", &deep), UNREADABLE, &[("fault", "too_deep")]),
        (commit(&alice, now, "create", "empty", "{}"), UNREADABLE, &[("fault", "missing_field")]),
        (vec![b' '; 9 << 20], SKIPPED, &[]),
        (b"{\"did\":\"\xff\"}".to_vec(), DROPPED, &[("reason", "not_utf8")]),
        (b"{\"did\":\"did:plc:cut".to_vec(), DROPPED, &[("reason", "not_json")]),
        (commit(&alice, future, "create", "future", &tag), DROPPED, &[("reason", "future")]),
        (commit(&alice, now, "rename", "renamed", &tag), DROPPED, &[("reason", "unknown_operation")]),
        (commit(&alice, now, "create", "a/b", &tag), DROPPED, &[("reason", "bad_address")]),
        (commit(&alice, -1, "create", "before", &tag), DROPPED, &[("reason", "negative_time")]),
        (about(&alice, now, "commit", "{}"), DROPPED, &[("reason", "missing_field")]),
        (about(&alice, now, "sync", "{}"), DROPPED, &[("reason", "unknown_kind")]),
        (br#"{"error":"ConsumerTooSlow","message":"x"}"#.to_vec(), DROPPED, &[("reason", "missing_field")]),
    ];
    for (number, (bytes, metric, labels)) in bad.into_iter().enumerate() {
        let before = stage.metric(metric, labels);
        stage.net.jetstream(0).send_raw(Raw::Text(bytes));
        good_event(&stage, &alice, number).await;
        assert_eq!(stage.metric(metric, labels), before + 1.0, "{metric} {labels:?}");
    }
    stage.net.jetstream(0).send_raw(Raw::Binary(vec![0xff, 0xfe]));
    good_event(&stage, &alice, 100).await;
    assert_eq!(stage.metric(DROPPED, &[("reason", "not_utf8")]), 2.0);

    let unreadable = |rkey: &str| said(&alice, rkey, None, Value::Null);
    stage.becomes_the_fold_and(&[unreadable("deep"), unreadable("empty")]).await;
    assert_eq!(stage.net.jetstream(0).stats().connects, 1, "one connection lives through all");
    let saved = stage.rows.cursor(&stage.key(0)).await.unwrap();
    assert!(saved <= ids::now_us(), "an event of the future moved the position");
    stage.stop().await;
}

/// A time that is a little ahead can be a clock's fault, so the event counts; as a position it would skip all that has
/// yet to come before it.
#[tokio::test]
async fn an_event_that_is_a_little_ahead_skips_nothing() {
    let mut stage = Stage::on(On::Sqlite).await;
    let alice = stage.net.add_account("alice");
    stage.start_and_subscribe().await;
    let ahead = ids::now_us() + 300_000_000;
    let record = records::tag(&alice, "web", "v1", &ids::digest(b"1"), ids::now_us());
    let frame = commit(&alice, ahead, "create", "web_ahead", &record.to_string());
    stage.net.jetstream(0).send_raw(Raw::Text(frame));
    let early = said(&alice, "web_ahead", None, record);
    stage.becomes_the_fold_and(std::slice::from_ref(&early)).await;

    stage.net.jetstream(0).set_door(Door::Slam, usize::MAX);
    stage.net.jetstream(0).cut();
    good_put(&stage, &alice, 1);
    stage.net.jetstream(0).set_door(Door::Open, 0);
    stage.becomes_the_fold_and(&[early]).await;
    stage.stop().await;
}

/// Hosts leave the cid out at times; the record counts all the same.
#[tokio::test]
async fn a_record_without_cid_is_indexed() {
    let mut stage = Stage::on(On::Sqlite).await;
    let alice = stage.net.add_account("alice");
    stage.start_and_subscribe().await;
    let record = records::tag(&alice, "web", "v1", &ids::digest(b"1"), ids::now_us());
    let frame = commit(&alice, ids::now_us(), "create", "web_v1", &record.to_string());
    stage.net.jetstream(0).send_raw(Raw::Text(frame));
    stage.becomes_the_fold_and(&[said(&alice, "web_v1", None, record)]).await;
    stage.stop().await;
}

/// Publishes a good event and waits until it has been read.
async fn good_event(stage: &Stage, did: &str, number: usize) {
    let seen = stage.metric(EVENTS, &[("kind", "commit")]);
    good_put(stage, did, number);
    stage.saves_the_newest_position().await;
    assert!(stage.metric(EVENTS, &[("kind", "commit")]) > seen);
}

fn good_put(stage: &Stage, did: &str, number: usize) {
    let digest = ids::digest(&number.to_be_bytes());
    let (tag, rkey) = (format!("v{number}"), format!("web_v{number}"));
    stage.net.put(did, records::TAG, &rkey, records::tag(did, "web", &tag, &digest, ids::now_us()));
}

fn said(did: &str, rkey: &str, cid: Option<String>, value: Value) -> Said {
    let (did, collection, rkey) = (did.to_owned(), records::TAG.to_owned(), rkey.to_owned());
    Said { did, collection, rkey, cid, value: Some(value) }
}

/// A commit of a tag without a cid; the record as it is, whatever it is.
fn commit(did: &str, time_us: i64, operation: &str, rkey: &str, record: &str) -> Vec<u8> {
    let rev = ids::tid(time_us.max(0), 0);
    let head = json!({ "rev": rev, "operation": operation, "collection": records::TAG, "rkey": rkey });
    let head = head.to_string();
    let body = format!("{},\"record\":{record}}}", head.strip_suffix('}').unwrap());
    about(did, time_us, "commit", &body)
}

fn about(did: &str, time_us: i64, kind: &str, body: &str) -> Vec<u8> {
    format!(r#"{{"did":"{did}","time_us":{time_us},"kind":"{kind}","{kind}":{body}}}"#).into_bytes()
}

//! Hosts that fall silent, cut, refuse and forget: the rows come all the same, and the metrics say what happened.

use std::time::Duration;

use atcr_workers::ingest::connect::Backoff;
use localnet::{
    Net, ids,
    jetstream::{Door, JetstreamOptions, Limit, Mode, Raw},
    records,
    seed::{Seeded, Size, seed},
    traffic::Traffic,
};

use super::{
    rows::On,
    stage::{CONNECTS, DISCONNECTS, SOON, Stage},
};
use crate::support::eventually::eventually;

/// jetstream-legacy#48: a host stops sending after a minute; the socket stays open, and pings are not answered.
#[tokio::test]
async fn a_host_that_falls_silent_loses_no_event() {
    let (mut stage, mut traffic) = two_hosts().await;
    stage.net.jetstream(0).set_mode(Mode::Silent);
    publish(&stage.net, &mut traffic, 100).await;
    stage.becomes_the_fold().await;

    let [silent, good] = [stage.key(0), stage.key(1)];
    // For an unanswered ping, or sooner for want of events.
    assert_eq!(stage.metric(DISCONNECTS, &[("host", &silent)]), 1.0);
    assert_eq!(stage.metric(DISCONNECTS, &[("reason", "cut")]), 0.0);
    assert_eq!(stage.metric(CONNECTS, &[("host", &good), ("outcome", "connected")]), 1.0);
    assert_eq!(stage.metric("atcr_stream_connected", &[("host", &silent)]), 0.0);
    stage.rows.position_never_went_down(&silent).await;
    stage.rows.position_never_went_down(&good).await;
    stage.stop().await;
}

/// simonw/tools#308: a host completes the handshake and never sends a byte.
#[tokio::test]
async fn a_host_that_never_sends_a_byte_loses_no_event() {
    let (mut stage, mut traffic) = two_hosts().await;
    stage.net.jetstream(0).set_door(Door::Mute, usize::MAX);
    stage.net.jetstream(1).set_door(Door::Mute, 1);
    stage.net.jetstream(0).cut();
    publish(&stage.net, &mut traffic, 100).await;
    stage.becomes_the_fold().await;
    for number in 0..2 {
        let labels = [("host", &*stage.key(number)), ("reason", "nothing_ever")];
        assert!(stage.metric(DISCONNECTS, &labels) >= 1.0, "{number}");
    }
    stage.stop().await;
}

/// jetstream-legacy#27: while a client catches up, it is cut without a close frame at every 1,000 events.
#[tokio::test]
async fn a_host_that_cuts_at_every_1000_events_is_caught_up_with() {
    let mut stage = Stage::on(On::Sqlite).await;
    let alice = stage.net.add_account("alice");
    let jetstream = stage.net.jetstream(0);
    // The past of an hour and a half, an event a second: what the rewind of 10 s repeats is few.
    let past = ids::now_us() - 5_400_000_000;
    let publish = |number: i64| {
        let at = past + number * 1_000_000;
        let record = records::tag(&alice, "web", "latest", &ids::digest(&number.to_be_bytes()), at);
        jetstream.publish_line(commit(&alice, at, &format!("tag{}", number % 700), &record)).unwrap();
    };
    publish(0);
    stage
        .rows
        .execute(&format!(
            "INSERT INTO stream_cursor (wire, host, time_us, saved_at) VALUES ('v1', '{}', {past}, 0)",
            stage.key(0)
        ))
        .await;
    (1..5_000).for_each(publish);
    jetstream.set_limit(Some(Limit::CutAfter(1_000)));
    stage.follow.backoff = Backoff::default();
    stage.start().await;

    stage.saves_the_newest_position().await;
    stage.becomes_the_fold().await;
    let cuts = stage.metric(DISCONNECTS, &[("reason", "cut")]);
    // Five of them bring all. A slow machine has not written what it read by the time it connects again.
    assert!((4.0..=20.0).contains(&cuts), "{cuts} cuts");
    stage.rows.position_never_went_down(&stage.key(0)).await;
    stage.stop().await;
}

/// The same host cuts where all that it sent is younger than the rewind: a client that always goes back so far would
/// get the same events for ever.
#[tokio::test]
async fn a_host_that_cuts_within_the_rewind_is_caught_up_with() {
    let mut stage = Stage::on(On::Sqlite).await;
    stage.start_and_subscribe().await;
    let seeded = seed(&stage.net, Size::default(), 1);
    stage.saves_the_newest_position().await;
    stage.net.jetstream(0).set_limit(Some(Limit::CutAfter(100)));
    stage.net.jetstream(0).cut();
    publish(&stage.net, &mut Traffic::new(&seeded, 1, 0.1), 500).await;
    stage.becomes_the_fold().await;
    stage.stop().await;
}

/// idunno.Bluesky#499: an end in mid-frame broke every later receive.
#[tokio::test]
async fn ends_in_mid_frame_and_stops_in_mid_connect_leave_a_clean_new_socket() {
    let (mut stage, mut traffic) = one_host().await;
    for _ in 0..5 {
        publish(&stage.net, &mut traffic, 10).await;
        stage.net.jetstream(0).send_raw(Raw::Partial(vec![b'{'; 3_000]));
        publish(&stage.net, &mut traffic, 10).await;
    }
    stage.becomes_the_fold().await;

    stage.net.jetstream(0).set_door(Door::NoAnswer, 1);
    let connects = stage.net.jetstream(0).stats().connects;
    stage.net.jetstream(0).cut();
    assert!(localnet::until(SOON, || stage.net.jetstream(0).stats().connects > connects).await);
    stage.stop().await;
    publish(&stage.net, &mut traffic, 10).await;
    stage.net.jetstream(0).set_door(Door::Open, 0);
    stage.start().await;
    stage.becomes_the_fold().await;
    stage.stop().await;
}

/// indigo#974, indigo#975: a host forgets to close a subscriber that it dropped; a slow catch-up starts over each time.
#[tokio::test]
async fn a_forgotten_subscriber_resumes_from_its_last_event() {
    let (mut stage, mut traffic) = one_host().await;
    stage.follow.rewind = Duration::ZERO;
    stage.stop().await;
    stage.start_and_subscribe().await;
    publish(&stage.net, &mut traffic, 50).await;
    stage.becomes_the_fold().await;
    stage.saves_the_newest_position().await;
    let last = stage.net.jetstream(0).newest_us();

    stage.net.jetstream(0).set_mode(Mode::Frozen);
    publish(&stage.net, &mut traffic, 50).await;
    let asked = stage.net.jetstream(0).stats().queries.len();
    assert!(localnet::until(SOON, || stage.net.jetstream(0).stats().queries.len() > asked).await);
    stage.net.jetstream(0).set_mode(Mode::Normal);
    stage.becomes_the_fold().await;
    assert_eq!(stage.net.jetstream(0).stats().cursors()[asked], Some(last));
    stage.stop().await;
}

/// MarshalX/atproto#489: after a spell of 503s the client hangs on a host that accepts and stays silent.
/// blacksky-algorithms/rsky#76: and nothing tells so.
#[tokio::test]
async fn a_spell_of_503s_and_then_silence_is_outlived_unattended_and_counted() {
    let (mut stage, mut traffic) = one_host().await;
    let jetstream = stage.net.jetstream(0);
    jetstream.set_door(Door::Status(503), usize::MAX);
    jetstream.cut();
    let refused = [("outcome", "status_5xx")];
    eventually("20 refusals", SOON, async || {
        let seen = stage.metric(CONNECTS, &refused);
        if seen >= 20.0 { Ok(()) } else { Err(seen) }
    })
    .await;
    jetstream.set_door(Door::Mute, 1);
    publish(&stage.net, &mut traffic, 50).await;
    stage.becomes_the_fold().await;
    assert_eq!(stage.metric(DISCONNECTS, &[("reason", "cut")]), 1.0);
    assert_eq!(stage.metric(DISCONNECTS, &[("reason", "nothing_ever")]), 1.0);
    stage.stop().await;
    assert_eq!(stage.metric("atcr_stream_ends_total", &[("reason", "stopped")]), 1.0);
}

/// One host, a seeded network, and the position of all that.
async fn one_host() -> (Stage, Traffic) {
    followed(Stage::on(On::Sqlite).await).await
}

async fn two_hosts() -> (Stage, Traffic) {
    followed(Stage::with(On::Sqlite, vec![JetstreamOptions::default(); 2]).await).await
}

async fn followed(mut stage: Stage) -> (Stage, Traffic) {
    stage.start_and_subscribe().await;
    let seeded: Seeded = seed(&stage.net, Size::default(), 1);
    stage.becomes_the_fold().await;
    stage.saves_the_newest_position().await;
    (stage, Traffic::new(&seeded, 1, 0.2))
}

async fn publish(net: &Net, traffic: &mut Traffic, steps: usize) {
    for _ in 0..steps {
        traffic.step(net);
        tokio::task::yield_now().await;
    }
}

fn commit(did: &str, time_us: i64, rkey: &str, record: &serde_json::Value) -> Vec<u8> {
    let commit = serde_json::json!({
        "rev": ids::tid(time_us, 0), "operation": "update", "collection": records::TAG, "rkey": rkey,
        "record": record, "cid": ids::cid(record),
    });
    serde_json::json!({ "did": did, "time_us": time_us, "kind": "commit", "commit": commit })
        .to_string()
        .into_bytes()
}

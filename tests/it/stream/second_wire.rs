//! The second wire, from its frames to the rows: the same index, numbers for positions, and what only it says.

use localnet::{
    ids,
    jetstream::{Door, Raw},
    records,
    seed::{Size, seed},
    traffic::Traffic,
};

use super::{
    rows::On,
    stage::{CHANGED, CONNECTS, DISCONNECTS, DROPPED, EVENTS, SOON, Stage},
};
use crate::support::eventually::eventually;

#[tokio::test]
async fn the_second_wire_leaves_what_the_first_one_leaves() {
    for on in [On::Sqlite, On::Postgres] {
        let (mut stage, mut traffic) = followed(on).await;
        let tags = stage.net.records(records::TAG);
        let (did, rkey) = tags.keys().next().unwrap();
        stage.net.delete(did, records::TAG, rkey).unwrap();
        (0..200).for_each(|_| traffic.step(&stage.net));
        stage.becomes_the_fold().await;
        stage.saves_the_newest_number().await;
        stage.stop().await;

        // Nobody listens meanwhile; the number finds what was said.
        let last = stage.rows.number(&stage.key(0)).await;
        (0..200).for_each(|_| traffic.step(&stage.net));
        stage.start_and_subscribe().await;
        stage.becomes_the_fold().await;
        assert_eq!(stage.net.jetstream(0).stats().cursors().last(), Some(&last));
        let asked = stage.net.jetstream(0).stats().queries;
        let right = |query: &String| query.contains("collections=io.atcr.tag") && !query.contains("wanted");
        assert!(asked.iter().all(right), "{asked:?}");
        assert_eq!(stage.rows.requests().await, [""; 0]);
        stage.rows.position_never_went_down(&stage.key(0)).await;
        stage.stop().await;
    }
}

/// What the repository holds by now, the stream does not tell: it has to be read, whoever crashes in between.
#[tokio::test]
async fn a_known_repository_that_has_to_be_read_again_is_asked_for_once() {
    for on in [On::Sqlite, On::Postgres] {
        let (mut stage, _) = followed(on).await;
        let known = stage.net.dids().into_iter().find(|did| did.starts_with("did:plc:")).unwrap();
        stage.net.sync_event("did:plc:strangerrrrrrrrrrrrrrrrr");
        stage.net.sync_event(&known);
        stage.asks_for(&[&format!("{known} sync")]).await;
        stage.net.sync_event(&known);
        stage.saves_the_newest_number().await;
        assert_eq!(stage.rows.requests().await, [format!("{known} sync")]);
        assert_eq!(stage.metric(EVENTS, &[("kind", "sync")]), 2.0);
        assert!(stage.metric(DROPPED, &[("reason", "unknown_account")]) >= 1.0);
        assert!(stage.metric("atcr_backfill_requests_total", &[("reason", "sync")]) >= 1.0);
        stage.becomes_the_fold().await;
        stage.stop().await;
    }
}

// S14: bluesky-social/indigo#837
#[tokio::test]
async fn the_event_of_the_saved_number_comes_again_and_has_no_second_effect() {
    for on in [On::Sqlite, On::Postgres] {
        let (mut stage, _) = followed(on).await;
        let known = stage.net.dids().remove(0);
        stage.net.identity_event(&known);
        stage.saves_the_newest_number().await;
        let changed = stage.metric(CHANGED, &[]);
        let seen = stage.metric(EVENTS, &[]);
        for again in 1..=3 {
            let sent = stage.net.jetstream(0).stats().events_sent;
            stage.net.jetstream(0).cut();
            let repeated = || stage.net.jetstream(0).stats().events_sent == sent + 1;
            assert!(localnet::until(SOON, repeated).await, "{again}");
            let last = i64::try_from(stage.net.jetstream(0).next_seq()).unwrap() - 1;
            assert_eq!(stage.net.jetstream(0).stats().cursors().last(), Some(&Some(last)));
        }
        // What follows shows that the repetitions were passed.
        stage.net.put(&known, records::STAR, "after", records::star(&known, "web", ids::now_us()));
        stage.becomes_the_fold().await;
        assert_eq!(stage.metric(EVENTS, &[]), seen + 1.0);
        assert_eq!(stage.metric(CHANGED, &[]), changed + 1.0);
        stage.stop().await;
    }
}

#[tokio::test]
async fn an_error_frame_ends_the_connection_by_its_name_and_loses_nothing() {
    let (mut stage, mut traffic) = followed(On::Sqlite).await;
    for (name, reason) in [("ConsumerTooSlow", "too_slow"), ("Tomorrow", "error_frame")] {
        (0..50).for_each(|_| traffic.step(&stage.net));
        stage.net.jetstream(0).send_error(name, "on command");
        (0..50).for_each(|_| traffic.step(&stage.net));
        stage.counts(DISCONNECTS, &[("reason", reason)], 1.0).await;
        stage.becomes_the_fold().await;
    }
    stage.net.jetstream(0).send_info("Tomorrow", "of no consequence");
    stage.counts(DROPPED, &[("reason", "info")], 1.0).await;
    assert_eq!(stage.rows.requests().await, [""; 0]);
    stage.stop().await;
}

#[tokio::test]
async fn each_bad_message_of_the_second_wire_costs_itself_alone() {
    let (mut stage, mut traffic) = followed(On::Sqlite).await;
    let kind = "network.bsky.jetstream.subscribeEvents#sync";
    let known = stage.net.dids().remove(0);
    let sync = |fields: &str| {
        format!(
            r#"{{"$type":"message","payload":{{"$type":"{kind}","did":"{known}","sync":{{}},{fields}}}}}"#
        )
    };
    let time = r#""time":"2026-09-01T00:00:00Z""#;
    let bad = [
        ("{".to_owned(), "not_json"),
        (r#"{"did":"did:plc:a","time_us":1,"kind":"commit"}"#.to_owned(), "missing_field"),
        (sync(time), "missing_field"),
        (sync(&format!(r#""seq":-1,{time}"#)), "negative_seq"),
        (sync(&format!(r#""seq":"1",{time}"#)), "bad_field"),
        (sync(r#""seq":1,"time":"now""#), "bad_time"),
        (sync(r#""seq":9007199254740991,"time":"2999-01-01T00:00:00Z""#), "future"),
        (r#"{"$type":"tomorrow"}"#.to_owned(), "unknown_kind"),
    ];
    for (text, reason) in bad {
        let before = stage.metric(DROPPED, &[("reason", reason)]);
        stage.net.jetstream(0).send_raw(Raw::Text(text.into_bytes()));
        traffic.step(&stage.net);
        stage.saves_the_newest_number().await;
        assert_eq!(stage.metric(DROPPED, &[("reason", reason)]), before + 1.0, "{reason}");
    }
    stage.becomes_the_fold().await;
    assert_eq!(stage.net.jetstream(0).stats().handshakes, 1, "one connection lives through all");
    assert_eq!(stage.rows.requests().await, [""; 0]);
    stage.stop().await;
}

#[tokio::test]
async fn a_refusal_before_the_upgrade_is_counted_and_outlived() {
    let (mut stage, mut traffic) = followed(On::Sqlite).await;
    let doors = [
        (Door::Xrpc(503, "ServiceUnavailable".into()), "status_5xx"),
        (Door::Xrpc(400, "InvalidRequest".into()), "status_4xx"),
        (Door::Html(502), "status_5xx"),
        (Door::Html(200), "status_other"),
        (Door::Slam, "handshake"),
    ];
    for (door, outcome) in doors {
        let before = stage.metric(CONNECTS, &[("outcome", outcome)]);
        stage.net.jetstream(0).set_door(door, 1);
        stage.net.jetstream(0).cut();
        stage.counts(CONNECTS, &[("outcome", outcome)], before + 1.0).await;
        (0..20).for_each(|_| traffic.step(&stage.net));
        stage.becomes_the_fold().await;
    }
    assert_eq!(stage.rows.requests().await, [""; 0], "one refusal without a name is not about the position");
    stage.stop().await;
}

#[tokio::test]
async fn a_host_that_names_a_time_is_not_asked_before() {
    let (mut stage, mut traffic) = followed_by(On::Sqlite, 2).await;
    let first = stage.net.jetstream(0);
    first.set_door(Door::RetryAfter(3_600), 1);
    first.cut();
    stage.counts(CONNECTS, &[("outcome", "status_4xx")], 1.0).await;
    let asked = first.stats().queries.len();
    // Round after round the other one is tried.
    stage.net.jetstream(1).set_door(Door::Slam, 10);
    stage.net.jetstream(1).cut();
    eventually("the other host is asked ten times more", SOON, async || {
        let failed = stage.metric(CONNECTS, &[("host", &stage.key(1)), ("outcome", "handshake")]);
        if failed >= 10.0 { Ok(()) } else { Err(failed) }
    })
    .await;
    assert_eq!(stage.net.jetstream(0).stats().queries.len(), asked);
    (0..20).for_each(|_| traffic.step(&stage.net));
    stage.becomes_the_fold().await;
    stage.stop().await;
}

/// One host of the second wire, a seeded network, and the number of all that.
pub(super) async fn followed(on: On) -> (Stage, Traffic) {
    followed_by(on, 1).await
}

/// So many hosts.
pub(super) async fn followed_by(on: On, hosts: usize) -> (Stage, Traffic) {
    let mut stage = Stage::with(on, vec![Default::default(); hosts]).await;
    stage.follow_second_wire();
    // A quiet host is left for the other one, which is not what these tests are about.
    stage.follow.idle_limit = SOON;
    stage.begins_an_hour_ago();
    stage.start_and_subscribe().await;
    let seeded = seed(&stage.net, Size::default(), 1);
    stage.becomes_the_fold().await;
    stage.saves_the_newest_number().await;
    (stage, Traffic::new(&seeded, 1, 0.2))
}

//! Whatever the order and however often events come, the index ends in what the repositories hold.

use std::time::Duration;

use localnet::{
    jetstream::JetstreamOptions,
    records,
    seed::{Size, seed},
    traffic::Traffic,
};

use super::{
    rows::On,
    stage::{CHANGED, EVENTS, SOON, Stage},
};
use crate::support::index::{self, part};

/// jetstream-legacy#42: events are dropped and reordered where replay meets the live stream. The host shuffles, shows
/// times early, repeats windows of the past and cuts; changes and deletions of the same records are among it.
#[tokio::test]
async fn shuffled_and_repeated_events_end_in_what_the_repositories_hold_on_sqlite() {
    shuffled_and_repeated_events_end_in_what_the_repositories_hold(On::Sqlite).await;
}

/// The same on PostgreSQL.
#[tokio::test]
async fn shuffled_and_repeated_events_end_in_what_the_repositories_hold_on_postgres() {
    shuffled_and_repeated_events_end_in_what_the_repositories_hold(On::Postgres).await;
}

async fn shuffled_and_repeated_events_end_in_what_the_repositories_hold(on: On) {
    let early = JetstreamOptions { jitter_us: 33_000, ..JetstreamOptions::default() };
    let mut stage = Stage::with(on, vec![early]).await;
    stage.start_and_subscribe().await;
    let seeded = seed(&stage.net, Size::default(), 1);

    let jetstream = stage.net.jetstream(0);
    let mut traffic = Traffic::new(&seeded, 1, 0.2);
    for round in 0..12 {
        jetstream.reorder(40);
        for step in 0..50 {
            traffic.step(&stage.net);
            let changing = some_tag(&seeded.users[0], round * 50 + step);
            stage.net.put(&seeded.users[0], records::TAG, "web_latest", changing);
            tokio::task::yield_now().await;
        }
        jetstream.reorder(0);
        match round % 3 {
            0 => jetstream.replay_last(120),
            1 => jetstream.cut(),
            _ => {}
        }
        assert!(jetstream.drained(SOON).await);
    }
    jetstream.replay_last(usize::MAX);

    stage.becomes_the_fold().await;
    stage.rows.position_never_went_down(&stage.key(0)).await;
    assert_eq!(stage.failure(), None);
    stage.stop().await;
}

fn some_tag(owner: &str, number: i64) -> serde_json::Value {
    let digest = localnet::ids::digest(&number.to_be_bytes());
    records::tag(owner, "web", "latest", &digest, 1_788_264_000_000_000 + number)
}

/// bluesky-social/indigo#837: a cursor that is inclusive to one side and exclusive to the other brings the last event
/// twice. Here the host sends it again after each cut, and once more the whole past.
#[tokio::test]
async fn an_event_that_comes_again_at_the_cursor_changes_nothing() {
    let mut stage = Stage::on(On::Sqlite).await;
    stage.follow.rewind = Duration::ZERO;
    stage.start_and_subscribe().await;
    seed(&stage.net, Size::default(), 1);
    stage.becomes_the_fold().await;
    stage.saves_the_newest_position().await;
    let (rows, changed) = (everything(&stage).await, stage.metric(CHANGED, &[]));
    assert!(changed > 0.0);

    for again in 1..=3 {
        let seen = stage.metric(EVENTS, &[]);
        stage.net.jetstream(0).cut();
        stage.counts(EVENTS, &[], seen + 1.0).await;
        let asked = stage.net.jetstream(0).stats().cursors();
        assert_eq!(asked.last().unwrap().unwrap(), stage.net.jetstream(0).newest_us(), "{again}");
    }
    let (seen, sent) = (stage.metric(EVENTS, &[]), stage.net.jetstream(0).stats().events_sent);
    stage.net.jetstream(0).replay_last(usize::MAX);
    stage.counts(EVENTS, &[], seen + (sent - 3) as f64).await;
    stage.stop().await;

    assert_eq!(everything(&stage).await, rows);
    assert_eq!(stage.metric(CHANGED, &[]), changed);
    stage.rows.position_never_went_down(&stage.key(0)).await;
}

/// gamesgamesgamesgamesgames/happyview#80: a delete brings neither record nor cid, and was not applied.
#[tokio::test]
async fn a_delete_without_record_and_cid_removes_the_rows_of_every_collection() {
    for on in [On::Sqlite, On::Postgres] {
        let mut stage = Stage::on(on).await;
        stage.start_and_subscribe().await;
        seed(&stage.net, Size::default(), 1);
        stage.becomes_the_fold().await;

        for collection in records::COLLECTIONS {
            let all = stage.net.records(collection);
            assert!(!all.is_empty(), "{collection}");
            for (did, rkey) in all.keys() {
                stage.net.delete(did, collection, rkey).unwrap();
            }
        }
        stage.becomes_the_fold().await;
        let rows = index::read(&stage.rows.url(), index::CONTENT).await.unwrap();
        let left: Vec<_> =
            rows.iter().filter(|(_, rows)| !rows.is_empty()).map(|(name, _)| name.as_str()).collect();
        assert_eq!(left, ["tombstones", "users"]);
        stage.stop().await;
    }
}

/// The content with revisions, and when each record last changed.
async fn everything(stage: &Stage) -> index::Rows {
    let mut parts = index::CONTENT.to_vec();
    parts.push(part("changed", "records", "did collection rkey rev cid state changed_at"));
    index::read(&stage.rows.url(), &parts).await.unwrap()
}

//! Which pushes are told, with which tag.

use std::collections::BTreeSet;
use std::time::Instant;

use atcr_workers::atproto::{Collection, State};
use atcr_workers::outbox::Trigger;
use atcr_workers::store::backfill::{ListedPart, Whole};
use atcr_workers::store::{Tx, WriteError};

use super::*;
use crate::store::on_both;
use crate::support::eventually::eventually;

on_both! {
    a_push_goes_out_at_once_with_the_tag_that_follows_it
    a_push_without_a_tag_goes_out_two_seconds_later
    a_tag_that_is_created_or_moved_later_is_a_push_of_its_own
    a_push_of_a_tag_that_was_delivered_with_the_same_content_is_none
    a_push_of_an_index_is_one_delivery_for_each_manifest
    what_a_backfill_finds_is_told_to_nobody
    what_is_replayed_or_rolled_back_is_told_once
    a_batch_tells_what_its_events_would_have_told_one_by_one
    only_the_webhooks_of_the_author_are_told
    a_payload_has_the_registrys_shape_and_names_the_user_by_did_without_a_handle
}

async fn a_push_goes_out_at_once_with_the_tag_that_follows_it(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    assert_eq!(stage.apply(&[present(USER, "m", 2, manifest("app", Some(HOLD), 1))]).await, 1);
    let waiting = stage.due().await;
    assert!(waiting.deliveries.is_empty() && waiting.next_in.unwrap() <= Duration::from_secs(2));
    assert_eq!(stage.apply(&[present(USER, "t", 3, tag("app", "latest", 1))]).await, 0);
    let due = stage.due().await.deliveries;
    assert_eq!(due.len(), 1);
    assert_eq!(json(&due[0])["push_data"]["tag"], "latest");
    // Both in one batch.
    let both = [
        present(USER, "n", 4, manifest("app", Some(HOLD), 2)),
        present(USER, "t", 5, tag("app", "latest", 2)),
    ];
    assert_eq!(stage.apply(&both).await, 1);
    assert_eq!(stage.put_in().await, ["push 03e9 latest", "push 03ea latest"]);
    assert_eq!(stage.due().await.deliveries.len(), 2);
}

async fn a_push_without_a_tag_goes_out_two_seconds_later(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    let begun = Instant::now();
    stage.apply(&[present(USER, "m", 2, manifest("app", Some(HOLD), 1))]).await;
    eventually(
        "it is due",
        SOON,
        async || {
            if stage.due().await.deliveries.len() == 1 { Ok(()) } else { Err(()) }
        },
    )
    .await;
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    // It has gone out: what comes now is another push.
    assert_eq!(stage.apply(&[present(USER, "t", 3, tag("app", "latest", 1))]).await, 1);
    assert_eq!(stage.put_in().await, ["push 03e9", "push 03e9 latest"]);
}

async fn a_tag_that_is_created_or_moved_later_is_a_push_of_its_own(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    let pushed = [1, 2].map(|n| present(USER, &format!("m{n}"), 2, manifest("app", Some(HOLD), n)));
    stage.apply(&pushed).await;
    for (n, to) in [(3, 1), (4, 2)] {
        assert_eq!(stage.apply(&[present(USER, "t", n, tag("app", "latest", to))]).await, 0);
    }
    stage.deliver().await;
    // Back, and forth again; then the same once more, which moves nothing; then it is made anew.
    for (n, to, told) in [(5, 1, 1), (6, 2, 1), (7, 2, 0)] {
        assert_eq!(stage.apply(&[present(USER, "t", n, tag("app", "latest", to))]).await, told, "{n}");
    }
    stage.apply(&[change(USER, "t", 8, Collection::Tag, State::Absent)]).await;
    assert_eq!(stage.apply(&[present(USER, "t", 9, tag("app", "latest", 2))]).await, 1);
    assert_eq!(stage.deliver().await.len(), 3);
    // One whose manifest nobody has seen.
    assert_eq!(stage.apply(&[present(USER, "t", 10, tag("app", "latest", 7))]).await, 0);
}

async fn a_push_of_a_tag_that_was_delivered_with_the_same_content_is_none(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    let again = |n: u32| {
        let mut pushed =
            [present(USER, "m", n, manifest("app", None, 1)), present(USER, "t", n, tag("app", "v1", 1))];
        pushed.iter_mut().for_each(|change| change.cid = Some("the same".into()));
        pushed
    };
    assert_eq!(stage.apply(&again(2)).await, 1);
    stage.deliver().await;
    let [manifest, tag] = again(3);
    assert_eq!(stage.apply(&[manifest]).await, 1);
    stage.apply(&[tag]).await;
    assert_eq!(stage.put_in().await, ["push 03e9 v1"]);
}

/// Public report goharbor/harbor#22073: one push fired many hooks, nobody knew how many.
async fn a_push_of_an_index_is_one_delivery_for_each_manifest(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    let mut pushed: Vec<_> =
        (1..=3).map(|n| present(USER, &format!("platform{n}"), 2, manifest("app", Some(HOLD), n))).collect();
    pushed.push(present(USER, "index", 3, manifest("app", Some(HOLD), 4)));
    pushed.push(present(USER, "t", 4, tag("app", "latest", 4)));
    assert_eq!(stage.apply(&pushed).await, 4);
    assert_eq!(stage.put_in().await, ["push 03e9", "push 03ea", "push 03eb", "push 03ec latest"]);
    let ids = stage.fixture.lines("SELECT id AS line FROM webhook_deliveries").await;
    let is_id = |id: &&String| {
        let digits = id.strip_prefix("whd_").unwrap();
        digits.len() == 26 && digits.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'))
    };
    assert_eq!(ids.iter().filter(is_id).collect::<BTreeSet<_>>().len(), 4, "{ids:?}");
}

async fn what_a_backfill_finds_is_told_to_nobody(fixture: Fixture) {
    let stage = Stage::new(fixture, &Trigger::SETTABLE).await;
    let found = vec![
        present(USER, "m", 5, manifest("app", Some(HOLD), 1)),
        present(USER, "t", 5, tag("app", "v1", 1)),
    ];
    let scans = vec![present(HOLD, "s", 5, scanned(1, 1, 1))];
    let stream: Vec<_> = found.iter().chain(&scans).cloned().collect();
    for (author, records) in [(USER, found), (HOLD, scans)] {
        let part = ListedPart { did: did(author), rev: rev(5), records, forced: false };
        let work = async move |tx: &mut Tx| tx.merge(&[&part]).await;
        stage.fixture.database.fenced(&stage.term, work).await.unwrap();
    }
    let wholes = [Whole { did: did(USER), rev: rev(6), collections: vec![Collection::Page] }];
    let deleted = async move |tx: &mut Tx| tx.delete_unlisted(&wholes).await;
    stage.fixture.database.fenced(&stage.term, deleted).await.unwrap();
    assert_eq!(stage.put_in().await, Vec::<String>::new());
    // Nor is it news when the stream brings it.
    assert_eq!(stage.apply(&stream).await, 0);
    // What it brings of later is.
    assert_eq!(stage.apply(&[present(USER, "u", 6, tag("app", "v2", 1))]).await, 1);
}

async fn what_is_replayed_or_rolled_back_is_told_once(fixture: Fixture) {
    let stage = Stage::new(fixture, &Trigger::SETTABLE).await;
    let events = [
        present(USER, "m", 2, manifest("app", Some(HOLD), 1)),
        present(USER, "t", 3, tag("app", "v1", 1)),
        present(HOLD, "s", 4, scanned(1, 3, 1)),
    ];
    let cut = events.to_vec();
    let work = async move |tx: &mut Tx| {
        tx.apply(&cut).await?;
        Err::<(), _>(WriteError::Database("cut".into()))
    };
    stage.fixture.database.fenced(&stage.term, work).await.unwrap_err();
    assert_eq!(stage.put_in().await, Vec::<String>::new());
    assert_eq!(stage.apply(&events).await, 3);
    for _ in 0..2 {
        assert_eq!(stage.apply(&events).await, 0);
        assert_eq!(stage.apply(&events[1..]).await, 0);
        stage.deliver().await;
    }
    assert_eq!(stage.put_in().await, ["push 03e9 v1", "scan:all 03e9", "scan:first 03e9"]);
}

/// A catch-up brings in one batch what came in many.
async fn a_batch_tells_what_its_events_would_have_told_one_by_one(fixture: Fixture) {
    let stage = Stage::new(fixture, &Trigger::SETTABLE).await;
    let events = [
        present(USER, "m", 2, manifest("app", Some(HOLD), 1)),
        present(USER, "n", 3, manifest("app", Some(HOLD), 2)),
        present(USER, "t", 4, tag("app", "latest", 1)),
        present(USER, "t", 5, tag("app", "latest", 2)),
        present(USER, "t", 6, tag("app", "latest", 1)),
        present(HOLD, "s", 7, scanned(1, 3, 1)),
        present(HOLD, "s", 8, scanned(1, 3, 2)),
        present(HOLD, "s", 9, scanned(1, 2, 3)),
    ];
    assert_eq!(stage.apply(&events[..4]).await, 2);
    // The first half again: a stream goes on from before where it was.
    assert_eq!(stage.apply(&events).await, 1 + 2 + 1 + 2);
    let mut told = stage.put_in().await;
    told.sort();
    let expected = [
        "push 03e9 latest",
        "push 03e9 latest",
        "push 03ea latest",
        "scan:all 03e9",
        "scan:all 03e9",
        "scan:all 03e9",
        "scan:changed 03e9",
        "scan:first 03e9",
    ];
    assert_eq!(told, expected);
}

async fn only_the_webhooks_of_the_author_are_told(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::ScanFirst]).await;
    let other = "did:plc:other";
    stage.apply(&[present(other, "self", 1, profile(None, 1))]).await;
    let [theirs, second] = [
        add(&stage.fixture, other, &[Trigger::Push]).await,
        add(&stage.fixture, USER, &[Trigger::Push]).await,
    ];
    assert_ne!(theirs, second);
    stage.apply(&[present(USER, "m", 2, manifest("app", Some(HOLD), 1))]).await;
    let whose = stage.fixture.lines("SELECT CAST(webhook_id AS TEXT) AS line FROM webhook_deliveries").await;
    assert_eq!(whose, [second.to_string()]);
}

async fn a_payload_has_the_registrys_shape_and_names_the_user_by_did_without_a_handle(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    let around = [
        present(USER, "m", 2, manifest("app", Some(HOLD), 1)),
        present(USER, "t", 3, tag("app", "v1", 1)),
        present("did:plc:fan", "s", 1, star(USER, "app")),
        present(HOLD, "n", 2, stats(USER, "app", 41, 1)),
    ];
    stage.apply(&around).await;
    let due = stage.due().await.deliveries.remove(0);
    let expected = serde_json::json!({
        "trigger": "push",
        "push_data": {
            "pushed_at": "1970-01-01T00:00:00.001001Z", "pusher": USER, "pusher_did": USER, "tag": "v1",
            "digest": format!("sha256:{:064x}", 1_001),
        },
        "repository": {
            "name": "app", "namespace": USER, "repo_name": format!("{USER}/app"), "repo_url": "",
            "media_type": "application/vnd.oci.image.manifest.v1+json", "star_count": 1, "pull_count": 41,
        },
        "hold": { "did": HOLD, "endpoint": "https://hold.example" },
    });
    assert_eq!(json(&due), expected);
    assert_eq!((due.trigger, due.attempt, due.url.as_str()), (Trigger::Push, 0, "https://ci.example/hook"));
    assert_eq!(due.secret.as_ref().unwrap().reveal(), "whsec_c2VjcmV0");
    assert!(!format!("{due:?}").contains("whsec"), "a secret is never printed");
    let given_up_after = due.give_up_at.0 - due.created_at.0;
    assert!((86_400_000_000..86_401_000_000).contains(&given_up_after), "{given_up_after}");
}

#[test]
fn the_longest_names_make_a_payload_that_is_within_its_bound() {
    use atcr_workers::outbox::event::{Event, Push};
    use atcr_workers::outbox::payload::{PAYLOAD_LEN_MAX, Subject, Surroundings, payload};
    // What JSON writes in six bytes for one.
    let name = |length: usize| "\u{1}".repeat(length);
    let event = Event::Push(Push {
        at: 1,
        media_type: name(128),
        hold: Some(format!("did:web:{}", "h".repeat(2_000))),
    });
    let around = Surroundings {
        user_did: format!("did:web:{}", "u".repeat(253)),
        user_handle: Some("a".repeat(253)),
        hold_endpoint: None,
        stars: i64::MAX,
        pulls: i64::MAX,
        tag: None,
    };
    let (repository, digest, tag) = (name(255), "d".repeat(128), name(128));
    let about = Subject { repository: &repository, digest: &digest, tag: &tag };
    let made = payload(Trigger::Push, about, &event, &around, &Site::default());
    assert!(made.len() > 4_000 && made.len() <= PAYLOAD_LEN_MAX, "{}", made.len());
}

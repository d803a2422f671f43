//! Managed holds: their tiers, who is told what, and what they say to it.

use std::time::{Duration, Instant};

use atcr_workers::store::Tx;
use localnet::network::{Curve, Fault, On, Site};

use super::stage::{SOON, Stage, TOLD};
use crate::store::fixture::Fixture;
use crate::store::on_both;
use crate::store::samples::{self, present};
use crate::support::eventually::eventually;

on_both! {
    two_holds_are_told_each_in_its_own_pace
    a_rank_above_the_holds_last_tier_becomes_its_last
    the_tiers_of_a_hold_that_does_not_answer_stay
    who_is_not_of_the_crew_is_told_of_once_a_record_appears
    a_member_who_came_back_is_told_of_again
    nobody_who_never_paid_is_put_down
    a_hold_that_does_not_take_the_token_keeps_no_other_waiting
    a_refusal_of_one_user_keeps_no_other_waiting
    a_hold_by_the_directory_is_found_and_told_with_the_other_curve
    thousands_who_wait_are_looked_through_at_once
}

/// With a join in the place of look-ups SQLite read all crew records of a hold for each who waits: 115 s for ten thousand.
async fn thousands_who_wait_are_looked_through_at_once(fixture: Fixture) {
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)";
    let statements = [
        format!("INSERT INTO users (did, first_seen) VALUES ('{FIRST}', 0)"),
        format!(
            "INSERT INTO records (did, collection, rkey, rev, state, changed_at) {numbers}
             SELECT '{FIRST}', 'io.atcr.hold.crew', 'k' || i, '3aaa', 'present', 0 FROM n"
        ),
        format!(
            "INSERT INTO crew (hold_did, rkey, member_did, role, permissions) {numbers}
             SELECT '{FIRST}', 'k' || i, 'did:plc:u' || i, 'write', '[]' FROM n"
        ),
        format!(
            "INSERT INTO crew_tier_sync (user_did, hold_did, desired_rank, awaits_crew, crew_rev) {numbers}
             SELECT 'did:plc:u' || i, '{FIRST}', 1, TRUE, CASE WHEN i = 77 THEN '3aab' ELSE '3aaa' END FROM n"
        ),
    ];
    for statement in statements {
        fixture.execute(&statement).await;
    }
    let begun = Instant::now();
    let joined = fixture.database.joined_crews(&samples::did(FIRST)).await.unwrap();
    assert_eq!(joined, [samples::did("did:plc:u77")]);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

const FIRST: &str = "did:web:hold1.test";
const SECOND: &str = "did:web:hold2.test";

fn at(host: &str) -> On {
    On::site(Site::Hosts).host(host)
}

async fn two_holds_are_told_each_in_its_own_pace(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    stage.net.add_hold("hold2", &["free", "paid"]);
    let (did, customer) = stage.member("alice", &[FIRST, SECOND]);
    stage.net.subscribe(&customer, &["price_pro"]);
    stage.net.set_fault(at("hold2.test").path("/xrpc/io.atcr.hold.update"), Fault::Status(503));
    let working = stage.start(stage.worker(&[FIRST, SECOND]));
    let told =
        |second: &str| vec![format!("{did} {FIRST} 1 1 deckhand"), format!("{did} {SECOND} 1 {second}")];
    stage.until(TOLD, &told("- - due")).await;
    let error =
        format!("SELECT COALESCE(error, '-') AS line FROM crew_tier_sync WHERE hold_did = '{SECOND}'");
    stage.until(&error, &["hold2.test is in trouble (status 503)".to_owned()]).await;
    stage.net.clear_faults();
    stage.until(TOLD, &told("1 paid")).await;
    working.stop().await;
    assert_eq!(stage.updates(FIRST), ["1"]);
}

async fn a_rank_above_the_holds_last_tier_becomes_its_last(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[FIRST]);
    stage.net.subscribe(&customer, &["price_team"]);
    let working = stage.start(stage.worker(&[FIRST]));
    stage.until(TOLD, &[format!("{did} {FIRST} 2 2 bosun")]).await;
    stage.net.set_tiers(FIRST, &["swabbie", "mate"]);
    stage.until(TOLD, &[format!("{did} {FIRST} 1 1 mate")]).await;
    stage.net.set_tiers(FIRST, &["all"]);
    stage.until(TOLD, &[format!("{did} {FIRST} 0 0 all")]).await;
    stage.net.set_tiers(FIRST, &["a", "b", "c", "d"]);
    stage.until(TOLD, &[format!("{did} {FIRST} 2 2 c")]).await;
    working.stop().await;
    let tiers = "SELECT CAST(rank AS TEXT) || ' ' || name || ' ' || quota_formatted || ' ' ||
        CAST(quota_bytes AS TEXT) || CASE WHEN scan_on_push THEN ' scans' ELSE '' END AS line FROM hold_tiers";
    let expected = [
        "0 a 5 GB 5368709120",
        "1 b 10 GB 10737418240 scans",
        "2 c 15 GB 16106127360 scans",
        "3 d 20 GB 21474836480 scans",
    ];
    assert_eq!(stage.lines(tiers).await, expected);
}

async fn the_tiers_of_a_hold_that_does_not_answer_stay(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[FIRST]);
    let tiers = "SELECT name AS line FROM hold_tiers";
    let all = ["bosun", "deckhand", "swabbie"];
    let working = stage.start(stage.worker(&[FIRST]));
    stage.until(tiers, &all.map(str::to_owned)).await;
    let listed = On::site(Site::Hosts).path("/xrpc/io.atcr.hold.listTiers");
    for fault in
        [Fault::Status(500), Fault::CutBody, Fault::Html(200), Fault::Empty(404), Fault::Overlong(1 << 20)]
    {
        stage.net.set_fault(listed.clone(), fault);
        let before = stage.net.requests(&listed);
        eventually("it is asked in vain", SOON, async || {
            let asked = stage.net.requests(&listed) - before;
            if asked >= 2 { Ok(()) } else { Err(asked) }
        })
        .await;
        assert_eq!(stage.lines(tiers).await, all, "{fault:?}");
        stage.net.clear_faults();
    }
    stage.net.set_tiers(FIRST, &[]);
    let before = stage.net.requests(&listed);
    eventually("it lists none", SOON, async || {
        if stage.net.requests(&listed) > before + 1 { Ok(()) } else { Err(()) }
    })
    .await;
    assert_eq!(stage.lines(tiers).await, all);
    stage.net.set_tiers(FIRST, &all);
    stage.net.subscribe(&customer, &["price_pro"]);
    stage.until(TOLD, &[format!("{did} {FIRST} 1 1 deckhand")]).await;
    working.stop().await;
}

async fn who_is_not_of_the_crew_is_told_of_once_a_record_appears(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[]);
    let sub = stage.net.subscribe(&customer, &["price_pro"]);
    // The index has an older record of theirs, which the hold has no more.
    stage.index(&[present(FIRST, "old", 1, samples::crew(&did, 1))]).await;
    let working = stage.start(stage.worker(&[FIRST]));
    let waits = |rank: u32| vec![format!("{did} {FIRST} {rank} - - awaits crew")];
    stage.until(TOLD, &waits(1)).await;
    // It waits, whatever else changes.
    stage.net.set_prices(&sub, &["price_team"]);
    stage.until(TOLD, &waits(2)).await;
    stage.until_asked(4).await;
    assert_eq!(stage.updates(FIRST), ["1 UserNotFound"]);
    stage.join(FIRST, "new", &did);
    stage.index(&[present(FIRST, "new", 2, samples::crew(&did, 2))]).await;
    stage.until(TOLD, &[format!("{did} {FIRST} 2 2 bosun")]).await;
    working.stop().await;
    assert_eq!(stage.updates(FIRST), ["1 UserNotFound", "2"]);
}

async fn a_member_who_came_back_is_told_of_again(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[FIRST]);
    stage.net.subscribe(&customer, &["price_pro"]);
    stage.index(&[present(FIRST, "alice", 1, samples::crew(&did, 1))]).await;
    let working = stage.start(stage.worker(&[FIRST]));
    stage.until(TOLD, &[format!("{did} {FIRST} 1 1 deckhand")]).await;
    stage.until_asked(4).await;
    assert_eq!(stage.updates(FIRST), ["1"], "the record that was known is no news");
    // Out and in again: a new record, with the hold's own tier.
    stage.join(FIRST, "alice", &did);
    stage.index(&[present(FIRST, "alice", 2, samples::crew(&did, 2))]).await;
    eventually("the hold is told again", SOON, async || match stage.updates(FIRST) {
        told if told.len() >= 2 => Ok(()),
        told => Err(told),
    })
    .await;
    stage.until_asked(4).await;
    working.stop().await;
    assert_eq!(stage.updates(FIRST), ["1", "1"]);
}

/// A hold may have put them higher by itself, as it does with its first members.
async fn nobody_who_never_paid_is_put_down(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (_, customer) = stage.member("alice", &[FIRST]);
    let sub = stage.net.subscribe(&customer, &["price_team"]);
    stage.net.set_subscription(&sub, "incomplete");
    let working = stage.start(stage.worker(&[FIRST]));
    let rows = "SELECT status || ' ' || CAST(tier_rank AS TEXT) || ' ' || COALESCE(CAST(planned_rank AS TEXT), '-') AS line
                FROM billing_subscriptions";
    stage.until(rows, &["incomplete 0 0".to_owned()]).await;
    stage.until_asked(3).await;
    working.stop().await;
    assert_eq!(stage.lines(TOLD).await, [] as [String; 0]);
    assert_eq!(stage.updates(FIRST), [] as [String; 0]);
}

async fn a_hold_that_does_not_take_the_token_keeps_no_other_waiting(fixture: Fixture) {
    let mut stage = Stage::new(fixture).await;
    let of_old = stage.registry.clone();
    let (did, customer) = stage.member("alice", &[FIRST]);
    stage.net.subscribe(&customer, &["price_pro"]);
    // The key in the file is not the one that the holds know.
    stage.net.trust_registry(Curve::K256, 2);
    stage.registry = of_old;
    let working = stage.start(stage.worker(&[FIRST]));
    stage.until(TOLD, &[format!("{did} {FIRST} 1 - - due")]).await;
    let error = "SELECT COALESCE(error, '-') AS line FROM crew_tier_sync";
    stage.until(error, &["hold1.test refused: AuthRequired (status 401)".to_owned()]).await;
    stage.net.trust_registry(Curve::K256, 1);
    stage.until(TOLD, &[format!("{did} {FIRST} 1 1 deckhand")]).await;
    working.stop().await;
}

async fn a_refusal_of_one_user_keeps_no_other_waiting(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let mut expected = Vec::new();
    for name in ["alice", "bob", "carol"] {
        let (did, customer) = stage.member(name, &[FIRST]);
        stage.net.subscribe(&customer, &["price_pro"]);
        expected.push(format!("{did} {FIRST} 1 1 deckhand"));
    }
    // One request, of whomever.
    let update = at("hold1.test").path("/xrpc/io.atcr.hold.update");
    stage.net.set_fault(update.times(1), Fault::Status(400));
    let working = stage.start(stage.worker(&[FIRST]));
    stage.until(TOLD, &expected).await;
    working.stop().await;
    let once =
        "SELECT CAST(COUNT(*) AS TEXT) AS line FROM crew_tier_sync WHERE failures = 0 AND error IS NULL";
    assert_eq!(stage.lines(once).await, ["3"]);
}

async fn a_hold_by_the_directory_is_found_and_told_with_the_other_curve(fixture: Fixture) {
    let mut stage = Stage::new(fixture).await;
    stage.registry = stage.net.trust_registry(Curve::P256, 7);
    let hold = stage.net.add_account("hold3");
    stage.net.set_tiers(&hold, &["free", "paid"]);
    let (did, customer) = stage.member("alice", &[&hold]);
    stage.net.subscribe(&customer, &["price_team"]);
    let working = stage.start(stage.worker(&[&hold]));
    stage.until(TOLD, &[format!("{did} {hold} 1 1 paid")]).await;
    working.stop().await;
    // A plan for a hold whose tiers nobody knows waits for them.
    let unknown = samples::did("did:web:unknown.test");
    let users = vec![(samples::did(&did), 1)];
    let plan = async move |tx: &mut Tx| tx.plan_ranks(&[unknown], &users).await;
    stage.fixture.database.fenced(&stage.term, plan).await.unwrap();
    assert_eq!(stage.lines(TOLD).await.len(), 1);
}

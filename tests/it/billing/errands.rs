//! No request begins after a stop, or without trust.

use std::time::{Duration, Instant};

use leased_actors::clock::Clock;
use leased_actors::lease::{LeaseStore, Release, Term, Trust};
use localnet::network::{Fault, On, Site};

use super::stage::{RANKS, SOON, Stage, TOLD};
use crate::store::fixture::Fixture;
use crate::store::on_both;
use crate::support::eventually::eventually;

on_both! {
    without_trust_nothing_is_asked_and_with_it_the_work_goes_on
    a_stop_in_the_middle_is_prompt_and_no_request_follows
    a_term_that_is_over_stores_nothing_and_does_not_fail
    what_a_hold_was_told_before_a_stop_is_written_down
}

const HOLD: &str = "did:web:hold1.test";

/// Every request so far.
fn asked(stage: &Stage) -> u64 {
    stage.net.requests(&On::any())
}

async fn let_time_pass(time: Duration) {
    let begun = Instant::now();
    eventually("it has had its time", SOON, async || if begun.elapsed() > time { Ok(()) } else { Err(()) })
        .await;
}

async fn without_trust_nothing_is_asked_and_with_it_the_work_goes_on(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[HOLD]);
    stage.net.subscribe(&customer, &["price_pro"]);
    let clock = Clock::boottime();
    let trust = Trust::none(clock.clone());
    let term = Term::new(stage.term.id().clone(), trust.clone());
    let working = stage.start_under(stage.worker(&[HOLD]), term);
    let_time_pass(Duration::from_millis(700)).await;
    assert_eq!(asked(&stage), 0);
    trust.extend(clock.now() + Duration::from_secs(600));
    stage.until(TOLD, &[format!("{did} {HOLD} 1 1 deckhand")]).await;
    working.stop().await;
}

async fn a_stop_in_the_middle_is_prompt_and_no_request_follows(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    for n in 0..40 {
        let (_, customer) = stage.member(&format!("user{n}"), &[HOLD]);
        stage.net.subscribe(&customer, &["price_pro"]);
    }
    let places = [
        On::site(Site::Stripe),
        On::site(Site::Hosts).path("/.well-known/did.json"),
        On::site(Site::Hosts).path("/xrpc/io.atcr.hold.listTiers"),
        On::site(Site::Hosts).path("/xrpc/io.atcr.hold.updateCrewTier"),
    ];
    for place in places {
        stage.net.set_fault(place.clone(), Fault::Late(60_000));
        let before = stage.net.requests(&place);
        let working = stage.start(stage.worker(&[HOLD]));
        eventually("a request is under way", SOON, async || {
            if stage.net.requests(&place) > before { Ok(()) } else { Err(()) }
        })
        .await;
        let begun = Instant::now();
        working.stop().await;
        assert!(begun.elapsed() < Duration::from_millis(750), "{place:?}: {:?}", begun.elapsed());
        let then = asked(&stage);
        let_time_pass(Duration::from_millis(300)).await;
        assert_eq!(asked(&stage), then, "{place:?}");
        stage.net.clear_faults();
    }
}

async fn a_term_that_is_over_stores_nothing_and_does_not_fail(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (_, customer) = stage.member("alice", &[HOLD]);
    stage.net.subscribe(&customer, &["price_pro"]);
    stage.fixture.leases.release(stage.term.id(), Release::Free).await.unwrap();
    let working = stage.start(stage.worker(&[HOLD]));
    eventually("it has begun", SOON, async || if stage.asked() > 0 { Ok(()) } else { Err(()) }).await;
    // The first write tells; from then on nobody is asked.
    let_time_pass(Duration::from_millis(300)).await;
    let then = asked(&stage);
    let_time_pass(Duration::from_millis(700)).await;
    assert_eq!(asked(&stage), then);
    working.stop().await;
    assert_eq!(stage.lines(RANKS).await, [] as [String; 0]);
    assert_eq!(stage.updates(HOLD), [] as [String; 0]);
}

async fn what_a_hold_was_told_before_a_stop_is_written_down(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    for n in 0..5 {
        let (_, customer) = stage.member(&format!("user{n}"), &[HOLD]);
        stage.net.subscribe(&customer, &["price_pro"]);
    }
    let update = On::site(Site::Hosts).path("/xrpc/io.atcr.hold.updateCrewTier");
    stage.net.set_fault(update.clone().after(3), Fault::Never);
    let working = stage.start(stage.worker(&[HOLD]));
    eventually("the fourth is under way", SOON, async || {
        let asked = stage.net.requests(&update);
        if asked >= 4 { Ok(()) } else { Err(asked) }
    })
    .await;
    working.stop().await;
    let applied = "SELECT user_did AS line FROM crew_tier_sync WHERE applied_rank = 1";
    assert_eq!(stage.lines(applied).await.len(), 3);
}

//! What Stripe says, whole and broken, and what becomes of it.

use std::time::Duration;

use localnet::network::{Fault, On, Site};

use super::stage::{RANKS, SOON, Stage, TOLD};
use crate::store::fixture::Fixture;
use crate::store::on_both;
use crate::support::eventually::eventually;

on_both! {
    a_subscription_becomes_a_rank_and_a_tier_and_goes_with_its_end
    every_page_is_read_in_either_shape_of_the_api
    a_list_that_is_not_whole_changes_nothing
    a_short_refusal_is_waited_for_and_the_list_goes_on
    who_changes_subscriptions_between_two_pages_keeps_the_rank
    the_key_of_another_account_takes_nobodys_tier_before_its_time
    a_late_payment_keeps_its_rank_until_the_grace_is_over
    what_the_registry_wrote_in_the_meantime_stays
    a_subscription_with_many_items_is_read_to_the_last
}

const HOLD: &str = "did:web:hold1.test";

fn list() -> On {
    On::site(Site::Stripe).path("/v1/subscriptions")
}

async fn a_subscription_becomes_a_rank_and_a_tier_and_goes_with_its_end(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[HOLD]);
    let sub = stage.net.subscribe(&customer, &["price_pro"]);
    let working = stage.start(stage.worker(&[HOLD]));
    let steps: [(&str, &[&str], &str, u32, &str); 5] = [
        ("active", &["price_pro"], "active", 1, "deckhand"),
        ("active", &["price_pro", "price_team"], "active", 2, "bosun"),
        ("trialing", &["price_pro_year"], "trialing", 1, "deckhand"),
        ("unpaid", &["price_team"], "unpaid", 0, "swabbie"),
        ("canceled", &["price_team"], "canceled", 0, "swabbie"),
    ];
    for (status, prices, word, rank, tier) in steps {
        assert!(stage.net.set_prices(&sub, prices) && stage.net.set_subscription(&sub, status));
        stage.until(RANKS, &[format!("{did} {word} {rank}")]).await;
        stage.until(TOLD, &[format!("{did} {HOLD} {rank} {rank} {tier}")]).await;
        assert_eq!(stage.net.tier_of(HOLD, &did).as_deref(), Some(tier));
    }
    working.stop().await;
    // Each change was told once.
    assert_eq!(stage.updates(HOLD), ["1", "2", "1", "0"]);
}

async fn every_page_is_read_in_either_shape_of_the_api(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let mut expected = Vec::new();
    for n in 0..205 {
        let key = ["did", "user_did", "userDid"][n % 3];
        let customer = stage.net.add_customer(key, &format!("did:plc:user{n:03}"));
        stage.net.subscribe(&customer, &["price_pro"]);
        expected.push(format!("did:plc:user{n:03} active 1"));
    }
    stage.net.set_older_stripe(true);
    let working = stage.start(stage.worker(&[]));
    stage.until(RANKS, &expected).await;
    let ends = "SELECT DISTINCT CAST(current_period_end AS TEXT) AS line FROM billing_subscriptions";
    assert_eq!(stage.lines(ends).await, ["2000000000000000"]);
    working.stop().await;
    stage.fixture.execute("DELETE FROM billing_subscriptions").await;
    stage.net.set_older_stripe(false);
    let working = stage.start(stage.worker(&[]));
    stage.until(RANKS, &expected).await;
    assert_eq!(stage.lines(ends).await, ["2000000000000000"]);
    working.stop().await;
}

async fn a_list_that_is_not_whole_changes_nothing(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let mut subs = Vec::new();
    for n in 0..120 {
        let customer = stage.net.add_customer("did", &format!("did:plc:user{n:03}"));
        subs.push(stage.net.subscribe(&customer, &["price_pro"]));
    }
    let rows = "SELECT CAST(COUNT(*) AS TEXT) || ' ' || CAST(COALESCE(SUM(tier_rank), 0) AS TEXT) AS line FROM billing_subscriptions";
    let working = stage.start(stage.worker(&[]));
    stage.until(rows, &["120 120".to_owned()]).await;
    working.stop().await;
    for fault in [
        Fault::CutBody,
        Fault::Status(500),
        Fault::Status(429),
        Fault::Status(401),
        Fault::Html(502),
        Fault::Html(200),
        Fault::Empty(200),
        Fault::RetryAfter(3_600),
        Fault::Never,
        Fault::SlowBody,
        Fault::Overlong(20 << 20),
    ] {
        // The first page says that all is over; the second does not come.
        for sub in &subs {
            stage.net.set_subscription(sub, "unpaid");
        }
        stage.net.set_fault(list().after(1), fault);
        let begun = stage.asked();
        let worker = stage.worker(&[]);
        let working = stage.start(worker);
        eventually("a refresh has failed, and another has begun or waits", SOON, async || {
            let asked = stage.asked() - begun;
            if asked >= 3 { Ok(()) } else { Err(asked) }
        })
        .await;
        assert_eq!(stage.lines(rows).await, ["120 120"], "{fault:?}");
        working.stop().await;
        for sub in &subs {
            stage.net.set_subscription(sub, "active");
        }
        stage.net.clear_faults();
    }
    stage.net.set_subscription(&subs[0], "unpaid");
    let working = stage.start(stage.worker(&[]));
    stage.until(rows, &["120 119".to_owned()]).await;
    working.stop().await;
}

async fn a_short_refusal_is_waited_for_and_the_list_goes_on(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    for n in 0..101 {
        let customer = stage.net.add_customer("did", &format!("did:plc:user{n:03}"));
        stage.net.subscribe(&customer, &["price_pro"]);
    }
    stage.net.set_fault(list().after(1).times(1), Fault::RetryAfter(1));
    let working = stage.start(stage.worker(&[]));
    let rows = "SELECT CAST(COUNT(*) AS TEXT) AS line FROM billing_subscriptions";
    stage.until(rows, &["101".to_owned()]).await;
    working.stop().await;
    assert_eq!(stage.net.too_early(Duration::from_millis(400)), [] as [String; 0]);
    // Page, refusal, page, and the head of the list again: a refresh that began anew would have read the first page twice.
    let visits: Vec<_> = stage.net.visits().into_iter().filter(|visit| visit.site == Site::Stripe).collect();
    let statuses: Vec<u16> = visits.iter().take(4).map(|visit| visit.status).collect();
    assert_eq!(statuses, [200, 429, 200, 200]);
}

/// A list in pages is no snapshot: new subscriptions come at its head while its tail is read.
async fn who_changes_subscriptions_between_two_pages_keeps_the_rank(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[HOLD]);
    let old = stage.net.subscribe(&customer, &["price_team"]);
    for n in 0..100 {
        let customer = stage.net.add_customer("did", &format!("did:plc:user{n:03}"));
        stage.net.subscribe(&customer, &["price_pro"]);
    }
    let of_alice = format!("{RANKS} WHERE user_did = '{did}'");
    let working = stage.start(stage.worker(&[HOLD]));
    stage.until(&of_alice, &[format!("{did} active 2")]).await;
    let told = format!("{TOLD} WHERE user_did = '{did}'");
    stage.until(&told, &[format!("{did} {HOLD} 2 2 bosun")]).await;
    working.stop().await;
    stage.net.set_fault(list().times(1), Fault::Late(1_000));
    let before = stage.asked();
    let working = stage.start(stage.worker(&[HOLD]));
    eventually(
        "the first page is under way",
        SOON,
        async || {
            if stage.asked() > before { Ok(()) } else { Err(()) }
        },
    )
    .await;
    stage.net.set_subscription(&old, "canceled");
    let new = stage.net.subscribe(&customer, &["price_team"]);
    let ids = format!("SELECT subscription_id AS line FROM billing_subscriptions WHERE user_did = '{did}'");
    stage.until(&ids, &[new]).await;
    working.stop().await;
    let of_alice: Vec<usize> = stage
        .net
        .tier_updates()
        .into_iter()
        .filter(|update| update.user == did)
        .map(|update| update.rank)
        .collect();
    assert_eq!(of_alice, [2], "never told of anything less");
}

async fn the_key_of_another_account_takes_nobodys_tier_before_its_time(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (alice, customer) = stage.member("alice", &[HOLD]);
    let (bob, of_bob) = stage.member("bob", &[HOLD]);
    stage.net.subscribe(&customer, &["price_team"]);
    let ending = stage.net.subscribe(&of_bob, &["price_team"]);
    // Long over, and so is the grace.
    stage.net.set_period_end(&ending, 1_700_000_000);
    let working = stage.start(stage.worker(&[HOLD]));
    stage.until(RANKS, &[format!("{alice} active 2"), format!("{bob} active 2")]).await;
    stage.net.forget_subscriptions();
    stage.until(RANKS, &[format!("{alice} active 2"), format!("{bob} gone 0")]).await;
    stage.until_asked(4).await;
    assert_eq!(stage.lines(RANKS).await.len(), 2);
    assert!(stage.lines(RANKS).await.contains(&format!("{alice} active 2")));
    working.stop().await;
}

async fn a_late_payment_keeps_its_rank_until_the_grace_is_over(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[HOLD]);
    let sub = stage.net.subscribe(&customer, &["price_team"]);
    stage.net.set_subscription(&sub, "past_due");
    let working = stage.start(stage.worker(&[HOLD]));
    stage.until(RANKS, &[format!("{did} past_due 2")]).await;
    let days = |days: i64| {
        let by = days * 86_400_000_000;
        format!("UPDATE billing_past_due SET since = since - {by}")
    };
    stage.fixture.execute(&days(6)).await;
    stage.until_asked(3).await;
    assert_eq!(stage.lines(RANKS).await, [format!("{did} past_due 2")]);
    stage.fixture.execute(&days(2)).await;
    stage.until(RANKS, &[format!("{did} past_due 0")]).await;
    // Paid at last; and late once more, from the beginning.
    stage.net.set_subscription(&sub, "active");
    stage.until(RANKS, &[format!("{did} active 2")]).await;
    stage.until("SELECT subscription_id AS line FROM billing_past_due", &[]).await;
    stage.net.set_subscription(&sub, "past_due");
    stage.until(RANKS, &[format!("{did} past_due 2")]).await;
    working.stop().await;
}

/// Stripe tells the registry at once; a list that was begun before is older.
async fn what_the_registry_wrote_in_the_meantime_stays(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[HOLD]);
    let sub = stage.net.subscribe(&customer, &["price_pro"]);
    let working = stage.start(stage.worker(&[HOLD]));
    stage.until(TOLD, &[format!("{did} {HOLD} 1 1 deckhand")]).await;
    working.stop().await;
    stage.net.set_fault(list(), Fault::Late(1_500));
    let before = stage.asked();
    let working = stage.start(stage.worker(&[HOLD]));
    eventually("the list is under way", SOON, async || if stage.asked() > before { Ok(()) } else { Err(()) })
        .await;
    let later = "UPDATE billing_subscriptions SET tier_rank = 2, updated_at = updated_at + 60000000";
    stage.fixture.execute(later).await;
    stage.until(TOLD, &[format!("{did} {HOLD} 2 2 bosun")]).await;
    assert_eq!(stage.lines(RANKS).await, [format!("{did} active 2")]);
    stage.net.clear_faults();
    working.stop().await;
    assert!(stage.net.set_prices(&sub, &["price_team"]));
}

async fn a_subscription_with_many_items_is_read_to_the_last(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (did, customer) = stage.member("alice", &[]);
    let mut prices = vec!["price_addon"; 11];
    prices.push("price_team");
    stage.net.subscribe(&customer, &prices);
    let working = stage.start(stage.worker(&[]));
    stage.until(RANKS, &[format!("{did} active 2")]).await;
    working.stop().await;
}

//! Positions that lead nowhere: of another host or wire, too old, or of a host that counts anew. What can be read is
//! read, and what cannot be told is asked for again.

use localnet::{
    ids,
    jetstream::{Door, FutureCursor},
    records,
    seed::{Size, seed},
};

use super::{
    rows::On,
    second_wire::{followed, followed_by},
    stage::{CONNECTS, DISCONNECTS, SOON, Stage},
};
use crate::support::eventually::eventually;

const GAPS: &str = "atcr_stream_gaps_total";
const ALARM: &str = "atcr_stream_position_refused";

// S28: bluesky-social/pds#341
#[tokio::test]
async fn a_host_that_counts_anew_raises_an_alarm_and_is_read_on_by_time() {
    for on in [On::Sqlite, On::Postgres] {
        for how in [FutureCursor::Info, FutureCursor::Error, FutureCursor::Silent] {
            counts_anew(on, how).await;
        }
    }
}

async fn counts_anew(on: On, how: FutureCursor) {
    let (mut stage, mut traffic) = followed(on).await;
    // Far more than what is said below, so that every new number is lower.
    (0..300).for_each(|_| traffic.step(&stage.net));
    stage.saves_the_newest_number().await;
    let before = stage.rows.number(&stage.key(0)).await.unwrap();
    stage.net.jetstream(0).set_future_cursor(how);
    stage.net.jetstream(0).set_door(Door::Slam, usize::MAX);
    stage.net.jetstream(0).cut();
    assert!(stage.net.jetstream(0).subscribed(0, SOON).await);
    stage.net.jetstream(0).reset_sequencer();
    // Said while nobody could hear it, with numbers that were used before.
    (0..20).for_each(|_| traffic.step(&stage.net));
    stage.net.jetstream(0).set_door(Door::Open, 0);
    if how == FutureCursor::Silent {
        // Such a host has to say something before it can be found out.
        eventually("three low numbers are refused", SOON, async || {
            traffic.step(&stage.net);
            let refused = stage.metric(DISCONNECTS, &[("reason", "future_cursor")]);
            if refused == 3.0 { Ok(()) } else { Err(refused) }
        })
        .await;
    }
    stage.counts(DISCONNECTS, &[("reason", "future_cursor")], 3.0).await;
    stage.counts(GAPS, &[("reason", "recount")], 1.0).await;

    (0..20).for_each(|_| traffic.step(&stage.net));
    stage.becomes_the_fold().await;
    stage.saves_the_newest_number().await;
    assert!(stage.rows.number(&stage.key(0)).await.unwrap() < before, "{on:?} {how:?}");
    assert_eq!(stage.metric(ALARM, &[]), 0.0);
    // Its time is older than what the host keeps, which is a reason too.
    let requests = stage.rows.requests().await;
    assert!(["* recount", "* old_cursor"].contains(&requests[0].as_str()), "{requests:?}");
    stage.net.jetstream(0).cut();
    (0..20).for_each(|_| traffic.step(&stage.net));
    stage.becomes_the_fold().await;
    stage.stop().await;
}

/// The alarm is there for as long as the host refuses.
#[tokio::test]
async fn the_alarm_stands_while_the_position_is_refused() {
    let (mut stage, mut traffic) = followed(On::Sqlite).await;
    stage.net.jetstream(0).set_future_cursor(FutureCursor::Error);
    stage.net.jetstream(0).reset_sequencer();
    stage.net.jetstream(0).cut();
    stage.counts(ALARM, &[("host", &stage.key(0))], 1.0).await;
    stage.counts(GAPS, &[("reason", "recount")], 1.0).await;
    traffic.step(&stage.net);
    stage.counts(ALARM, &[("host", &stage.key(0))], 0.0).await;
    stage.stop().await;
}

// S6: bluesky-social/jetstream-legacy#58
#[tokio::test]
async fn a_number_older_than_the_window_is_a_gap_and_all_that_is_kept_is_read() {
    for on in [On::Sqlite, On::Postgres] {
        let (mut stage, mut traffic) = followed(on).await;
        stage.stop().await;
        (0..50).for_each(|_| traffic.step(&stage.net));
        stage.net.jetstream(0).forget(30);
        stage.start_and_subscribe().await;
        stage.asks_for(&["* old_cursor"]).await;
        assert_eq!(
            stage.metric(CONNECTS, &[("outcome", "status_4xx")]),
            1.0,
            "refused once, then asked by time"
        );
        stage.saves_the_newest_number().await;
        let sent = stage.net.jetstream(0).stats().cursors().pop().flatten().unwrap();
        assert!(sent > 1_000_000_000_000_000, "{sent} is no time");
        let last = stage.rows.number(&stage.key(0)).await;
        // By then the number is good again.
        stage.net.jetstream(0).cut();
        assert!(
            localnet::until(SOON, || stage.net.jetstream(0).stats().cursors().pop().flatten() == last).await
        );
        stage.stop().await;
    }
}

// S6: bluesky-social/jetstream-legacy#58
#[tokio::test]
async fn a_time_older_than_the_window_is_a_gap_though_the_first_wire_does_not_say_so() {
    for on in [On::Sqlite, On::Postgres] {
        let mut stage = Stage::on(on).await;
        let alice = stage.net.add_account("alice");
        let now = ids::now_us();
        let past = now - 7_200_000_000;
        let save = format!(
            "INSERT INTO stream_cursor (wire, host, time_us, saved_at) VALUES ('v1', '{}', {past}, 0)",
            stage.key(0)
        );
        stage.rows.execute(&save).await;
        stage.net.put(&alice, records::STAR, "kept", records::star(&alice, "web", now));
        stage.start_and_subscribe().await;
        stage.asks_for(&["* old_cursor"]).await;
        assert_eq!(stage.metric(GAPS, &[("reason", "old_cursor")]), 1.0);
        stage.becomes_the_fold().await;
        // What is in the window is no gap.
        stage.net.jetstream(0).cut();
        stage.net.put(&alice, records::STAR, "live", records::star(&alice, "web", now));
        stage.becomes_the_fold().await;
        assert_eq!(stage.metric(GAPS, &[]), 1.0);
        stage.stop().await;
    }
}

#[tokio::test]
async fn a_number_is_not_taken_to_another_host() {
    for on in [On::Sqlite, On::Postgres] {
        let (mut stage, mut traffic) = followed_by(on, 2).await;
        let [first, second] = [stage.key(0), stage.key(1)];
        stage.net.jetstream(0).set_door(Door::Slam, usize::MAX);
        stage.net.jetstream(0).cut();
        (0..50).for_each(|_| traffic.step(&stage.net));
        stage.becomes_the_fold().await;
        stage.asks_for(&["* other_host"]).await;
        let asked = stage.net.jetstream(1).stats().cursors().remove(0).unwrap();
        assert!(asked > 1_000_000_000_000_000, "{asked} is no time");
        assert!(stage.rows.number(&second).await.is_some());
        assert_eq!(stage.metric(GAPS, &[("host", &second), ("reason", "other_host")]), 1.0);

        // Back at the first one, its own number is good.
        let own = stage.rows.number(&first).await;
        stage.net.jetstream(0).set_door(Door::Open, 0);
        stage.net.jetstream(1).set_door(Door::Slam, usize::MAX);
        stage.net.jetstream(1).cut();
        (0..50).for_each(|_| traffic.step(&stage.net));
        stage.becomes_the_fold().await;
        assert_eq!(stage.net.jetstream(0).stats().cursors().pop().unwrap(), own);
        assert_eq!(stage.metric(GAPS, &[]), 1.0);
        stage.rows.position_never_went_down(&first).await;
        stage.rows.position_never_went_down(&second).await;
        stage.stop().await;
    }
}

#[tokio::test]
async fn a_change_of_wire_goes_on_by_time_and_is_noted() {
    for on in [On::Sqlite, On::Postgres] {
        let mut stage = Stage::on(on).await;
        let first_wire = stage.follow.hosts.clone();
        stage.begins_an_hour_ago();
        stage.start_and_subscribe().await;
        seed(&stage.net, Size::default(), 1);
        stage.becomes_the_fold().await;
        stage.saves_the_newest_position().await;
        stage.stop().await;

        let alice = stage.net.dids().remove(0);
        stage.net.put(&alice, records::STAR, "between", records::star(&alice, "web", ids::now_us()));
        stage.follow_second_wire();
        stage.start_and_subscribe().await;
        stage.becomes_the_fold().await;
        stage.saves_the_newest_number().await;
        assert_eq!(stage.metric(GAPS, &[("reason", "other_wire")]), 1.0);
        stage.asks_for(&["* other_wire"]).await;
        stage.stop().await;

        // And back: its own position is as good as that of the other.
        stage.net.put(&alice, records::STAR, "after", records::star(&alice, "web", ids::now_us()));
        stage.follow.hosts = first_wire;
        stage.start_and_subscribe().await;
        stage.becomes_the_fold().await;
        stage.stop().await;
    }
}

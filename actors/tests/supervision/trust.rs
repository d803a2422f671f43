//! What happens when renewals fail, or somebody else declares this instance dead.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::stage::{
    Conduct, Faulty, Played, TIMING, declare_dead, leave, running, start, state, until, world,
};

/// consul#1843 and kyverno#14984: work went on long after the lock was lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_external_worker_stops_when_trust_ends_and_a_fenced_one_outlives_the_outage() {
    let (memory, log) = world();
    let store = Faulty::new(&memory, &log);
    let away = store.away.clone();
    let workers =
        vec![Played::new("out", Conduct::Good, &log).external(), Played::new("in", Conduct::Good, &log)];
    let supervision = start(store, workers).await;
    running(&supervision, "out").await;
    running(&supervision, "in").await;
    away.store(true, Ordering::SeqCst);
    until(&supervision, "out stops", |s| state(s, "out") == "standby").await;
    assert_eq!(supervision.snapshot().borrow().trust_remaining(), Duration::ZERO);
    assert_eq!(state(&supervision.snapshot().borrow(), "in"), "running");
    away.store(false, Ordering::SeqCst);
    running(&supervision, "out").await;
    log.until("out started", 2).await;
    assert_eq!((log.count("out started"), log.count("in started")), (2, 1));
    assert!(
        log.place("released out") > log.place("out stopped"),
        "its old term goes back before a new one begins"
    );
    leave(supervision).await;
}

/// consul#1162, azure-webjobs-sdk#2454: one failed renewal dropped everything.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_fails_now_and_then_loses_nothing() {
    let (memory, log) = world();
    let store = Faulty::new(&memory, &log);
    let away = store.away.clone();
    let workers = vec![Played::new("w", Conduct::Good, &log).external()];
    let supervision = start(store, workers).await;
    running(&supervision, "w").await;
    for _ in 0..10 {
        away.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(30)).await;
        away.store(false, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!(log.lines(), ["w started"]);
    leave(supervision).await;
}

/// A slow success buys nothing: by the time of its answer, what it bought is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_answered_after_the_trust_that_it_buys_starts_no_worker() {
    let (memory, log) = world();
    let slow = Faulty { slow_renewal: TIMING.trust_for, ..Faulty::new(&memory, &log) };
    let _supervision = start(slow, vec![Played::new("w", Conduct::Good, &log)]).await;
    log.until("renewed", 4).await;
    assert_eq!(log.count("w started"), 0, "{:?}", log.lines());
}

/// runlore#250, haproxy-ingress#1210: an election loop that ran once left a permanent zombie standby.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_was_declared_dead_stops_registers_anew_and_contends_again() {
    let (memory, log) = world();
    let supervision = start(Faulty::new(&memory, &log), vec![Played::new("w", Conduct::Good, &log)]).await;
    let mut epochs = vec![];
    for round in 0..30 {
        let is_new = |s: &leased_actors::supervisor::Snapshot| {
            state(s, "w") == "running" && s.leases[0].epoch > epochs.last().copied()
        };
        let seen = until(&supervision, &format!("w runs in round {round}"), is_new).await;
        epochs.push(seen.leases[0].epoch.unwrap());
        declare_dead(&memory, seen.incarnation.unwrap()).await;
    }
    until(&supervision, "w runs at last", |s| {
        state(s, "w") == "running" && s.leases[0].epoch > epochs.last().copied()
    })
    .await;
    // Never two at work: every start after the first follows a stop.
    for pair in log.lines().chunks(2).filter(|pair| pair.len() == 2) {
        assert_eq!(pair, ["w started", "w stopped"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_holder_is_declared_dead_after_its_ttl_and_not_before() {
    let (memory, log) = world();
    let silent = Faulty::new(&memory, &log);
    let away = silent.away.clone();
    let first = start(silent, vec![Played::new("w", Conduct::Good, &log)]).await;
    running(&first, "w").await;
    let second = start(Faulty::new(&memory, &log), vec![Played::new("w", Conduct::Good, &log)]).await;
    until(&second, "the second registers", |s| s.incarnation.is_some()).await;
    let cut = tokio::time::Instant::now();
    away.store(true, Ordering::SeqCst);
    let term = running(&second, "w").await;
    let took = cut.elapsed();
    // Seen from here, the last renewal was some time before the cut: the exact border is `watch`'s own test.
    assert!(took >= TIMING.ttl / 2, "too early: {took:?}");
    assert!(term.leases[0].epoch > first.snapshot().borrow().leases[0].epoch);
    away.store(false, Ordering::SeqCst);
    until(&first, "the first notices and waits", |s| state(s, "w") == "standby").await;
    assert_eq!(state(&second.snapshot().borrow(), "w"), "running");
}

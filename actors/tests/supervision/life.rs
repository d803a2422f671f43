//! Acquire, run, release: the ordinary life and its ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leased_actors::lease::LeaseStore;
use leased_actors::lease::timing::Timing;
use leased_actors::supervisor::Supervision;

use tokio::sync::Barrier;

use crate::stage::{Conduct, Faulty, Log, Played, TIMING, running, start, start_with, state, until, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_contender_starts_no_worker_not_even_on_shutdown() {
    let (memory, log) = world();
    let first = start(Faulty::new(&memory, &log), vec![Played::new("w", Conduct::Good, &log)]).await;
    running(&first, "w").await;
    let (other_log, store) = (Log::default(), Faulty::new(&memory, &log));
    let mut second = start(store, vec![Played::new("w", Conduct::Good, &other_log)]).await;
    until(&second, "the second registers", |s| s.incarnation.is_some()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    second.shut_down();
    let report = second.ended().await.unwrap();
    assert!(report.is_clean() && report.released.is_empty(), "{report}");
    assert_eq!(other_log.lines(), Vec::<String>::new());
    assert_eq!(state(&first.snapshot().borrow(), "w"), "running");
}

/// The original's own bug: the process was gone before its release had landed.
// L8: knative/pkg#2436
#[tokio::test(flavor = "multi_thread")]
async fn exit_waits_for_every_release_acknowledgement() {
    let (memory, log) = world();
    let store = Faulty { slow_release: Duration::from_millis(300), ..Faulty::new(&memory, &log) };
    let workers = ["a", "b", "c"].map(|name| Played::new(name, Conduct::Good, &log));
    let mut supervision = start(store, workers.into()).await;
    for name in ["a", "b", "c"] {
        running(&supervision, name).await;
    }
    supervision.shut_down();
    let report = supervision.ended().await.unwrap();
    assert_eq!(report.released.len(), 3, "{report}");
    for name in ["a", "b", "c"] {
        assert!(log.place(&format!("{name} stopped")) < log.place(&format!("released {name}")));
    }
    assert!(memory.list().await.unwrap().iter().all(|lease| lease.holder.is_none()));
}

/// One after another, the first would wait for the others until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn every_worker_is_told_to_stop_before_any_is_waited_for() {
    let (memory, log) = world();
    let names = ["a", "b", "c", "d", "e", "f"];
    let all = Arc::new(Barrier::new(names.len()));
    let workers = names.map(|name| Played::new(name, Conduct::Meeting(all.clone()), &log));
    let patient = Timing { stop_within: Duration::from_secs(20), ttl: Duration::from_secs(60), ..TIMING };
    let mut supervision = start_with(patient, Faulty::new(&memory, &log), workers.into()).await;
    for name in names {
        running(&supervision, name).await;
    }
    supervision.shut_down();
    let report = supervision.ended().await.unwrap();
    assert_eq!((report.released.len(), log.count("met")), (6, 6), "{report}");
}

/// Leadership was forgotten after one failed request.
// L11: etcd-io/etcd#22123
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_release_is_tried_again() {
    let (memory, log) = world();
    let store = Faulty::new(&memory, &log);
    store.failing_releases.store(2, Ordering::SeqCst);
    let mut supervision = start(store, vec![Played::new("w", Conduct::Good, &log)]).await;
    running(&supervision, "w").await;
    supervision.shut_down();
    let report = supervision.ended().await.unwrap();
    assert_eq!((report.released.len(), log.count("release refused")), (1, 2), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_never_acknowledged_is_reported_as_left_to_expire() {
    let (memory, log) = world();
    let store = Faulty::new(&memory, &log);
    let away = store.away.clone();
    let mut supervision = start(store, vec![Played::new("w", Conduct::Good, &log)]).await;
    running(&supervision, "w").await;
    away.store(true, Ordering::SeqCst);
    supervision.shut_down();
    let report = supervision.ended().await.unwrap();
    assert!(!report.is_clean());
    assert_eq!(report.left_to_expire.len(), 1, "{report}");
}

/// openshift/machine-config-operator#3185 and others: a successor waited for the TTL after each clean restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_successor_runs_after_a_release_without_waiting_for_the_ttl() {
    let (memory, log) = world();
    let long = Timing { ttl: Duration::from_secs(3_600), ..TIMING };
    let good = || vec![Played::new("w", Conduct::Good, &log)];
    let mut first = start_with(long, Faulty::new(&memory, &log), good()).await;
    running(&first, "w").await;
    let second = start_with(long, Faulty::new(&memory, &log), good()).await;
    first.shut_down();
    first.ended().await.unwrap();
    running(&second, "w").await;
    log.until("w started", 2).await;
    assert_eq!(log.lines(), ["w started", "w stopped", "released w", "w started"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_before_the_store_answered_at_all_ends() {
    let (memory, log) = world();
    let store = Faulty::new(&memory, &log);
    store.away.store(true, Ordering::SeqCst);
    let mut supervision = start(store, vec![Played::new("w", Conduct::Good, &log)]).await;
    supervision.shut_down();
    supervision.shut_down();
    let ended = tokio::time::timeout(Duration::from_secs(5), supervision.ended()).await;
    assert!(ended.unwrap().unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_lease_is_given_back_and_nobody_takes_it() {
    let (memory, log) = world();
    let supervision = start(Faulty::new(&memory, &log), vec![Played::new("w", Conduct::Good, &log)]).await;
    running(&supervision, "w").await;
    memory.pause(&"w".parse().unwrap(), true);
    until(&supervision, "w is given back", |s| state(s, "w") == "standby").await;
    memory.pause(&"w".parse().unwrap(), false);
    running(&supervision, "w").await;
    log.until("w started", 2).await;
    assert_eq!(log.lines(), ["w started", "w stopped", "released w", "w started"]);
}

/// camunda#7223, stork#280: one node had all the leases.
#[tokio::test(flavor = "multi_thread")]
async fn leases_are_spread_over_the_instances_and_taken_over_by_the_rest() {
    const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let (memory, log) = world();
    let mut instances = Vec::new();
    for _ in 0..3 {
        let workers = NAMES.map(|name| Played::new(name, Conduct::Good, &log));
        instances.push(start(Faulty::new(&memory, &log), workers.into()).await);
    }
    // The first may have had all to itself for a moment: balance comes by one move at a time.
    let even = async |instances: &[Supervision], least: usize| {
        loop {
            let running = |s: &Supervision| {
                s.snapshot().borrow().leases.iter().filter(|lease| lease.state == "running").count()
            };
            let loads: Vec<_> = instances.iter().map(running).collect();
            if loads.iter().sum::<usize>() == 12 && loads.iter().all(|load| *load >= least) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), even(&instances, 3))
        .await
        .expect("not balanced in a minute");
    let mut gone = instances.pop().unwrap();
    gone.shut_down();
    gone.ended().await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), even(&instances, 5))
        .await
        .expect("not taken over in a minute");
    // Never two at work on one: each stop is followed by at most one start.
    for name in NAMES {
        let starts = log.count(&format!("{name} started"));
        assert_eq!(log.count(&format!("{name} stopped")) + 1, starts, "{name}");
    }
}

//! Failures, each led where the tree leads it: a worker's to its restart intensity, the supervisor's to the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leased_actors::clock::Clock;
use leased_actors::lease::LeaseStore;
use leased_actors::memory::MemoryStore;
use leased_actors::supervisor::Supervision;

use crate::stage::{Conduct, Faulty, Log, Played, TIMING, running, start, state, until};

async fn one(conduct: Conduct) -> (Supervision, Log, Arc<MemoryStore>) {
    let (memory, log) = (Arc::new(MemoryStore::new(Clock::boottime())), Log::default());
    let supervision = start(Faulty::new(&memory, &log), vec![Played::new("w", conduct, &log)]).await;
    (supervision, log, memory)
}

fn kill(actor: &str) {
    ractor::registry::where_is(actor).unwrap_or_else(|| panic!("no actor {actor}")).kill();
}

/// trillian, stork and others: a lease whose worker failed stayed with an instance that did not work.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_beyond_its_intensity_gives_its_lease_up_with_a_cool_down() {
    for conduct in [Conduct::Failing, Conduct::Panicking] {
        let (mut supervision, log, memory) = one(conduct).await;
        let seen = until(&supervision, "w cools down", |s| state(s, "w") == "cooling").await;
        log.until("w stopped", 4).await;
        assert_eq!(log.count("w started"), 4, "one start and three restarts");
        assert!(seen.leases[0].last_failure.as_ref().unwrap().contains("as told"));
        let lease = &memory.list().await.unwrap()[0];
        assert!(lease.holder.is_none(), "another instance could not try");
        supervision.shut_down();
        assert!(supervision.ended().await.unwrap().is_clean());
    }
}

/// A leader whose start failed stayed leader, half-started.
// L18: riverqueue/river#1161
#[tokio::test(flavor = "multi_thread")]
async fn while_one_cools_down_the_lease_goes_to_an_instance_whose_worker_works() {
    let (memory, log) = (Arc::new(MemoryStore::new(Clock::boottime())), Log::default());
    let bad = Played::new("w", Conduct::Failing, &log);
    let first = start(Faulty::new(&memory, &log), vec![bad]).await;
    until(&first, "w cools down", |s| state(s, "w") == "cooling").await;
    let good = start(Faulty::new(&memory, &log), vec![Played::new("w", Conduct::Good, &log)]).await;
    running(&good, "w").await;
    assert_eq!(state(&first.snapshot().borrow(), "w"), "cooling");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pulse_beats_for_as_long_as_the_supervisor_takes_messages() {
    let (supervision, ..) = one(Conduct::Good).await;
    let (pulse, within) = (supervision.pulse(), Duration::from_secs(5));
    assert!(pulse.beats(within).await);
    kill(&supervision.actor_name().unwrap());
    let dead = async {
        while pulse.beats(within).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(within, dead).await.expect("nobody answers for a supervisor that is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_actor_is_started_again_under_the_same_term() {
    let (supervision, log, _) = one(Conduct::Good).await;
    let before = running(&supervision, "w").await;
    kill(before.leases[0].actor.as_ref().unwrap());
    let again = |s: &leased_actors::supervisor::Snapshot| {
        state(s, "w") == "running" && s.leases[0].actor != before.leases[0].actor
    };
    let after = until(&supervision, "w runs again", again).await;
    assert_eq!(after.leases[0].epoch, before.leases[0].epoch);
    log.until("w started", 2).await;
    assert_eq!(log.lines(), ["w started", "w stopped", "w started"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_cancels_its_workers_and_is_reported_as_a_failure() {
    let (mut supervision, log, memory) = one(Conduct::Good).await;
    running(&supervision, "w").await;
    kill(&supervision.actor_name().unwrap());
    assert!(supervision.ended().await.is_err());
    log.until("w stopped", 1).await;
    assert!(memory.list().await.unwrap()[0].holder.is_some(), "nothing may be released");
}

/// The lease was released at the deadline although work still ran.
// L5: controller-runtime#1132
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_be_stopped_is_overdue_and_its_lease_is_not_released() {
    let (mut supervision, log, memory) = one(Conduct::Blocked(Duration::from_secs(2))).await;
    running(&supervision, "w").await;
    log.until("w started", 1).await;
    supervision.shut_down();
    let report = supervision.ended().await.unwrap();
    assert_eq!((report.overdue.len(), report.is_clean()), (1, false), "{report}");
    assert!(memory.list().await.unwrap()[0].holder.is_some(), "released while its worker ran");
    assert_eq!(log.count("released w"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deaf_worker_is_killed_at_its_next_await_and_then_released() {
    let (mut supervision, log, _) = one(Conduct::Deaf).await;
    running(&supervision, "w").await;
    supervision.shut_down();
    assert_eq!(supervision.ended().await.unwrap().released.len(), 1);
    assert_eq!(log.lines(), ["w started", "w stopped", "released w"]);
}

/// A wedged leader kept renewing, and nobody took over.
// L39: kcp-dev/kcp#3196; moby/swarmkit#1658; hashicorp/consul#5047
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_makes_no_progress_counts_as_failed_and_its_lease_goes_to_another() {
    let (memory, log) = (Arc::new(MemoryStore::new(Clock::boottime())), Log::default());
    let limit = Duration::from_millis(50);
    let hanging = Played { progress_within: Some(limit), ..Played::new("w", Conduct::Deaf, &log) };
    let begun = Instant::now();
    let supervision = start(Faulty::new(&memory, &log), vec![hanging]).await;
    until(&supervision, "w cools down", |s| state(s, "w") == "cooling").await;
    log.until("w stopped", 4).await;
    assert_eq!(log.count("w started"), 4, "one start and three restarts");
    // Each is found out at its limit, and is stopped within S.
    let most = (limit + TIMING.stop_within) * 4;
    assert!(begun.elapsed() < most + Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(memory.list().await.unwrap()[0].holder.is_none(), "another instance could not try");
    let good = start(Faulty::new(&memory, &log), vec![Played::new("w", Conduct::Good, &log)]).await;
    running(&good, "w").await;
}

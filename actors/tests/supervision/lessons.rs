//! What went wrong for others, with real actors.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use leased_actors::lease::{Epoch, Incarnation, LeaseStore};
use leased_actors::memory::MemoryStore;
use leased_actors::supervisor::Supervision;
use tokio_util::sync::CancellationToken;

use crate::stage::{
    Conduct, Faulty, Log, Played, TIMING, declare_dead, leave, running, start, state, until, world,
};

/// A holder that can be cut off by its `away`, and a rival on standby; each with a log of its own.
struct Pair {
    holder: Supervision,
    away: Arc<std::sync::atomic::AtomicBool>,
    rival: Supervision,
    logs: [Log; 2],
}

async fn pair(conduct: Conduct, logs: [Log; 2]) -> Pair {
    let (memory, log) = world();
    let store = Faulty::new(&memory, &log);
    let away = store.away.clone();
    let worker = |log| vec![Played::new("w", conduct.clone(), log).external()];
    let holder = start(store, worker(&logs[0])).await;
    running(&holder, "w").await;
    let rival = start(Faulty::new(&memory, &log), worker(&logs[1])).await;
    until(&rival, "the rival registers", |s| s.incarnation.is_some()).await;
    Pair { holder, away, rival, logs }
}

/// The lease was lost, the loser was never told, and both acted.
// L1: kubernetes/kubernetes#23731
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_cut_off_is_stopped_within_f_plus_s_and_before_its_rival_starts() {
    let log = Log::default();
    let pair = pair(Conduct::Good, [log.clone(), log.clone()]).await;
    let cut = Instant::now();
    pair.away.store(true, Ordering::SeqCst);
    log.until("w stopped", 1).await;
    assert!(cut.elapsed() <= TIMING.stop_bound(), "{:?}", cut.elapsed());
    running(&pair.rival, "w").await;
    log.until("w started", 2).await;
    assert_eq!(log.lines(), ["w started", "w stopped", "w started"]);
    leave(pair.rival).await;
}

/// What ran was bound to the process's own end, not to the lease's.
// L4: kyverno/kyverno#14984 (PR)
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_nothing_after_its_lease_is_lost_though_its_process_lives_on() {
    let pair = pair(Conduct::Acting, [Log::default(), Log::default()]).await;
    pair.logs[0].until("w acts", 5).await;
    pair.away.store(true, Ordering::SeqCst);
    pair.logs[1].until("w acts", 1).await;
    let done = pair.logs[0].lines();
    pair.away.store(false, Ordering::SeqCst);
    until(&pair.holder, "the loser renews again", |s| s.trust_remaining() > Duration::ZERO).await;
    pair.logs[1].until("w acts", 100).await;
    assert_eq!(pair.logs[0].lines(), done, "it acted after its rival's start");
    assert_eq!(state(&pair.holder.snapshot().borrow(), "w"), "standby");
    leave(pair.rival).await;
    leave(pair.holder).await;
}

/// The release was sent on the context whose end had asked for it, and so never was.
// L10: google/trillian#3789
#[tokio::test(flavor = "multi_thread")]
async fn a_release_runs_to_its_end_though_the_root_token_was_cancelled_first() {
    let ((memory, log), root) = (world(), CancellationToken::new());
    let store = Faulty { slow_release: Duration::from_millis(100), ..Faulty::new(&memory, &log) };
    let worker = Played::new("w", Conduct::Rooted(root.clone()), &log);
    let mut supervision = start(store, vec![worker]).await;
    running(&supervision, "w").await;
    root.cancel();
    supervision.shut_down();
    // Whoever waits under the root waits no more; the release goes on without them.
    assert!(root.run_until_cancelled(supervision.ended()).await.is_none());
    log.until("released w", 1).await;
    assert!(memory.list().await.unwrap()[0].holder.is_none());
    assert_eq!(supervision.ended().await.unwrap().released.len(), 1);
}

/// Asking whether one is the leader timed out while the database was slow.
// L16: oban-bg/oban#717
#[tokio::test(flavor = "multi_thread")]
async fn is_trusted_answers_in_less_than_a_millisecond_while_the_database_does_not_answer_at_all() {
    let ((memory, log), term) = (world(), Arc::new(OnceLock::new()));
    let store = Faulty::new(&memory, &log);
    let mute = store.mute.clone();
    // Fenced: nobody stops it, so that nothing but the deadline ends its trust.
    let worker = Played::new("w", Conduct::Showing(term.clone()), &log);
    let supervision = start(store, vec![worker]).await;
    running(&supervision, "w").await;
    log.until("w started", 1).await;
    mute.store(true, Ordering::SeqCst);
    let (term, begun, mut asked) = (term.wait(), Instant::now(), 0_u32);
    while term.is_trusted() {
        asked += 1;
        assert!(begun.elapsed() < TIMING.stop_bound(), "trusted for ever");
    }
    // The mean: any one of them may have been pre-empted.
    let each = begun.elapsed() / asked.max(1);
    assert!(asked > 100 && each < Duration::from_millis(1), "{asked} questions, {each:?} each");
    assert!(!term.is_trusted());
    mute.store(false, Ordering::SeqCst);
    leave(supervision).await;
}

/// Every client had to know every job, since any of them could be elected for all.
// L19: riverqueue/river#658, #1113
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_without_a_worker_never_claims_its_lease() {
    let (memory, log) = world();
    let both = vec![Played::new("x", Conduct::Good, &log), Played::new("y", Conduct::Good, &log)];
    let mut other = start(Faulty::new(&memory, &log), both).await;
    running(&other, "x").await;
    running(&other, "y").await;
    let store = Faulty::new(&memory, &log);
    let asked = store.asked.clone();
    let here = start(store, vec![Played::new("x", Conduct::Good, &log)]).await;
    other.shut_down();
    other.ended().await.unwrap();
    running(&here, "x").await;
    // Many renewals that show `y` free; nothing is waited for.
    tokio::time::sleep(TIMING.renew_every * 15).await;
    assert_eq!(asked.count("y"), 0, "{:?}", asked.lines());
    let leases = memory.list().await.unwrap();
    let holders: Vec<_> = leases.iter().map(|lease| (lease.name.as_str(), lease.holder.is_some())).collect();
    assert_eq!(holders, [("x", true), ("y", false)]);
}

/// An election loop that ran once left a standby that never took over again.
// L38: Smana/runlore#250; haproxy-ingress#1210; controller-runtime#1784
#[tokio::test(flavor = "multi_thread")]
async fn after_a_hundred_losses_each_of_three_instances_still_contends() {
    let (memory, log) = world();
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(start(Faulty::new(&memory, &log), vec![Played::new("w", Conduct::Good, &log)]).await);
    }
    let mut last = Epoch(0);
    for _ in 0..100 {
        let (holder, epoch) = acquired_after(&memory, last).await;
        declare_dead(&memory, holder).await;
        last = epoch;
    }
    // Whoever has it leaves, until the last one had it.
    while !instances.is_empty() {
        let (holder, epoch) = acquired_after(&memory, last).await;
        let is_holder = |instance: &Supervision| instance.snapshot().borrow().incarnation == Some(holder);
        let at = instances.iter().position(is_holder).expect("the holder is one of them");
        let mut leaves = instances.remove(at);
        leaves.shut_down();
        assert!(leaves.ended().await.unwrap().is_clean());
        last = epoch;
    }
}

/// Who acquired the lease at an epoch above `last`.
async fn acquired_after(memory: &MemoryStore, last: Epoch) -> (Incarnation, Epoch) {
    let acquired = async {
        loop {
            let lease = memory.list().await.unwrap().pop();
            if let Some(lease) = lease.filter(|lease| lease.epoch > last)
                && let Some(holder) = lease.holder
            {
                return (holder.incarnation, lease.epoch);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), acquired).await.expect("nobody acquired it in 10 s")
}

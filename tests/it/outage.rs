//! PostgreSQL goes away under running instances, and comes back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use localnet::Net;

use crate::support::{
    eventually::eventually_blocking,
    place::Place,
    postgres::{Postgres, Stop},
    process::Instance,
    stage::{PATIENCE, Stage, is_in, until_in},
};

/// Longer than every time of a lease's: trust, TTL, grace.
const AWAY: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_server_costs_no_event_and_starts_no_second_worker() {
    outage(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_for_longer_than_the_ttl_costs_no_event() {
    outage(AWAY).await;
}

/// With the default times.
async fn outage(away: Duration) {
    let server = Postgres::private();
    // Reading again what is in already would make up for what was lost.
    let stage = Stage::on(Place::on(&server).await).await.with("ATCR__JETSTREAM__REWIND", "0s");
    let instances = ["one", "two"].map(|label| stage.start(label));
    let worker = stage.worker(&instances.each_ref());
    let standby = &instances[1 - worker];
    until_in(standby, "standby");
    let subscribers = Watch::start(stage.net.clone());
    let flow = stage.traffic(1, 50.0);
    // The stream has begun, so that there is something to lose.
    stage.changes(2, 20);
    let written = |instance: &Instance| instance.metric("atcr_index_records_changed_total", &[]);
    eventually_blocking("something is written", PATIENCE, || written(&instances[worker]).ok_or("nothing"));

    server.stop(Stop::Immediate);
    // How long it is away; nothing is waited for.
    tokio::time::sleep(away).await;
    let failed = ("lease_renewals_total", [("outcome", "error")]);
    for instance in &instances {
        if !away.is_zero() {
            assert!(instance.metric(failed.0, &failed.1).is_some_and(|count| count >= 2.0));
            assert!(!is_in(instance, "stopping"));
        }
    }
    server.start();

    let worker = stage.worker(&instances.each_ref());
    let before = written(&instances[worker]);
    stage.changes(3, 20);
    eventually_blocking("the index goes on", PATIENCE, || match written(&instances[worker]) {
        now if now > before => Ok(()),
        same => Err(same),
    });
    drop(flow);
    stage.is_the_source().await;
    assert_eq!(subscribers.end().await, 1, "workers at the same time");
    for instance in &instances {
        assert_eq!(
            instance.metric("actor_failures_total", &[]),
            None,
            "an outage is no failure of the worker"
        );
    }
}

/// Counts who follows the stream: a worker does, and nobody else.
struct Watch {
    ended: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    looking: tokio::task::JoinHandle<()>,
}

impl Watch {
    fn start(net: Arc<Net>) -> Watch {
        let (ended, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (until, seen) = (ended.clone(), most.clone());
        let looking = tokio::spawn(async move {
            while !until.load(Ordering::Relaxed) {
                seen.fetch_max(net.jetstream(0).stats().subscribers, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Watch { ended, most, looking }
    }

    /// The most that there were at the same time.
    async fn end(self) -> usize {
        self.ended.store(true, Ordering::Relaxed);
        self.looking.await.unwrap();
        self.most.load(Ordering::Relaxed)
    }
}

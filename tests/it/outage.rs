//! PostgreSQL goes away under running instances, and comes back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use atcr_workers::{app, settings::Settings};
use localnet::Net;

use crate::support::{
    eventually::{eventually, eventually_blocking},
    place::{Kind, Place},
    postgres::{Postgres, Stop},
    process::Instance,
    stage::{PATIENCE, SETTINGS, Stage, until_standby},
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

/// A pool hands out its idle sessions one after the other: after a restart of the server, each would cost a batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_the_server_has_closed_are_not_used_again() {
    let stage = Stage::new(Kind::Postgres).await;
    let settings = Settings::load(Some(SETTINGS.as_ref()), stage.environment("reader")).unwrap();
    let database = app::open(&settings).await.unwrap();
    let ours =
        "FROM pg_stat_activity WHERE application_name = 'atcr-workers' AND datname = current_database()";
    let count = format!("SELECT CAST(COUNT(*) AS TEXT) AS line {ours}");
    // While the table is locked each reader keeps its session, so that several are opened.
    let mut lock = stage.place.open().await.unwrap();
    lock.execute("BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let reads = futures_util::future::join_all((0..8).map(|_| database.known_dids()));
    let opened = eventually("several sessions are open", PATIENCE, async || {
        match stage.place.lines(&count).await[0].parse::<usize>().unwrap() {
            5.. => Ok(()),
            few => Err(few),
        }
    });
    // A reader that lost its patience with the lock kept its session all the same.
    let _ = futures_util::future::join(reads, async {
        opened.await;
        drop(lock);
    })
    .await;
    let open: usize = stage.place.lines(&count).await[0].parse().unwrap();

    stage.place.lines(&format!("SELECT CAST(pg_terminate_backend(pid) AS TEXT) AS line {ours}")).await;
    eventually("all are closed", PATIENCE, async || match &*stage.place.lines(&count).await[0] {
        "0" => Ok(()),
        some => Err(some.to_owned()),
    })
    .await;
    let mut failed = 0;
    for _ in 0..open {
        failed += usize::from(database.known_dids().await.is_err());
    }
    // The one whose end was on its way.
    assert!(failed <= 1, "{failed} of {open} reads failed");
}

/// With the default times.
async fn outage(away: Duration) {
    let server = Postgres::private();
    // Reading again what is in already would make up for what was lost.
    let stage = Stage::on(Place::on(&server).await).await.with("ATCR__JETSTREAM__REWIND", "0s");
    let instances = ["one", "two"].map(|label| stage.start(label));
    let worker = stage.worker(&instances.each_ref());
    let standby = &instances[1 - worker];
    until_standby(standby);
    let subscribers = Watch::start(stage.net.clone());
    let flow = stage.traffic(1, 50.0);
    // The stream has begun, so that there is something to lose.
    stage.changes(2, 20);
    let written = |instance: &Instance| instance.metric("atcr_index_records_changed_total", &[]);
    eventually_blocking("something is written", PATIENCE, || written(&instances[worker]).ok_or("nothing"));

    server.stop(Stop::Immediate);
    // How long it is away; nothing is waited for.
    tokio::time::sleep(away).await;
    for instance in &instances {
        if !away.is_zero() {
            // Its session is gone, and with it its incarnation.
            let lost = instance.metric("lease_renewals_total", &[("outcome", "dead")]);
            assert!(lost.is_some_and(|count| count >= 1.0));
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

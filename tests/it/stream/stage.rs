//! The whole `jetstream` worker under a supervisor, in this process, with the network in small around it. Its metrics
//! are this thread's, so that tests beside each other do not count for one another.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use atcr_workers::{
    atproto::{
        Collection,
        guard::{GuardSettings, Guarded},
        identity::{Dns, Resolver},
    },
    ingest::{self, connect},
    store::{Database, Fencing, Options},
};
use leased_actors::{
    clock::Clock,
    lease::{ProcessId, timing::Timing},
    memory::MemoryStore,
    supervisor::{self, Setup, Supervision},
};
use localnet::{Net, NetOptions, jetstream::JetstreamOptions};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::rows::{On, Rows, as_folded};
use crate::support::{eventually::eventually, process::sum_of_series, truth::Said};

pub(super) const EVENTS: &str = "atcr_stream_events_total";
pub(super) const CHANGED: &str = "atcr_index_records_changed_total";
pub(super) const DROPPED: &str = "atcr_stream_dropped_total";
pub(super) const REFUSED: &str = "atcr_index_writes_refused_total";
pub(super) const CONNECTS: &str = "atcr_stream_connects_total";
pub(super) const DISCONNECTS: &str = "atcr_stream_disconnects_total";

/// For what happens in milliseconds on an idle machine; on a loaded one a server has been seen to wait a minute for its
/// disk.
pub(super) const SOON: Duration = Duration::from_secs(180);
/// The idle limit of the stream: as short as a loaded machine's pauses allow.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(1);

/// A network, a database, and the worker between them once it runs.
pub(super) struct Stage {
    pub(super) net: Net,
    pub(super) rows: Rows,
    /// How the worker follows the stream from its next start on.
    pub(super) follow: connect::Config,
    /// How the worker asks strangers from its next start on.
    pub(super) guard: GuardSettings,
    database: Database,
    running: Option<Supervision>,
    recorder: PrometheusHandle,
    _counting: metrics::LocalRecorderGuard<'static>,
}

impl Stage {
    /// One Jetstream, nobody at work yet.
    pub(super) async fn on(on: On) -> Self {
        Self::with(on, vec![JetstreamOptions::default()]).await
    }

    /// As many Jetstreams, which the worker tries in their order.
    pub(super) async fn with(on: On, jetstreams: Vec<JetstreamOptions>) -> Self {
        let net = Net::start(NetOptions { jetstreams, ..NetOptions::default() }).await.unwrap();
        let rows = Rows::fresh(on).await;
        migrate(&rows);
        let database = open(&rows).await;
        rows.write_down_positions().await;
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let counting = metrics::set_default_local_recorder(Box::leak(Box::new(recorder)));
        let (follow, guard) = (follow(&net), guard(&net));
        Self { net, rows, follow, guard, database, running: None, recorder: handle, _counting: counting }
    }

    /// From its next start on the worker follows the second wires of the Jetstreams, with their dictionaries.
    pub(super) fn follow_second_wire(&mut self) {
        let host = |stream: &localnet::Jetstream| connect::Host::parse(&stream.url_v2()).unwrap();
        self.follow.hosts = self.net.jetstreams().iter().map(host).collect();
        // Made beforehand: a client's time limit is no matter of how long the first one takes.
        localnet::jetstream::dictionary(localnet::jetstream::V2_DICTIONARY);
        self.follow.compression.client = Some(Guarded::trusting(self.guard.clone()).unwrap());
    }

    /// Gives every Jetstream a past of an hour, so that no position is older than what it keeps.
    pub(super) fn begins_an_hour_ago(&self) {
        let time_us = localnet::ids::now_us() - 3_600_000_000;
        let did = "did:plc:strangerrrrrrrrrrrrrrrrr";
        let line = serde_json::json!({
            "did": did, "time_us": time_us, "kind": "identity", "identity": { "did": did, "seq": 1, "time": "" },
        });
        let jetstreams = self.net.jetstreams().iter();
        jetstreams.for_each(|jetstream| _ = jetstream.publish_line(line.to_string().into_bytes()).unwrap());
    }

    /// Starts the worker.
    pub(super) async fn start(&mut self) {
        let dns = Arc::new(Dns::new().unwrap());
        let guarded = Guarded::new(self.guard.clone()).unwrap();
        let operator = Guarded::trusting(self.guard.clone()).unwrap();
        let worker = ingest::Jetstream {
            database: self.database.clone(),
            follow: self.follow.clone(),
            resolver: Arc::new(Resolver::new(guarded, operator, &self.net.plc_url(), dns)),
        };
        let clock = Clock::boottime();
        let setup = Setup {
            process: ProcessId::new(),
            label: "stage".into(),
            host: "stage".into(),
            admin_address: None,
            timing: Timing::SQLITE,
            clock: clock.clone(),
            on_overdue: Arc::new(|term| panic!("{term} did not stop in time")),
        };
        let store = Arc::new(MemoryStore::new(clock));
        self.running = Some(supervisor::start(setup, store, vec![Arc::new(worker)]).await.unwrap());
    }

    /// Starts the worker and waits until it listens to the first Jetstream.
    pub(super) async fn start_and_subscribe(&mut self) {
        self.start().await;
        assert!(self.net.jetstream(0).subscribed(1, SOON).await, "{}", self.rendered());
    }

    /// Stops the worker as the end of the process does.
    pub(super) async fn stop(&mut self) {
        let mut running = self.running.take().expect("a running worker");
        running.shut_down();
        let report = running.ended().await.unwrap();
        assert!(report.is_clean(), "{report}");
    }

    /// Whether the worker has failed since it started, and why.
    pub(super) fn failure(&self) -> Option<String> {
        let snapshot = self.running.as_ref().expect("a running worker").snapshot();
        let leases = snapshot.borrow().leases.clone();
        leases.into_iter().find_map(|lease| lease.last_failure)
    }

    /// Waits until the index is what the events, taken in their order, and the accounts leave.
    pub(super) async fn becomes_the_fold(&self) {
        self.becomes_the_fold_and(&[]).await;
    }

    /// The same with records that the Jetstream does not count as its own.
    pub(super) async fn becomes_the_fold_and(&self, more: &[Said]) {
        // The worker has this thread as long as the looking takes: on a slow machine it gets nowhere otherwise.
        let mut pause = Duration::ZERO;
        eventually("the index is the in-order fold of the events", SOON, async || {
            tokio::time::sleep(pause).await;
            let since = Instant::now();
            let content = as_folded(&self.net, &self.rows, more).await;
            pause = since.elapsed();
            content.map_err(|difference| (difference, self.failure()))
        })
        .await;
    }

    /// Waits until the saved position of the first Jetstream is that of its newest event.
    pub(super) async fn saves_the_newest_position(&self) {
        let host = self.follow.hosts[0].key().to_string();
        eventually("the newest position is saved", SOON, async || {
            let (saved, newest) = (self.rows.cursor(&host).await, self.net.jetstream(0).newest_us());
            if saved == Some(newest) { Ok(()) } else { Err((saved, newest)) }
        })
        .await;
    }

    /// Waits until the saved number of the first Jetstream is that of its newest event.
    pub(super) async fn saves_the_newest_number(&self) {
        let host = self.key(0);
        eventually("the newest number is saved", SOON, async || {
            let newest = i64::try_from(self.net.jetstream(0).next_seq()).unwrap() - 1;
            let saved = self.rows.number(&host).await;
            if saved == Some(newest) { Ok(()) } else { Err((saved, newest)) }
        })
        .await;
    }

    /// Waits until exactly this is to be read again, as `DID REASON`.
    pub(super) async fn asks_for(&self, expected: &[&str]) {
        eventually("repositories are asked for again", SOON, async || {
            let requests = self.rows.requests().await;
            if requests == expected { Ok(()) } else { Err(requests) }
        })
        .await;
    }

    /// The sum over a metric's series with these labels; 0 if there is none yet.
    pub(super) fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        sum_of_series(&self.rendered(), name, labels).unwrap_or(0.0)
    }

    /// Waits until a metric is `expected`.
    pub(super) async fn counts(&self, name: &str, labels: &[(&str, &str)], expected: f64) {
        eventually(&format!("{name}{labels:?} is {expected}"), SOON, async || {
            let seen = self.metric(name, labels);
            if seen == expected { Ok(()) } else { Err(seen) }
        })
        .await;
    }

    pub(super) fn rendered(&self) -> String {
        self.recorder.render()
    }

    /// Where the Jetstream's positions are saved under.
    pub(super) fn key(&self, jetstream: usize) -> String {
        self.net.jetstream(jetstream).address().to_string()
    }
}

/// Makes the tables. In a runtime of its own: migrations need one of many threads.
pub(super) fn migrate(rows: &Rows) {
    std::thread::scope(|scope| {
        let migrated = scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async { open(rows).await.migrate().await.unwrap() });
        });
        migrated.join().unwrap();
    });
}

/// A database of the product's own, without leases.
async fn open(rows: &Rows) -> Database {
    let options = Options {
        url: rows.url(),
        direct_url: None,
        max_connections: 8,
        renew_timeout: Duration::from_secs(1),
        stop_within: Duration::from_secs(5),
        fencing: Fencing::Unleased,
    };
    Database::open(&options).await.unwrap()
}

fn follow(net: &Net) -> connect::Config {
    let host = |stream: &localnet::Jetstream| connect::Host::parse(&stream.url()).unwrap();
    connect::Config {
        hosts: net.jetstreams().iter().map(host).collect(),
        collections: Collection::ALL.iter().map(|collection| collection.nsid().to_owned()).collect(),
        rewind: Duration::from_secs(10),
        idle_limit: IDLE_LIMIT,
        connect_timeout: Duration::from_secs(2),
        message_bytes_max: connect::MESSAGE_BYTES_MAX,
        backoff: connect::Backoff {
            first: Duration::from_millis(20),
            last: Duration::from_millis(200),
            healthy_after: Duration::from_secs(60),
        },
        user_agent: "test".into(),
        compression: connect::Compression::default(),
    }
}

fn guard(net: &Net) -> GuardSettings {
    GuardSettings {
        allow_loopback: true,
        test_hosts: Some(net.test_hosts()),
        user_agent: "test".into(),
        timeout: Duration::from_secs(1),
        per_host: 2,
    }
}

//! The whole `labeler` worker under a supervisor, in this process, with a labeler in front of it and a database behind. Its
//! metrics are this thread's, so that tests beside each other do not count for one another.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use atcr_workers::{
    atproto::{
        guard::{GuardSettings, Guarded},
        identity::{Dns, Resolver},
    },
    labels::{Config, Labels, Named, connect::Waits},
    store::{Database, Fencing, Options},
};
use leased_actors::{
    clock::Clock,
    lease::{ProcessId, timing::Timing},
    memory::MemoryStore,
    supervisor::{self, Setup, Supervision},
};
use localnet::Labeler;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::support::{
    eventually::eventually,
    place::{Kind, Place},
    process::sum_of_series,
};

/// For what happens in milliseconds on an idle machine.
pub(super) const SOON: Duration = Duration::from_secs(120);

/// So late that it does not happen in a test.
pub(super) const NEVER: Duration = Duration::from_secs(24 * 3600);

pub(super) const LABELS: &str = "atcr_labeler_labels_total";
pub(super) const CONNECTS: &str = "atcr_labeler_connects_total";
pub(super) const DISCONNECTS: &str = "atcr_labeler_disconnects_total";
pub(super) const MISSED: &str = "atcr_labeler_missed_total";

/// Makes a test on each database of each of these functions, which take the kind. One thread each: see above.
macro_rules! on_both {
    { $($(#[$attribute:meta])* $name:ident),* $(,)? } => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name($crate::support::place::Kind::Sqlite).await;
            }
            )*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name($crate::support::place::Kind::Postgres).await;
            }
            )*
        }
    };
}
pub(super) use on_both;

/// A labeler, a database, and the worker between them once it runs.
pub(super) struct Stage {
    pub(super) labeler: Labeler,
    pub(super) place: Place,
    pub(super) database: Database,
    /// How the worker follows the labeler from its next start on.
    pub(super) config: Config,
    running: Option<Supervision>,
    recorder: PrometheusHandle,
    _counting: metrics::LocalRecorderGuard<'static>,
}

impl Stage {
    /// Nobody at work yet. The list is read only if the test wants it.
    pub(super) async fn on(kind: Kind) -> Self {
        let labeler = Labeler::start(0).await.unwrap();
        let place = Place::fresh(kind).await;
        migrate(&place);
        let database = open(place.url()).await;
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let counting = metrics::set_default_local_recorder(Box::leak(Box::new(recorder)));
        let named = Named::Did(labeler.did().parse().unwrap());
        let config = Config {
            idle_limit: Duration::from_secs(5),
            waits: Waits {
                first: Duration::from_millis(20),
                last: Duration::from_millis(200),
                slow_first: Duration::from_millis(400),
                slow_last: Duration::from_secs(2),
                healthy_after: Duration::from_secs(60),
                refusals_min: 5,
                refused_for: Duration::from_millis(500),
            },
            ask_every: NEVER,
            check_every: NEVER,
            ..Config::new(named, true, "test".into())
        };
        Self { labeler, place, database, config, running: None, recorder: handle, _counting: counting }
    }

    /// The same with the worker at work, and connected.
    pub(super) async fn following(kind: Kind) -> Self {
        let mut stage = Self::on(kind).await;
        stage.start_and_subscribe().await;
        stage
    }

    /// Starts the worker.
    pub(super) async fn start(&mut self) {
        let guard = GuardSettings {
            allow_loopback: true,
            test_hosts: None,
            user_agent: "test".into(),
            timeout: Duration::from_secs(10),
            per_host: 2,
        };
        let (guarded, operator) =
            (Guarded::new(guard.clone()).unwrap(), Guarded::trusting(guard.clone()).unwrap());
        let dns = Arc::new(Dns::new().unwrap());
        let worker = Labels {
            database: self.database.clone(),
            config: self.config.clone(),
            resolver: Arc::new(Resolver::new(guarded, operator, "http://127.0.0.1:1", dns)),
            client: Guarded::new(guard).unwrap(),
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

    /// Starts the worker and waits until it listens.
    pub(super) async fn start_and_subscribe(&mut self) {
        self.start().await;
        assert!(self.labeler.subscribed(1, SOON).await, "{}", self.rendered());
    }

    /// Stops the worker as the end of the process does.
    pub(super) async fn stop(&mut self) {
        let mut running = self.running.take().expect("a running worker");
        running.shut_down();
        let report = running.ended().await.unwrap();
        assert!(report.is_clean(), "{report}");
    }

    /// The subjects that the database hides.
    pub(super) async fn hidden(&self) -> Vec<String> {
        let lines = self.place.lines("SELECT DISTINCT uri AS line FROM taken_down").await;
        BTreeSet::from_iter(lines).into_iter().collect()
    }

    /// Waits until exactly these are hidden.
    pub(super) async fn hides(&self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|uri| (*uri).to_owned()).collect();
        eventually(&format!("{expected:?} are hidden"), SOON, async || {
            let hidden = BTreeSet::from_iter(self.hidden().await);
            if hidden == expected { Ok(()) } else { Err((hidden, self.rendered())) }
        })
        .await;
    }

    /// Waits until what is hidden is what the labeler says, and everything that it has said was heard.
    pub(super) async fn hides_what_the_labeler_says(&self) {
        self.heard_all().await;
        eventually("what is hidden is what the labeler says", SOON, async || {
            let (hidden, said) = (self.hidden().await, self.labeler.taken_down());
            if hidden == said { Ok(()) } else { Err((hidden, said)) }
        })
        .await;
    }

    /// Waits until the position is that of the newest label.
    pub(super) async fn heard_all(&self) {
        eventually("the newest label was heard", SOON, async || {
            let (saved, newest) = (self.position().await, self.labeler.seq().to_string());
            if saved == newest { Ok(()) } else { Err((saved, newest)) }
        })
        .await;
    }

    /// The saved position.
    pub(super) async fn position(&self) -> String {
        let select = "SELECT CAST(seq AS TEXT) AS line FROM labeler_cursor WHERE in_effect";
        self.place.lines(select).await.pop().unwrap_or_default()
    }

    /// How many labels are kept.
    pub(super) async fn kept(&self) -> String {
        self.place.lines("SELECT CAST(COUNT(*) AS TEXT) AS line FROM labels").await.remove(0)
    }

    /// The sum over a metric's series with these labels; 0 if there is none yet.
    pub(super) fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        sum_of_series(&self.rendered(), name, labels).unwrap_or(0.0)
    }

    /// Waits until a metric is at least so much.
    pub(super) async fn counts(&self, name: &str, labels: &[(&str, &str)], at_least: f64) {
        eventually(&format!("{name}{labels:?} is {at_least} or more"), SOON, async || {
            let seen = self.metric(name, labels);
            if seen >= at_least { Ok(()) } else { Err(seen) }
        })
        .await;
    }

    pub(super) fn rendered(&self) -> String {
        self.recorder.render()
    }
}

/// Makes the tables. In a runtime of its own: migrations need one of many threads.
pub(super) fn migrate(place: &Place) {
    std::thread::scope(|scope| {
        let migrated = scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async { open(place.url()).await.migrate().await.unwrap() });
        });
        migrated.join().unwrap();
    });
}

/// A database of the product's own, without leases.
pub(super) async fn open(url: &str) -> Database {
    let options = Options {
        url: url.to_owned(),
        direct_url: None,
        max_connections: 8,
        renew_timeout: Duration::from_secs(5),
        stop_within: Duration::from_secs(10),
        fencing: Fencing::Unleased,
    };
    Database::open(&options).await.unwrap()
}

/// A moment so many seconds from now, in microseconds.
pub(super) fn in_seconds(seconds: i64) -> i64 {
    localnet::ids::now_us() / 1000 * 1000 + seconds * 1_000_000
}

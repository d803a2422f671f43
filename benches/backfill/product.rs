//! The worker as `app` puts it together, on a database of its own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use atcr_workers::atproto::guard::Guarded;
use atcr_workers::atproto::identity::{Resolver, TxtLookup};
use atcr_workers::backfill::ask::Asker;
use atcr_workers::backfill::enumerate::Relays;
use atcr_workers::backfill::fetch::Fetcher;
use atcr_workers::backfill::pace::{Limits, Pace};
use atcr_workers::backfill::{Backfill, MISSED_AFTER};
use atcr_workers::store::Backend;
use leased_actors::clock::Clock;
use leased_actors::lease::Term;
use leased_actors::worker::{Context, Progress, Worker};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::bare::guard;
use crate::fixture::Fixture;
use crate::memory;
use crate::network::Setting;
use crate::stopwatch::{Cost, Stopwatch};

/// The default of the settings.
pub(crate) const CONCURRENCY: usize = 8;

const PER_HOST: usize = 2;

/// Between two looks at the run, and at memory.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A run takes a minute or two; one that takes so long has failed.
const STUCK_AFTER: Duration = Duration::from_secs(1_200);

/// DNS without a single record.
struct NoRecords;

#[async_trait]
impl TxtLookup for NoRecords {
    async fn txt(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

/// A database, and the worker's parts.
pub(crate) struct Product {
    fixture: Fixture,
    term: Term,
    relays: Relays,
    fetcher: Fetcher,
    hold: String,
}

impl Product {
    pub(crate) async fn new(backend: Backend, setting: &Setting) -> Self {
        let fixture = match backend {
            Backend::Sqlite => Fixture::sqlite().await,
            Backend::Postgres => Fixture::postgres().await,
        };
        let guard = guard(setting);
        let (guarded, operator) = (Guarded::new(guard.clone()).unwrap(), Guarded::trusting(guard).unwrap());
        let resolver =
            Resolver::new(guarded.clone(), operator.clone(), &setting.plc_url, Arc::new(NoRecords));
        let pace = Pace::new(Limits::of(PER_HOST));
        Self {
            term: fixture.term().await,
            fixture,
            relays: Relays::new([setting.relay_url.clone()], Asker::new(operator, pace.clone())),
            fetcher: Fetcher::new(resolver, guarded, pace),
            hold: setting.hold.clone(),
        }
    }

    /// One run from its beginning to its end, and resident memory during it.
    pub(crate) async fn run(&self) -> (Cost, Vec<f64>) {
        let worker = Backfill {
            database: self.fixture.database.clone(),
            relays: self.relays.clone(),
            fetcher: self.fetcher.clone(),
            seeds: vec![self.hold.parse().unwrap()],
            interval: Duration::ZERO,
            concurrency: CONCURRENCY,
            missed_after: MISSED_AFTER,
        };
        let stop = CancellationToken::new();
        let progress = Progress::new(Clock::boottime());
        let context = Context { term: self.term.clone(), stop: stop.clone(), progress };
        let before = self.fixture.database.backfill_run().await.unwrap().map_or(0, |run| run.id);
        let (watch, began) = (Stopwatch::start(), Instant::now());
        let task = tokio::spawn(async move { worker.run(context).await.unwrap() });
        let mut samples = Vec::new();
        loop {
            sleep(LOOK_EVERY).await;
            samples.push(memory::now().resident);
            let run = self.fixture.database.backfill_run().await.unwrap();
            if run.is_some_and(|run| run.id > before && run.is_over) {
                break;
            }
            assert!(began.elapsed() < STUCK_AFTER, "the run does not end");
        }
        let cost = watch.stop();
        stop.cancel();
        task.await.unwrap();
        (cost, samples)
    }

    /// Tables that do not hold exactly what the network has.
    pub(crate) async fn wrong_tables(&self, setting: &Setting) -> Vec<String> {
        let mut wrong = Vec::new();
        for (table, rows) in &setting.rows {
            let found =
                self.fixture.lines(&format!("SELECT CAST(COUNT(*) AS TEXT) AS line FROM {table}")).await;
            if found != [rows.to_string()] {
                wrong.push(format!("{table} has {found:?} rows, the network {rows}"));
            }
        }
        wrong
    }
}

/// Transactions that wrote what repositories say.
pub(crate) fn transactions(recorder: &PrometheusHandle) -> u64 {
    let text = recorder.render();
    let line = text.lines().find(|line| line.starts_with("atcr_backfill_transactions_total "));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

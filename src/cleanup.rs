//! The `cleanup` worker: sweeps what has expired, a few rows per transaction, table after table, at start and then each
//! interval. What that is, and after how long, stands in the store's [`SWEEPS`].

pub mod meters;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use leased_actors::lease::{Effects, LeaseName};
use leased_actors::worker::{Context, Worker, WorkerError};
use tokio::time::{Instant, sleep, sleep_until};

use crate::store::{Database, REGISTRY, SWEEP_ROWS_MAX, SWEEPS, Sweep, Sweepable, WriteError};

/// Between two transactions on one table, for those who write beside it. At half, a backlog is felt by them; at double,
/// one of a million rows takes minutes more.
const PAUSE: Duration = Duration::from_millis(50);

/// Transactions on one table in one sweep: half a million rows. What is left waits for the next one, so that no table
/// starves the others.
const BATCHES_MAX: u32 = 1_000;

/// How long it may not tell that it goes on. At half, one long lock of somebody's in the database passes for a hang; at
/// double, a hang costs two minutes.
const PROGRESS_WITHIN: Duration = Duration::from_secs(60);

/// How often it tells so while there is nothing to do.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The worker.
pub struct Cleanup {
    /// What is swept.
    pub database: Database,
    /// From the end of one sweep to the start of the next.
    pub interval: Duration,
    /// How long the history of leases is kept.
    pub history_for: Duration,
}

#[async_trait]
impl Worker for Cleanup {
    fn name(&self) -> LeaseName {
        "cleanup".parse().expect("the name is good")
    }

    fn effects(&self) -> Effects {
        Effects::Fenced
    }

    fn progress_within(&self) -> Option<Duration> {
        Some(PROGRESS_WITHIN)
    }

    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        let mut passed_over = BTreeMap::new();
        while !context.stop.is_cancelled() {
            if let Err(Stale) = self.sweep(&context, &mut passed_over).await {
                context.stop.cancelled().await;
                break;
            }
            self.rest(&context).await;
        }
        Ok(())
    }
}

/// Tables that are not swept, and why.
type PassedOver = BTreeMap<&'static str, String>;

/// Another has the lease: nothing more is written under this term.
struct Stale;

impl Cleanup {
    /// Every table once. One that fails is told, and does not keep the others waiting.
    async fn sweep(&self, context: &Context, passed_over: &mut PassedOver) -> Result<(), Stale> {
        let said = passed_over.clone();
        for sweep in SWEEPS.iter().chain(REGISTRY) {
            match self.sweep_table(context, sweep, passed_over).await {
                Ok(0) => {}
                Ok(rows) => tracing::info!(table = sweep.table, rows, "expired rows deleted"),
                Err(WriteError::Stale(term)) => {
                    tracing::warn!(lease.name = %term.name, lease.epoch = term.epoch.0, "sweep refused: another has the lease");
                    return Err(Stale);
                }
                Err(error) => {
                    meters::failed(sweep);
                    tracing::warn!(table = sweep.table, %error, "expired rows not deleted; the next sweep tries again");
                }
            }
        }
        if said != *passed_over {
            let tables: Vec<_> = passed_over.iter().map(|(table, why)| format!("{table} ({why})")).collect();
            tracing::info!(tables = tables.join(", "), "tables of the registry that are not swept");
        }
        if !context.stop.is_cancelled() {
            meters::swept_all();
        }
        Ok(())
    }

    /// What has expired in one table, until there is no more of it, or it is time to stop.
    async fn sweep_table(
        &self,
        context: &Context,
        sweep: &'static Sweep,
        passed_over: &mut PassedOver,
    ) -> Result<u64, WriteError> {
        if sweep.is_registrys() && !self.is_sweepable(context, sweep, passed_over).await? {
            return Ok(0);
        }
        let (mut total, history_for) = (0, self.history_for);
        for _ in 0..BATCHES_MAX {
            context.progress.made();
            // One that was begun is carried to its end by the store, also when this no longer waits for it.
            let batch =
                self.database.fenced(&context.term, async move |tx| tx.sweep(sweep, history_for).await);
            let Some(rows) = context.stop.run_until_cancelled(batch).await else { break };
            let rows = rows?;
            meters::swept(sweep, rows);
            total += u64::from(rows);
            if rows < SWEEP_ROWS_MAX {
                break;
            }
            context.stop.run_until_cancelled(sleep(PAUSE)).await;
        }
        Ok(total)
    }

    async fn is_sweepable(
        &self,
        context: &Context,
        sweep: &'static Sweep,
        passed_over: &mut PassedOver,
    ) -> Result<bool, WriteError> {
        let look = self.database.fenced(&context.term, async move |tx| tx.sweepable(sweep).await);
        let why = match context.stop.run_until_cancelled(look).await.transpose()? {
            None => return Ok(false),
            Some(Sweepable::Yes) => {
                passed_over.remove(sweep.table);
                return Ok(true);
            }
            Some(Sweepable::Absent) => "absent".to_owned(),
            Some(Sweepable::Without(column)) => format!("no column {column} in microseconds"),
        };
        passed_over.insert(sweep.table, why);
        Ok(false)
    }

    /// Waits until the next sweep is due, or it is time to stop.
    async fn rest(&self, context: &Context) {
        let due = Instant::now() + self.interval;
        while Instant::now() < due {
            context.progress.made();
            let wake = due.min(Instant::now() + TELL_EVERY);
            if context.stop.run_until_cancelled(sleep_until(wake)).await.is_none() {
                return;
            }
        }
    }
}

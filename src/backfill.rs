//! The `backfill` worker: lists the network's repositories, reads their records, and repairs the index.
//!
//! In reading order: who has records at all (`enumerate`), what one of them holds (`fetch`), how a listing in pages comes
//! to its end (`pages`), and how hosts are asked without being pressed (`ask`, `pace`): that half knows nothing of the
//! database. Then what is to be done (`run`): lists (`lists`) and repositories (`merge`), accounts that are gone
//! (`accounts`), what is written of each (`finding`) and of which together (`writer`), and what is told of it (`progress`,
//! `meters`).

mod accounts;
pub mod ask;
pub mod enumerate;
pub mod fetch;
mod finding;
mod lists;
mod merge;
pub mod meters;
pub mod pace;
pub mod pages;
mod progress;
mod run;
mod writer;

#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use leased_actors::lease::{Effects, LeaseName, Term};
use leased_actors::worker::{Context, Worker, WorkerError};

use self::enumerate::Relays;
use self::fetch::Fetcher;
use crate::atproto::Did;
use crate::store::Database;

/// How long it may not tell that it goes on. At half, one long lock of somebody's in the database passes for a hang; at
/// double, a hang costs two minutes.
const PROGRESS_WITHIN: Duration = Duration::from_secs(60);

/// How much older than the stream's position a change must be for the stream to have left it out. Relays and Jetstreams
/// have been seen to be minutes behind; at half, such a delay would pass for a fault, at double a fault is told later.
pub const MISSED_AFTER: Duration = Duration::from_secs(600);

/// The worker.
pub struct Backfill {
    /// Where the index is.
    pub database: Database,
    /// Who lists repositories.
    pub relays: Relays,
    /// Who reads them.
    pub fetcher: Fetcher,
    /// Repositories that no list needs to name: holds of the settings.
    pub seeds: Vec<Did>,
    /// From the end of a run to the start of the next, give or take a tenth; zero: there is none, and the lease is kept.
    pub interval: Duration,
    /// Repositories at once.
    pub concurrency: usize,
    /// See [`MISSED_AFTER`].
    pub missed_after: Duration,
}

/// What every task of a term has at hand.
#[derive(Clone)]
struct Desk {
    database: Database,
    relays: Relays,
    fetcher: Fetcher,
    term: Term,
    writer: writer::Writer,
    missed: progress::Missed,
}

#[async_trait]
impl Worker for Backfill {
    fn name(&self) -> LeaseName {
        "backfill".parse().expect("the name is good")
    }

    fn effects(&self) -> Effects {
        Effects::Fenced
    }

    fn progress_within(&self) -> Option<Duration> {
        Some(PROGRESS_WITHIN)
    }

    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        meters::begun();
        let desk = Desk {
            database: self.database.clone(),
            relays: self.relays.clone(),
            fetcher: self.fetcher.clone(),
            term: context.term.clone(),
            writer: writer::Writer::new(self.database.clone(), context.term.clone(), self.missed_after),
            missed: progress::Missed::default(),
        };
        run::Round::new(self, desk, context).run().await;
        Ok(())
    }
}

/// The wait before a further attempt: a minute after the first failure, doubling to an hour. At half, dead hosts are asked
/// twice as often for nothing; at double, one that restarted is read later.
fn wait_after(failures: u32) -> Duration {
    Duration::from_secs(60).saturating_mul(1 << failures.min(16)).min(Duration::from_secs(3_600))
}

/// Failures in a row after which an attempt is left to the next run: those before it span some two hours.
const FAILURES_MAX: u32 = 8;

/// What is told of an error, which may carry a stranger's words.
fn plain(error: &impl std::fmt::Display) -> String {
    error.to_string().chars().filter(|c| !c.is_control()).take(300).collect()
}

//! The part about the backfill. Pure.

use serde::Serialize;

use super::{seconds, time};
use crate::store::status::{RunStatus, WishStatus};

/// The backfill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backfill {
    /// The latest run; null before the first.
    pub run: Option<Run>,
    /// How many wishes to read a repository again wait.
    pub requests: u64,
    /// Whether one of them is about every repository.
    pub requests_every: bool,
    /// Seconds since the oldest of them.
    pub requests_oldest_seconds_ago: Option<f64>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Which one; they are numbered.
    pub id: i64,
    /// Why: a word.
    pub reason: String,
    /// Whether every record is written anew.
    pub forced: bool,
    /// `running`, `ended`, or `given up` (too old, or another one began).
    pub state: &'static str,
    /// When it began (RFC 3339, UTC).
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Repositories that it has found so far.
    pub repositories: u64,
    /// Those of them that it has tried.
    pub repositories_done: u64,
    /// Those that could not be read, and are tried again.
    pub repositories_failed: u64,
    /// Lists of repositories that it has not come to.
    pub lists_waiting: u64,
    /// Records that it has read.
    pub records: u64,
    /// Those that were not what was known.
    pub records_changed: u64,
    /// Of those, what the stream should have brought.
    pub records_missed: u64,
}

impl Backfill {
    pub(super) fn new(run: Option<RunStatus>, wishes: WishStatus) -> Self {
        Self {
            run: run.map(Run::from),
            requests: wishes.count,
            requests_every: wishes.every,
            requests_oldest_seconds_ago: wishes.oldest_us_ago.map(seconds),
        }
    }
}

impl From<RunStatus> for Run {
    fn from(of: RunStatus) -> Self {
        let report = of.report;
        Self {
            id: report.id,
            reason: of.reason,
            forced: of.forced,
            state: match of.ended_at {
                None => "running",
                Some(_) if of.given_up => "given up",
                Some(_) => "ended",
            },
            started_at: time(of.started_at),
            ended_at: of.ended_at.and_then(time),
            repositories: report.found,
            repositories_done: report.found.saturating_sub(report.waiting),
            repositories_failed: report.failed,
            lists_waiting: report.lists,
            records: report.totals.records,
            records_changed: report.totals.changed,
            records_missed: report.totals.missed,
        }
    }
}

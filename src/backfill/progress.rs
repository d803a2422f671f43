//! What is told of a run: a line at its start, at its end, and every ten seconds for those who look closely.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::meters;
use crate::atproto::{Collection, Did};
use crate::store::backfill::{RunReport, RunTotals};

/// At half, a person who watches the log sees no more of it; at double, less than a person waits.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// When a run's progress was last told, and since when it is watched.
pub(super) struct Told {
    began: Instant,
    last: Option<Instant>,
}

impl Default for Told {
    fn default() -> Self {
        Self { began: Instant::now(), last: None }
    }
}

impl Told {
    pub(super) fn is_due(&self) -> bool {
        self.last.is_none_or(|at| at.elapsed() >= TELL_EVERY)
    }
}

/// Records that the stream should have brought and has not, and whose the first of them was.
#[derive(Clone, Default)]
pub(super) struct Missed(Arc<Mutex<BTreeMap<Collection, (usize, Did)>>>);

impl Missed {
    /// Takes note of records of `did`.
    pub(super) fn note(&self, did: &Did, collection: Collection, count: usize) {
        let mut missed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        missed.entry(collection).or_insert_with(|| (0, did.clone())).0 += count;
    }

    /// What was noted since the last time, for a person; none if nothing was.
    fn take(&self) -> Option<String> {
        let missed = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let of = |(collection, (count, did)): (Collection, (usize, Did))| {
            format!("{count} of {} (of {did}, for one)", collection.nsid())
        };
        let missed: Vec<String> = missed.into_iter().map(of).collect();
        (!missed.is_empty()).then(|| missed.join(", "))
    }
}

/// Tells how far it is, or how it ended.
pub(super) fn tell(told: &mut Told, report: &RunReport, missed: &Missed, is_end: bool) {
    told.last = Some(Instant::now());
    meters::progress(report, is_end);
    let done = report.found - report.waiting;
    let (found, failed, lists) = (report.found, report.failed, report.lists);
    let RunTotals { records, changed, missed: _, requests } = report.totals;
    let seconds = told.began.elapsed().as_secs();
    if !is_end {
        tracing::debug!(
            run = report.id,
            done,
            found,
            failed,
            lists,
            records,
            changed,
            requests,
            seconds,
            "backfill"
        );
        return;
    }
    tracing::info!(
        run = report.id,
        repositories = found,
        failed,
        records,
        changed,
        requests,
        seconds,
        "backfill ended; what failed is tried again"
    );
    if let Some(records) = missed.take() {
        tracing::warn!(run = report.id, records, "the stream misses records that it should have brought");
    }
}

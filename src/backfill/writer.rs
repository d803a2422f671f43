//! Findings into the database, several repositories to a transaction. Owns who writes for whom, how much waits to be written,
//! and how many share a transaction.
//!
//! There is no task for it. Whoever has something to write puts it down and waits for its turn; whoever has the turn writes
//! what has been put down until then, and tells the others. So one that is alone waits for nothing, and while a transaction
//! is under way the next one fills. What is refused together is tried again alone, by each for itself: one bad repository
//! costs the others a transaction each, and nothing else. Nothing is remembered here that the database lacks for longer than
//! the task lives that found it: if all of them are dropped, what was not committed is read again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leased_actors::lease::Term;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::finding::{Finding, Tally, Writing};
use super::meters;
use crate::store::{Database, MERGE_ROWS_MAX, Tx, WriteError};

/// Repositories that share a transaction at most, however few records they have. At half, a run in which nothing changed
/// takes twice the transactions; at double, one of them holds others up for twice as long.
const REPOSITORIES_MAX: usize = 100;

/// What waits to be written, in bytes: as much as the largest repository has. At half, that one would not fit; at double, a
/// slow database costs twice the memory.
const WAITING_LEN_MAX: usize = 32 << 20;

/// A repository counts as so many bytes at least, so that no more than 512 wait.
const LEN_MIN: usize = 64 << 10;

/// Writes what is found under a term. Clones share what waits.
#[derive(Clone)]
pub(super) struct Writer(Arc<Shared>);

struct Shared {
    database: Database,
    term: Term,
    missed_after: Duration,
    room: Semaphore,
    waiting: Mutex<VecDeque<Waiting>>,
    turn: tokio::sync::Mutex<()>,
}

/// A finding that somebody has put down.
struct Waiting {
    finding: Arc<Finding>,
    told: oneshot::Sender<Told>,
}

/// What whoever had the turn tells of it.
enum Told {
    Written(Tally),
    /// It was alone in its transaction, which failed.
    Failed(WriteError),
    /// The transaction that it shared failed.
    FailedTogether,
}

impl Writer {
    pub(super) fn new(database: Database, term: Term, missed_after: Duration) -> Self {
        let room = Semaphore::new(WAITING_LEN_MAX / LEN_MIN);
        let (waiting, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Self(Arc::new(Shared { database, term, missed_after, room, waiting, turn }))
    }

    /// Writes a finding, in one transaction with others. `place`, where it was read, is given back as soon as there is room
    /// for it here. Not committed if dropped before its turn.
    pub(super) async fn write(
        &self,
        finding: Finding,
        place: OwnedSemaphorePermit,
    ) -> Result<Tally, WriteError> {
        let len = finding.len().clamp(LEN_MIN, WAITING_LEN_MAX).div_ceil(LEN_MIN);
        let room = self.0.room.acquire_many(u32::try_from(len).unwrap_or(1));
        let _room = room.await.expect("the semaphore is never closed");
        let finding = Arc::new(finding);
        let (told, mut answer) = oneshot::channel();
        self.waiting().push_back(Waiting { finding: Arc::clone(&finding), told });
        drop(place);
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                _turn = self.0.turn.lock() => self.write_waiting().await,
            }
        };
        match answer {
            Ok(Told::Written(tally)) => Ok(tally),
            Ok(Told::Failed(error)) => Err(error),
            // Without an answer whoever had the turn has panicked; over whose finding, each finds out for itself.
            Ok(Told::FailedTogether) | Err(_) => self.write_alone(finding).await,
        }
    }

    /// Writes a finding in a transaction of its own.
    pub(super) async fn write_alone(&self, finding: impl Into<Arc<Finding>>) -> Result<Tally, WriteError> {
        let mut tallies = self.commit(vec![finding.into()]).await?;
        Ok(tallies.pop().unwrap_or_default())
    }

    /// Writes what has been put down, as far as it fits into a transaction.
    async fn write_waiting(&self) {
        let batch = {
            let mut waiting = self.waiting();
            let count = batch_len(waiting.iter().map(|waiting| waiting.finding.rows()));
            waiting.drain(..count).collect::<Vec<_>>()
        };
        let findings: Vec<_> = batch.iter().map(|waiting| Arc::clone(&waiting.finding)).collect();
        let is_shared = findings.len() > 1;
        // Whoever is gone has no use for an answer.
        match self.commit(findings).await {
            Ok(tallies) => {
                for (waiting, tally) in batch.into_iter().zip(tallies) {
                    drop(waiting.told.send(Told::Written(tally)));
                }
            }
            Err(error) if is_shared => {
                tracing::debug!(%error, repositories = batch.len(), "not written together; each is tried alone");
                batch.into_iter().for_each(|waiting| drop(waiting.told.send(Told::FailedTogether)));
            }
            Err(error) => {
                let told = batch.into_iter().next().map(|waiting| waiting.told);
                drop(told.map(|told| told.send(Told::Failed(error))));
            }
        }
    }

    async fn commit(&self, findings: Vec<Arc<Finding>>) -> Result<Vec<Tally>, WriteError> {
        let Shared { database, term, missed_after, .. } = &*self.0;
        let mut writing = Writing::new(findings, *missed_after);
        loop {
            let work = async move |tx: &mut Tx| {
                let is_last = writing.go_on(tx).await?;
                Ok((writing, is_last))
            };
            let (went_on, is_last) = database.fenced(term, work).await?;
            meters::transaction();
            if is_last {
                return Ok(went_on.into_tallies());
            }
            writing = went_on;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        // Nothing in the queue can be half done.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many of those that wait, by their rows, share the next transaction: the first, and as many after it as fit.
fn batch_len(rows: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fits = |rows: &usize| {
        sum += rows;
        sum <= MERGE_ROWS_MAX
    };
    rows.take(REPOSITORIES_MAX).take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_takes_as_many_repositories_as_fit_and_never_none() {
        let count = |rows: &[usize]| batch_len(rows.iter().copied());
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[MERGE_ROWS_MAX, 0, 1]), 2);
        assert_eq!(count(&[20; 1_000]), 25);
        assert_eq!(count(&[0; 1_000]), REPOSITORIES_MAX);
        assert_eq!(count(&[300, 300]), 1);
    }
}

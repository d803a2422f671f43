//! Writes down what came of attempts, several in one transaction. What the database refuses is kept and tried again while
//! the term lasts: lost, it would be a delivery made twice. There are never more than a few for each lane, which waits for its own.

use std::collections::VecDeque;
use std::time::Duration;

use leased_actors::worker::Context;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::lanes::LANES;
use super::meters;
use crate::outbox::{self, Attempted};
use crate::store::tx::Outcome as LedTo;
use crate::store::{Database, WriteError};

/// The waits between tries of what the database refused.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// What came of an attempt, and who waits for it to be written.
pub(super) struct Outcome {
    id: String,
    result: Attempted,
    written: oneshot::Sender<()>,
}

/// Tells when a result is written; or that it is not, and will not be.
pub(super) type Written = oneshot::Receiver<()>;

/// Hands a result over to be written. None: nothing is written any more.
pub(super) async fn hand_over(
    outcomes: &mpsc::Sender<Outcome>,
    id: String,
    result: Attempted,
) -> Option<Written> {
    let (written, is_written) = oneshot::channel();
    outcomes.send(Outcome { id, result, written }).await.ok().map(|()| is_written)
}

/// Waits until the longest handed over of these is written. False: there is none, or it will not be.
pub(super) async fn next_written(unwritten: &mut VecDeque<Written>) -> bool {
    match unwritten.pop_front() {
        Some(written) => written.await.is_ok(),
        None => false,
    }
}

/// Writes results until nobody sends any more.
pub(super) struct Recorder {
    pub(super) database: Database,
    pub(super) context: Context,
}

impl Recorder {
    /// Ends when nobody sends any more. If another has the lease, it has the sending stopped.
    pub(super) async fn run(&self, mut outcomes: mpsc::Receiver<Outcome>) {
        let mut taken = Vec::with_capacity(LANES);
        while outcomes.recv_many(&mut taken, LANES).await > 0 {
            if let Err(Stale) = self.write(std::mem::take(&mut taken)).await {
                // Whoever has it sends what is left.
                self.context.stop.cancel();
                return;
            }
        }
    }

    /// All in one transaction; where that is refused, each in one of its own, so that none keeps the others out.
    async fn write(&self, mut outcomes: Vec<Outcome>) -> Result<(), Stale> {
        let mut wait = TRY_AGAIN.0;
        if self.commit(&outcomes).await? {
            outcomes.into_iter().for_each(Outcome::tell);
            return Ok(());
        }
        loop {
            let mut refused = Vec::new();
            for outcome in outcomes {
                if self.commit(std::slice::from_ref(&outcome)).await? {
                    outcome.tell();
                } else {
                    refused.push(outcome);
                }
            }
            outcomes = refused;
            // After a stop it is tried once more, and no further: who comes next delivers again, under the same id.
            if outcomes.is_empty() || self.context.stop.is_cancelled() {
                return Ok(());
            }
            self.context.stop.run_until_cancelled(sleep(wait)).await;
            wait = (wait * 2).min(TRY_AGAIN.1);
        }
    }

    /// False: the database did not take them.
    async fn commit(&self, outcomes: &[Outcome]) -> Result<bool, Stale> {
        let results: Vec<_> = outcomes.iter().map(|one| (one.id.clone(), one.result.clone())).collect();
        let written = self.database.fenced(&self.context.term, async move |tx| {
            let mut led_to = Vec::with_capacity(results.len());
            for (id, result) in &results {
                led_to.push(tx.delivery_attempted(id, result).await?);
            }
            Ok(led_to)
        });
        match written.await {
            Ok(led_to) => {
                for (outcome, led_to) in outcomes.iter().zip(&led_to) {
                    outcome.tell_of(led_to);
                }
                Ok(true)
            }
            Err(WriteError::Stale(term)) => {
                tracing::warn!(lease.name = %term.name, lease.epoch = term.epoch.0, "write refused: another has the lease");
                Err(Stale)
            }
            Err(error) => {
                meters::refused();
                tracing::warn!(%error, results = outcomes.len(), "results not written; trying again");
                Ok(false)
            }
        }
    }
}

impl Outcome {
    fn tell_of(&self, led_to: &LedTo) {
        meters::written(led_to);
        if led_to.is_disabled {
            outbox::meters::disabled();
            tracing::info!(delivery = self.id, "webhook disabled: nothing but failures for days");
        }
    }

    fn tell(self) {
        // A lane that was broken off waits for nothing.
        let _ = self.written.send(());
    }
}

/// Another has the lease: nothing more is written under this term.
struct Stale;

//! Judged labels into the database: labels and position in one transaction, under the fence. Owns when a write is tried again;
//! what is kept of a label is [`batch`]'s business, what it is about [`about`]'s.

mod about;
mod batch;

use std::sync::Arc;
use std::time::Duration;

use leased_actors::worker::Context;
use tokio::time::sleep;

use super::meters;
use super::verify::Signer;
use crate::store::labels::{LabelRow, LabelerPosition};
use crate::store::{Database, WriteError};

pub(super) use batch::Batch;

/// The waits between tries of a batch that the database refused.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Why the writing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was told to stop.
    Stopped,
    /// Somebody else has the lease. The supervisor is about to find out; until then, nothing more is done.
    Stale,
}

/// What a write that is repeated until it succeeds does.
#[derive(Clone, Debug)]
enum Write {
    Follow { key: Option<String> },
    Restart,
    Labels { rows: Vec<LabelRow>, seq: Option<i64>, era: i64 },
}

/// Writes under the term of the worker.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) database: Database,
    pub(super) context: Context,
    pub(super) signer: Arc<Signer>,
}

impl Writer {
    /// Puts the labeler into effect, and tells from where to hear it.
    pub(super) async fn follow(&self) -> Result<LabelerPosition, End> {
        let key = self.signer.known().await.key.as_ref().map(ToString::to_string);
        self.insist(Write::Follow { key }).await.map(|(position, _)| position)
    }

    /// The labeler's numbers have begun anew.
    pub(super) async fn restart(&self) -> Result<(), End> {
        self.insist(Write::Restart).await.map(drop)
    }

    /// Writes what has come together, and leaves the batch empty; how many labels were news.
    pub(super) async fn save(&self, batch: &mut Batch, era: i64) -> Result<usize, End> {
        if batch.is_empty() {
            return Ok(0);
        }
        let Batch { rows, seq } = std::mem::take(batch);
        let rows = rows.into_values().collect();
        let (_, changed) = self.insist(Write::Labels { rows, seq, era }).await?;
        meters::changed(changed);
        Ok(changed)
    }

    /// Again and again until it is in: a database error moves no position.
    async fn insist(&self, write: Write) -> Result<(LabelerPosition, usize), End> {
        let mut wait = TRY_AGAIN.0;
        loop {
            self.context.progress.made();
            match self.once(write.clone()).await {
                Ok(done) => return Ok(done),
                Err(WriteError::Stale(term)) => {
                    tracing::warn!(lease.name = %term.name, lease.epoch = term.epoch.0, "write refused: another has the lease");
                    return Err(End::Stale);
                }
                Err(error) => {
                    meters::refused(&error);
                    tracing::warn!(%error, "labels not written; trying again");
                }
            }
            if self.context.stop.run_until_cancelled(sleep(wait)).await.is_none() {
                return Err(End::Stopped);
            }
            wait = (wait * 2).min(TRY_AGAIN.1);
        }
    }

    async fn once(&self, write: Write) -> Result<(LabelerPosition, usize), WriteError> {
        let (src, verify) = (self.signer.did().clone(), self.signer.verifies());
        let work = async move |tx: &mut crate::store::Tx| {
            let mut done = (LabelerPosition::default(), 0);
            match &write {
                Write::Follow { key } => done.0 = tx.follow_labeler(&src, verify, key.as_deref()).await?,
                Write::Restart => tx.restart_labeler(&src).await?,
                Write::Labels { rows, seq, era } => {
                    done.1 = tx.store_labels(&src, *era, verify, rows).await?;
                    if let Some(seq) = seq {
                        tx.save_labeler_seq(&src, *seq).await?;
                    }
                }
            }
            Ok(done)
        };
        self.database.fenced(&self.context.term, work).await
    }
}

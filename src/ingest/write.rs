//! Batches into the database: rows and position in one transaction, under the fence. Owns what a batch is and when it
//! is tried again; must not know the socket.

pub(super) mod batch;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use leased_actors::worker::{Context, WorkerError};
use tokio::sync::Notify;
use tokio::time::{Instant, interval, interval_at, sleep, timeout_at};

use self::batch::Batch;
use super::connect::{Delivery, FrameReceiver};
use super::known::Known;
use super::meters;
use super::project::{FUTURE, What, project};
use crate::atproto::Micros;
use crate::store::{Applied, Database, WriteError};

/// Frames of ours in one transaction, however many others are between them. At half, a catch-up commits twice as often;
/// at double, a crash repeats twice as much.
const BATCH_FRAMES: usize = 500;

/// Bytes after which a batch is not filled further. At double, large records hold twice the memory for one commit.
const BATCH_BYTES: usize = 8 << 20;

/// How long a batch waits to fill. At half, a quiet stream commits for every event; at double, people see it late.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// How often the position is saved while nothing of ours comes. At double, a take-over repeats twice as much.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// How often the known accounts are read anew, for what other writers added or removed.
const RELOAD_EVERY: Duration = Duration::from_secs(60);

/// The waits between tries of a batch that the database refused.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Writes what comes out of the queue until told to stop.
pub(super) struct Writer {
    pub(super) database: Database,
    pub(super) context: Context,
    /// Told whenever identities may be due.
    pub(super) due: Arc<Notify>,
    known: Known,
    /// Positions that are passed and not saved: they came without anything to write.
    passed: Batch,
    ahead_told: bool,
}

/// Why the writing ended.
enum End {
    /// It was told to stop.
    Stopped,
    /// Somebody else has the lease. The supervisor is about to find out; until then, nothing more is done.
    Stale,
}

impl Writer {
    pub(super) fn new(database: Database, context: Context, due: Arc<Notify>) -> Self {
        Self { database, context, due, known: Known::default(), passed: Batch::default(), ahead_told: false }
    }

    /// Writes until told to stop; what is in the queue by then is written if it can be at once.
    pub(super) async fn run(mut self, mut frames: FrameReceiver) -> Result<(), WorkerError> {
        let stop = self.context.stop.clone();
        while !self.reload().await {
            self.context.progress.made();
            // Without them, known accounts' events would pass for strangers'.
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = sleep(TRY_AGAIN.1) => {}
            }
        }
        let mut reload = interval_at(Instant::now() + RELOAD_EVERY, RELOAD_EVERY);
        let mut save = interval(SAVE_EVERY);
        loop {
            self.context.progress.made();
            let outcome = tokio::select! {
                biased;
                () = stop.cancelled() => return self.finish(frames).await,
                _ = reload.tick() => {
                    self.reload().await;
                    Ok(())
                }
                _ = save.tick() => self.save().await,
                first = frames.recv() => match first {
                    Some(first) => self.batch(first, &mut frames).await,
                    None => return Err("the connection to the stream ended".into()),
                },
            };
            match outcome {
                Ok(()) => {}
                Err(End::Stopped) => return Ok(()),
                Err(End::Stale) => {
                    stop.cancelled().await;
                    return Ok(());
                }
            }
        }
    }

    /// The last batch and the last position, tried once: who comes next repeats what is not saved.
    async fn finish(mut self, mut frames: FrameReceiver) -> Result<(), WorkerError> {
        let mut rest = Vec::new();
        frames.recv_many(&mut rest, BATCH_FRAMES).now_or_never();
        for delivery in &rest {
            self.read(delivery);
        }
        let batch = Arc::new(std::mem::take(&mut self.passed));
        if let Err(error) = self.commit(&batch).await {
            tracing::debug!(%error, "the last batch was not written; the next holder repeats it");
        }
        Ok(())
    }

    async fn batch(&mut self, first: Delivery, frames: &mut FrameReceiver) -> Result<(), End> {
        let full_by = Instant::now() + BATCH_WAIT;
        let (mut taken, mut held) = (vec![first], Vec::new());
        let bytes = |held: &[Delivery]| held.iter().map(Delivery::size).sum::<usize>();
        loop {
            // What is to be written keeps its part of the queue's budget until it is in the database.
            held.extend(taken.drain(..).filter(|delivery| self.read(delivery)));
            // In a catch-up the next frames are always there, so the clock is looked at, too.
            if held.len() >= BATCH_FRAMES || bytes(&held) >= BATCH_BYTES || Instant::now() >= full_by {
                break;
            }
            let room = BATCH_FRAMES - held.len();
            match timeout_at(full_by, frames.recv_many(&mut taken, room)).await {
                Ok(more) if more > 0 => {}
                _ => break,
            }
        }
        if self.passed.is_only_position() { Ok(()) } else { self.save().await }
    }

    /// Takes what a delivery says. Whether it is more than a position.
    fn read(&mut self, delivery: &Delivery) -> bool {
        let frame = match delivery {
            Delivery::Frame(frame) => frame,
            Delivery::Gap(gap) => {
                self.passed.add_gap(gap);
                return true;
            }
        };
        let projected = project(frame.wire, &frame.bytes, &self.known, Micros::now().0);
        meters::projected(&projected);
        if let What::Change(change, _) = &projected.what {
            // Its author has a row from this batch on, so what follows of that account counts.
            self.known.extend([change.did.as_str()].into_iter());
        }
        if projected.what == What::Dropped(FUTURE) {
            self.tell_ahead(&frame.host);
        }
        let says_something = !matches!(projected.what, What::Dropped(_));
        self.passed.add(frame, projected);
        says_something
    }

    /// Says once that there is something of the future: all of it, if our clock is behind.
    fn tell_ahead(&mut self, host: &str) {
        if !std::mem::replace(&mut self.ahead_told, true) {
            tracing::warn!(
                host,
                "an event is more than ten minutes ahead of this machine's clock, and does not count: is the clock right?"
            );
        }
    }

    /// Commits what has come together, again and again until it is in: a database error moves no position.
    async fn save(&mut self) -> Result<(), End> {
        if self.passed.is_empty() {
            return Ok(());
        }
        let batch = Arc::new(std::mem::take(&mut self.passed));
        let mut wait = TRY_AGAIN.0;
        loop {
            self.context.progress.made();
            match self.commit(&batch).await {
                Ok(applied) => {
                    meters::written(&applied, &batch);
                    if batch.asks_for_identities() || !applied.new_users.is_empty() {
                        self.due.notify_one();
                    }
                    return Ok(());
                }
                Err(WriteError::Stale(term)) => {
                    tracing::warn!(lease.name = %term.name, lease.epoch = term.epoch.0, "write refused: another has the lease");
                    return Err(End::Stale);
                }
                Err(error) => {
                    meters::refused(&error);
                    tracing::warn!(%error, "batch not written; trying again");
                }
            }
            tokio::select! {
                () = self.context.stop.cancelled() => return Err(End::Stopped),
                () = sleep(wait) => wait = (wait * 2).min(TRY_AGAIN.1),
            }
        }
    }

    async fn commit(&self, batch: &Arc<Batch>) -> Result<Applied, WriteError> {
        if batch.is_empty() {
            return Ok(Applied::default());
        }
        let batch = batch.clone();
        self.database.fenced(&self.context.term, async move |tx| batch.write(tx).await).await
    }

    /// Reads the known accounts. False: that failed, and those of before stay.
    async fn reload(&mut self) -> bool {
        match self.database.known_dids().await {
            Ok(dids) => {
                self.known.reload(dids.iter().map(|did| did.as_str()));
                true
            }
            Err(error) => {
                tracing::warn!(%error, "known accounts not read");
                false
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

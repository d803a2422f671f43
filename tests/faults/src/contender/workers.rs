//! Workers that only record that they work: by fenced transactions, by acts outside the database, or not at all.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use atcr_workers::store::{Database, Tx, WriteError};
use leased_actors::lease::{Effects, LeaseName, TermId};
use leased_actors::worker::{Context, Worker, WorkerError};
use tokio::time::sleep;

use crate::history::{Event, Recorder, What};

/// How long a fenced transaction stays open between the fence and the write: long enough for a claim to fall into it.
const THINK: Duration = Duration::from_millis(2);

/// After a write that failed: the database is away.
const TRY_AGAIN: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fenced,
    External,
    Idle,
}

pub(super) struct Probe {
    name: LeaseName,
    kind: Kind,
    database: Database,
    recorder: Recorder,
    process: String,
    pace: Duration,
    written: AtomicI64,
}

impl Probe {
    pub(super) fn new(
        name: LeaseName,
        database: Database,
        recorder: Recorder,
        process: &str,
        pace_ms: u64,
    ) -> Result<Self, String> {
        let kind = match name.as_str().split('-').next() {
            Some("fenced") => Kind::Fenced,
            Some("external") => Kind::External,
            Some("idle") => Kind::Idle,
            _ => return Err(format!("worker {name}: expected fenced-…, external-… or idle-…")),
        };
        let (process, pace) = (process.to_owned(), Duration::from_millis(pace_ms));
        Ok(Self { name, kind, database, recorder, process, pace, written: AtomicI64::new(0) })
    }

    fn write(&self, term: &TermId, what: What) {
        let event = Event::now(&self.process, what).by(&term.holder.to_string());
        self.recorder.write(&event.of(term.name.as_str(), term.epoch.0));
    }

    async fn work(&self, context: &Context) {
        let term = &context.term;
        match self.kind {
            _ if self.pace.is_zero() => context.stop.cancelled().await,
            Kind::Idle => context.stop.cancelled().await,
            Kind::External => {
                if term.is_trusted() {
                    self.write(term.id(), What::Acted);
                }
                sleep(self.pace).await;
            }
            Kind::Fenced => self.commit(context).await,
        }
    }

    /// One fenced transaction. Its row is (epoch, name, n): what numbers the commits reads it there.
    async fn commit(&self, context: &Context) {
        let term = &context.term;
        let n = self.written.fetch_add(1, Ordering::SeqCst) + 1;
        let (epoch, name) = (term.id().epoch.to_string(), self.name.to_string());
        let written = self.database.fenced(term, async move |tx: &mut Tx| {
            sleep(THINK).await;
            tx.save_cursor(&epoch, &name, n).await
        });
        match written.await {
            Ok(()) => self.write(term.id(), What::Committed { n }),
            Err(WriteError::Stale(_)) => {
                self.write(term.id(), What::Refused { n });
                sleep(TRY_AGAIN).await;
            }
            // Not sent, or nobody knows whether it was committed: the database will say.
            Err(_) => sleep(TRY_AGAIN).await,
        }
        sleep(self.pace).await;
    }
}

#[async_trait]
impl Worker for Probe {
    fn name(&self) -> LeaseName {
        self.name.clone()
    }

    fn effects(&self) -> Effects {
        match self.kind {
            Kind::External => Effects::External,
            Kind::Fenced | Kind::Idle => Effects::Fenced,
        }
    }

    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        self.write(context.term.id(), What::Started { external: self.kind == Kind::External });
        let _stopped = Stopped { probe: self, term: context.term.id() };
        while !context.stop.is_cancelled() {
            tokio::select! {
                () = context.stop.cancelled() => {}
                () = self.work(&context) => context.progress.made(),
            }
        }
        Ok(())
    }
}

/// However the body ends, by a return or dropped at an await, this is its last word.
struct Stopped<'a> {
    probe: &'a Probe,
    term: &'a TermId,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.probe.write(self.term, What::Stopped);
    }
}

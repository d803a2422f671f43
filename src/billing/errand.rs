//! The one way out of the database: a request begins only while our term is trusted and nobody has told us to stop, and
//! is given up when we are told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leased_actors::lease::Term;
use leased_actors::worker::Context;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// How often it is told that it goes on while there is nothing to do, and how soon a trust that came back is seen.
const TELL_EVERY: Duration = Duration::from_secs(10);
const TRUST_EVERY: Duration = Duration::from_millis(100);

/// A worker gets 750 ms to stop with the shortest timing. At double, it is dropped instead; at half, a loaded database is.
const LAST_WRITE: Duration = Duration::from_millis(500);

/// No further request may begin: we were told to stop, or the term is not trusted, or over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Halted;

/// What every step of the worker has at hand.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    context: Context,
    is_over: Arc<AtomicBool>,
}

impl Errand {
    pub(super) fn new(context: Context) -> Self {
        Self { context, is_over: Arc::default() }
    }

    /// For the writes, which show it.
    pub(super) fn term(&self) -> &Term {
        &self.context.term
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.context.stop.is_cancelled()
    }

    /// The database says that another has the lease. Nothing begins any more, whatever our own clock says.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Makes one request, or waits for anything else, unless we are halted. A future does nothing before it is awaited, so
    /// what is asked for here has not begun. Dropped in the middle, its connection is closed.
    pub(super) async fn go<T>(&self, request: impl Future<Output = T>) -> Result<T, Halted> {
        self.context.progress.made();
        if self.is_stopped() || self.is_over.load(Ordering::Relaxed) || !self.context.term.is_trusted() {
            return Err(Halted);
        }
        self.context.stop.run_until_cancelled(request).await.ok_or(Halted)
    }

    /// Waits for a read or a write of the database, which ask for trust themselves, unless we are told to stop. A write that was
    /// begun is carried to its end by the store.
    pub(super) async fn stored<T>(&self, work: impl Future<Output = T>) -> Result<T, Halted> {
        self.context.progress.made();
        self.context.stop.run_until_cancelled(work).await.ok_or(Halted)
    }

    /// The same for the last write before a stop: it gets a moment, as much as is left to us.
    pub(super) async fn stored_at_last<T>(&self, work: impl Future<Output = T>) -> Result<T, Halted> {
        timeout(LAST_WRITE, work).await.map_err(|_| Halted)
    }

    /// Waits, and tells that this is no hang.
    pub(super) async fn rest(&self, time: Duration) -> Result<(), Halted> {
        let due = Instant::now() + time;
        while Instant::now() < due {
            self.context.progress.made();
            let wake = due.min(Instant::now() + TELL_EVERY);
            self.context.stop.run_until_cancelled(sleep_until(wake)).await.ok_or(Halted)?;
        }
        Ok(())
    }

    /// Waits until the term is trusted, or we are told to stop; for a term that is over, until the latter.
    pub(super) async fn until_trusted(&self) {
        loop {
            let waited = self.context.stop.run_until_cancelled(sleep(TRUST_EVERY)).await;
            let may_go = self.context.term.is_trusted() && !self.is_over.load(Ordering::Relaxed);
            if waited.is_none() || may_go {
                return;
            }
            self.context.progress.made();
        }
    }
}

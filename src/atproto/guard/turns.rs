//! Few requests at once to one host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The hosts that are being asked. A host is in it only while somebody asks or waits, so there are never more of them than
/// requests.
pub(super) struct Turns {
    per_host: usize,
    hosts: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

/// A place at a host, given back on drop.
pub(super) struct Turn {
    turns: Arc<Turns>,
    host: Box<str>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// At least one request at a time.
    pub(super) fn new(per_host: usize) -> Self {
        Self { per_host: per_host.max(1), hosts: Mutex::default() }
    }

    /// Waits for a place. Cancel-safe.
    pub(super) async fn take(self: &Arc<Self>, host: &str) -> Turn {
        let places = {
            let mut hosts = self.lock();
            let places = hosts.entry(host.into()).or_insert_with(|| Arc::new(Semaphore::new(self.per_host)));
            Arc::clone(places)
        };
        // Made before the wait, so that a wait that is given up leaves nothing behind.
        let mut turn = Turn { turns: Arc::clone(self), host: host.into(), permit: None };
        turn.permit = places.acquire_owned().await.ok();
        turn
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Semaphore>>> {
        // Nothing in the map can be half done.
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut hosts = self.turns.lock();
        // Whoever asks or waits holds the places too, and takes hold of them only under this lock.
        if hosts.get(&self.host).is_some_and(|places| Arc::strong_count(places) == 1) {
            hosts.remove(&self.host);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_host_has_two_turns_and_keeps_no_entry_after_them() {
        let turns = Arc::new(Turns::new(2));
        let (first, _second) = (turns.take("a").await, turns.take("a").await);
        assert!(turns.take("a").now_or_never().is_none());
        assert!(turns.take("b").now_or_never().is_some());
        assert_eq!(turns.lock().len(), 1);
        drop(first);
        assert!(turns.take("a").now_or_never().is_some());
        drop(_second);
        assert!(turns.lock().is_empty());
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_leaves_nothing_behind() {
        let turns = Arc::new(Turns::new(1));
        let first = turns.take("a").await;
        let mut waiting = Box::pin(turns.take("a"));
        assert!((&mut waiting).now_or_never().is_none());
        drop(first);
        drop(waiting);
        assert!(turns.lock().is_empty());
    }
}

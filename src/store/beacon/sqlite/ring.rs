//! The ring: each living instance waits, on a plain thread, for the lock of the next one's beacon, and so learns of its
//! end within a millisecond.
//!
//! A thread of the runtime's blocking pool would hold up the end of the process. A blocked thread cannot be cancelled:
//! it ends when the one it watches does, and then looks whether anybody still wants to know.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use leased_actors::lease::Incarnation;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::mpsc;

/// Threads per ring. One is enough until others register between us and the next, which leaves a thread behind until its
/// target ends: among a thousand instances that start one after the other, about seven times. Beyond it, the poll.
const WATCHED_MAX: usize = 8;

/// The stack of a thread that does two system calls.
const STACK_BYTES: usize = 64 * 1024;

/// One instance's place in the ring.
#[derive(Debug)]
pub(super) struct Ring {
    state: Arc<Mutex<State>>,
    ended: mpsc::Sender<Incarnation>,
}

#[derive(Debug, Default)]
struct State {
    /// Whose end we want to know.
    next: Option<Incarnation>,
    /// Who has a thread.
    watched: BTreeSet<Incarnation>,
}

impl Ring {
    /// A ring that watches nobody yet, and where it tells whose beacon went out.
    pub(super) fn new() -> (Self, mpsc::Receiver<Incarnation>) {
        let (ended, told) = mpsc::channel(WATCHED_MAX);
        (Self { state: Arc::default(), ended }, told)
    }

    /// Watches the next after `me` among the living, by incarnation. A beacon that could not be opened, or that was free
    /// and proved nothing, is not tried again: the poll and the TTL remain.
    pub(super) fn turn(
        &self,
        me: Incarnation,
        living: &BTreeSet<Incarnation>,
        open: impl FnOnce(Incarnation) -> io::Result<File>,
    ) {
        let next = next(me, living);
        let mut state = lock(&self.state);
        if state.next == next {
            return;
        }
        state.next = next;
        let Some(next) = next else { return };
        if state.watched.len() >= WATCHED_MAX || state.watched.contains(&next) {
            return;
        }
        let (shared, ended) = (Arc::clone(&self.state), self.ended.clone());
        let watching = open(next).and_then(|beacon| {
            let thread = thread::Builder::new().name("beacon-watch".into()).stack_size(STACK_BYTES);
            thread.spawn(move || {
                let granted = wait(&beacon);
                // Closed before anybody is told, so that the lock is in nobody's way.
                drop(beacon);
                let mut state = lock(&shared);
                state.watched.remove(&next);
                if granted && state.next == Some(next) {
                    // Full means that news enough is on its way.
                    let _ = ended.try_send(next);
                }
            })
        });
        match watching {
            Ok(_) => _ = state.watched.insert(next),
            Err(error) => tracing::debug!(instance = %next, %error, "its beacon is not watched"),
        }
    }

    /// Wants to know of nobody any more.
    pub(super) fn leave(&self) {
        lock(&self.state).next = None;
    }
}

fn next(me: Incarnation, living: &BTreeSet<Incarnation>) -> Option<Incarnation> {
    use std::ops::Bound::{Excluded, Unbounded};
    let after = living.range((Excluded(me), Unbounded)).next();
    after.or_else(|| living.first()).copied().filter(|next| *next != me)
}

/// Waits until the lock is free. False: the kernel has no more locks to give.
fn wait(beacon: &File) -> bool {
    loop {
        match flock(beacon, FlockOperation::LockShared) {
            Ok(()) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn who(number: u8) -> Incarnation {
        format!("{number:032x}").parse().unwrap()
    }

    #[test]
    fn the_living_form_a_ring_that_nobody_is_outside_of() {
        let living: BTreeSet<_> = [7, 1, 4].map(who).into();
        assert_eq!([1, 4, 7].map(|me| next(who(me), &living)), [4, 7, 1].map(who).map(Some));
        // Not listed yet, or no more.
        assert_eq!(next(who(5), &living), Some(who(7)));
        assert_eq!(next(who(1), &[who(1)].into()), None);
        assert_eq!(next(who(1), &BTreeSet::new()), None);
    }
}

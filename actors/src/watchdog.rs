//! The last resort for a worker that acts outside the database: a plain thread that ends the process just before trust
//! plus the stop budget has run out, if the worker is not confirmed stopped by then. A plain thread, since what it guards
//! against includes a runtime whose threads are all stuck (cilium#42920), and one that outlives the supervisor: a rival
//! may start as soon as the budget is over, however long the process then takes to end in order.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::lease::{TermId, Trust};

/// How often deadlines are looked at, at least: the thread's own sleep does not count suspend. At double, what woke up
/// works on for that much longer; at half it only costs wake-ups.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long before the end of the stop budget it bites: the process needs a moment to end, and the rival does not wait
/// for it. At half, a loaded machine makes them meet; at four times, a worker that is killed at the end of its own time
/// has none left to be confirmed in (`STOP_MARGIN` less this).
const EARLY: Duration = Duration::from_millis(50);

/// Called with the term whose worker did not stop; must end the process.
pub type Bite = Arc<dyn Fn(&TermId) + Send + Sync>;

/// Watches the terms it was given until they are let go, even when this handle is gone.
#[derive(Clone, Debug)]
pub(crate) struct Watchdog {
    watched: Arc<Mutex<Vec<Watched>>>,
}

#[derive(Debug)]
struct Watched {
    term: TermId,
    trust: Trust,
}

impl Watchdog {
    /// Starts the thread; it ends when the last handle is gone and no term is left.
    pub(crate) fn start(clock: Clock, stop_within: Duration, bite: Bite) -> std::io::Result<Self> {
        let watched = Arc::new(Mutex::new(Vec::new()));
        let bite_after = stop_within.saturating_sub(EARLY);
        let dog = Dog { watched: watched.clone(), clock, bite_after, bite };
        std::thread::Builder::new().name("watchdog".into()).spawn(move || dog.watch())?;
        Ok(Self { watched })
    }

    /// Watches `term` until [`Watchdog::let_go`].
    pub(crate) fn watch(&self, term: TermId, trust: Trust) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).push(Watched { term, trust });
    }

    /// The worker is confirmed stopped.
    pub(crate) fn let_go(&self, term: &TermId) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).retain(|watched| watched.term != *term);
    }
}

struct Dog {
    watched: Arc<Mutex<Vec<Watched>>>,
    clock: Clock,
    /// From the end of trust.
    bite_after: Duration,
    bite: Bite,
}

impl Dog {
    fn watch(&self) {
        loop {
            let next = self.next();
            let left = next.as_ref().map_or(LOOK_EVERY, |(at, _)| at.since(self.clock.now()));
            match next {
                None if Arc::strong_count(&self.watched) == 1 => return,
                Some((_, term)) if left.is_zero() => (self.bite)(&term),
                _ => {}
            }
            let look_again = if left.is_zero() { LOOK_EVERY } else { left.min(LOOK_EVERY) };
            std::thread::park_timeout(look_again);
        }
    }

    /// The term whose time is over first, and when that is.
    fn next(&self) -> Option<(Moment, TermId)> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let first = watched.iter().min_by_key(|watched| watched.trust.deadline())?;
        Some((first.trust.deadline() + self.bite_after, first.term.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::lease::{Epoch, Incarnation};

    #[test]
    fn it_bites_just_before_trust_and_the_stop_budget_have_passed_and_its_handle_may_be_gone() {
        let (clock, (bitten, bites)) = (Clock::manual(), mpsc::sync_channel(1_000));
        let bite: Bite = Arc::new(move |term| drop(bitten.send(term.clone())));
        let dog = Watchdog::start(clock.clone(), Duration::from_secs(1), bite).expect("a thread starts");
        let term = TermId { name: "w".parse().expect("a name"), holder: Incarnation::new(), epoch: Epoch(1) };
        let trust = Trust::none(clock.clone());
        trust.extend(clock.now() + Duration::from_secs(2));
        dog.watch(term.clone(), trust);
        clock.advance(Duration::from_millis(2_949));
        assert!(bites.recv_timeout(LOOK_EVERY * 3).is_err(), "bitten too early");
        drop(dog);
        assert!(bites.recv_timeout(LOOK_EVERY * 3).is_err(), "bitten too early");
        clock.advance(Duration::from_millis(1));
        assert_eq!(bites.recv_timeout(Duration::from_secs(5)), Ok(term));
    }

    #[test]
    fn it_leaves_who_was_confirmed_stopped_and_ends_with_its_handle() {
        let (clock, (bitten, bites)) = (Clock::manual(), mpsc::sync_channel(1_000));
        let bite: Bite = Arc::new(move |term| drop(bitten.send(term.clone())));
        let dog = Watchdog::start(clock.clone(), Duration::from_secs(1), bite).expect("a thread starts");
        let term = TermId { name: "w".parse().expect("a name"), holder: Incarnation::new(), epoch: Epoch(1) };
        dog.watch(term.clone(), Trust::none(clock.clone()));
        dog.let_go(&term);
        drop(dog);
        clock.advance(Duration::from_secs(9));
        // Its thread took the sender along.
        assert_eq!(bites.recv_timeout(Duration::from_secs(5)), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}

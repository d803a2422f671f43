//! The last resort for a worker that acts outside the database: a plain thread that ends the process when trust plus
//! the stop budget has run out and the worker is not confirmed stopped. A plain thread, since what it guards against
//! includes a runtime whose threads are all stuck (cilium#42920).

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::clock::Clock;
use crate::lease::{TermId, Trust};

/// How often deadlines are looked at: they move with each renewal, and the thread's own sleep does not count suspend.
/// At double, a bite could come later than the 250 ms that S keeps for it; at half it only costs wake-ups.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Called with the term whose worker did not stop; must end the process.
pub type Bite = Arc<dyn Fn(&TermId) + Send + Sync>;

/// Watches the terms it was given until they are let go.
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
    /// Starts the thread; it ends when the last handle is gone.
    pub(crate) fn start(clock: Clock, stop_within: Duration, bite: Bite) -> std::io::Result<Self> {
        let watched = Arc::new(Mutex::new(Vec::new()));
        let dog = Dog { watched: Arc::downgrade(&watched), clock, stop_within, bite };
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
    watched: Weak<Mutex<Vec<Watched>>>,
    clock: Clock,
    stop_within: Duration,
    bite: Bite,
}

impl Dog {
    fn watch(&self) {
        while let Some(watched) = self.watched.upgrade() {
            let overdue = {
                let watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
                let late = |w: &&Watched| self.clock.now() >= w.trust.deadline() + self.stop_within;
                watched.iter().find(late).map(|w| w.term.clone())
            };
            if let Some(term) = overdue {
                (self.bite)(&term);
            }
            drop(watched);
            std::thread::park_timeout(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::lease::{Epoch, Incarnation};

    #[test]
    fn it_bites_once_trust_and_the_stop_budget_have_passed_and_not_before() {
        let (clock, (bitten, bites)) = (Clock::manual(), mpsc::sync_channel(1_000));
        let bite: Bite = Arc::new(move |term| drop(bitten.send(term.clone())));
        let dog = Watchdog::start(clock.clone(), Duration::from_secs(1), bite).expect("a thread starts");
        let term = TermId { name: "w".parse().expect("a name"), holder: Incarnation::new(), epoch: Epoch(1) };
        let trust = Trust::none(clock.clone());
        trust.extend(clock.now() + Duration::from_secs(2));
        dog.watch(term.clone(), trust);
        clock.advance(Duration::from_millis(2_999));
        assert!(bites.recv_timeout(LOOK_EVERY * 3).is_err(), "bitten too early");
        clock.advance(Duration::from_millis(1));
        assert_eq!(bites.recv_timeout(Duration::from_secs(5)), Ok(term.clone()));
        dog.let_go(&term);
    }
}

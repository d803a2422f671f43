//! The last resort for a worker that acts outside the database: a plain thread that ends the process just before trust
//! plus the stop budget has run out, if the worker is not confirmed stopped by then. A plain thread, since what it guards
//! against includes a runtime whose threads are all stuck (cilium#42920), and one that outlives the supervisor: a rival
//! may start as soon as the budget is over, however long the process then takes to end in order.
//!
//! Who slept through the end of trust is late by no fault of the worker: after a suspend the budget runs from the waking,
//! once, or every laptop that sleeps would end the process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::lease::timing::Timing;
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
    /// From when the budget runs, once trust was seen to have passed.
    counts_from: Option<Moment>,
}

impl Watchdog {
    /// Starts the thread; it ends when the last handle is gone and no term is left.
    pub(crate) fn start(clock: Clock, timing: &Timing, bite: Bite) -> std::io::Result<Self> {
        let watched = Arc::new(Mutex::new(Vec::new()));
        let (trust_for, bite_after) = (timing.trust_for, timing.stop_within.saturating_sub(EARLY));
        let dog = Dog { watched: watched.clone(), clock, trust_for, bite_after, bite };
        let looked = dog.clock.now();
        std::thread::Builder::new().name("watchdog".into()).spawn(move || dog.watch(looked))?;
        Ok(Self { watched })
    }

    /// Watches `term` until [`Watchdog::let_go`].
    pub(crate) fn watch(&self, term: TermId, trust: Trust) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).push(Watched {
            term,
            trust,
            counts_from: None,
        });
    }

    /// The worker is confirmed stopped.
    pub(crate) fn let_go(&self, term: &TermId) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).retain(|watched| watched.term != *term);
    }
}

struct Dog {
    watched: Arc<Mutex<Vec<Watched>>>,
    clock: Clock,
    trust_for: Duration,
    /// From the end of trust.
    bite_after: Duration,
    bite: Bite,
}

impl Dog {
    fn watch(&self, mut looked: Moment) {
        loop {
            let now = self.clock.now();
            let next = self.next(looked, now);
            looked = now;
            let left = next.as_ref().map_or(LOOK_EVERY, |(at, _)| at.since(now));
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
    fn next(&self, looked: Moment, now: Moment) -> Option<(Moment, TermId)> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let ends =
            watched.iter_mut().map(|watched| (self.bite_at(watched, looked, now), watched.term.clone()));
        ends.min_by_key(|(at, _)| *at)
    }

    /// Only a pause longer than F puts the count off: a shorter one is what F and S are reckoned with. And only the one in
    /// which trust passed: a process that is stopped again and again gets no more time by it.
    fn bite_at(&self, watched: &mut Watched, looked: Moment, now: Moment) -> Moment {
        let deadline = watched.trust.deadline();
        if now < deadline {
            watched.counts_from = None;
            return deadline + self.bite_after;
        }
        let slept = now.since(looked) > self.trust_for;
        let from = *watched.counts_from.get_or_insert(if slept { now } else { deadline });
        from + self.bite_after
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::lease::{Epoch, Incarnation};

    /// A dog with F = 2 s and S = 1 s, its clock, a watched term whose trust has those two seconds, and its bites.
    fn watching() -> (Watchdog, Clock, TermId, Trust, mpsc::Receiver<TermId>) {
        let (clock, (bitten, bites)) = (Clock::manual(), mpsc::sync_channel(1_000));
        let bite: Bite = Arc::new(move |term| drop(bitten.send(term.clone())));
        let dog = Watchdog::start(clock.clone(), &Timing::POSTGRES, bite).expect("a thread starts");
        let term = TermId { name: "w".parse().expect("a name"), holder: Incarnation::new(), epoch: Epoch(1) };
        let trust = Trust::none(clock.clone());
        trust.extend(clock.now() + Duration::from_secs(2));
        dog.watch(term.clone(), trust.clone());
        (dog, clock, term, trust, bites)
    }

    /// Moves the clock, and waits until the dog has certainly looked.
    fn nothing_after(clock: &Clock, by: Duration, bites: &mpsc::Receiver<TermId>) {
        clock.advance(by);
        assert!(bites.recv_timeout(LOOK_EVERY * 4).is_err(), "bitten too early");
    }

    #[test]
    fn it_bites_just_before_trust_and_the_stop_budget_have_passed_and_its_handle_may_be_gone() {
        let (dog, clock, term, _, bites) = watching();
        nothing_after(&clock, Duration::from_millis(1_500), &bites);
        nothing_after(&clock, Duration::from_millis(1_449), &bites);
        drop(dog);
        nothing_after(&clock, Duration::ZERO, &bites);
        clock.advance(Duration::from_millis(1));
        assert_eq!(bites.recv_timeout(Duration::from_secs(5)), Ok(term));
    }

    #[test]
    fn it_leaves_who_was_confirmed_stopped_and_ends_with_its_handle() {
        let (dog, clock, term, _, bites) = watching();
        dog.let_go(&term);
        drop(dog);
        clock.advance(Duration::from_secs(9));
        // Its thread took the sender along.
        assert_eq!(bites.recv_timeout(Duration::from_secs(5)), Err(mpsc::RecvTimeoutError::Disconnected));
    }

    #[test]
    fn after_a_suspend_the_stop_budget_runs_from_the_waking_once() {
        let (dog, clock, term, _, bites) = watching();
        nothing_after(&clock, Duration::from_secs(120), &bites);
        nothing_after(&clock, Duration::from_millis(949), &bites);
        clock.advance(Duration::from_secs(120));
        assert_eq!(
            bites.recv_timeout(Duration::from_secs(5)),
            Ok(term.clone()),
            "a second suspend gave more time"
        );
        dog.let_go(&term);
    }

    #[test]
    fn a_renewal_after_a_suspend_ends_the_count() {
        let (_dog, clock, _, trust, bites) = watching();
        nothing_after(&clock, Duration::from_secs(120), &bites);
        trust.extend(clock.now() + Duration::from_secs(2));
        nothing_after(&clock, Duration::from_millis(1_999), &bites);
    }
}

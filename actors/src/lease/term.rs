//! A term in a worker's hand, and the trust that it lives by.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::TermId;
use crate::clock::{Clock, Moment};

/// The trust deadline of one incarnation: until when its acknowledged renewals let it act.
#[derive(Clone, Debug)]
pub struct Trust {
    clock: Clock,
    deadline: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Trust {
    /// No trust yet.
    pub fn none(clock: Clock) -> Self {
        Self { clock, deadline: Arc::default(), ended: Arc::default() }
    }

    /// Moves the deadline to `until` unless it is already later: each reply counts for its own send only.
    pub fn extend(&self, until: Moment) {
        self.deadline.fetch_max(until.as_nanos(), Ordering::SeqCst);
    }

    /// Ends all trust, for good: a dead incarnation stays dead.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// The latest deadline that there was.
    pub fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::SeqCst))
    }

    /// Whether the deadline lies ahead. No I/O, well under a microsecond; false after any suspend until renewed.
    pub fn lies_ahead(&self) -> bool {
        !self.ended.load(Ordering::SeqCst) && self.clock.now() < self.deadline()
    }
}

/// A term in a worker's hand: what it shows to the database with every write.
#[derive(Clone, Debug)]
pub struct Term {
    id: TermId,
    trust: Trust,
    ended: Arc<AtomicBool>,
}

impl Term {
    /// A term that lives by `trust`.
    pub fn new(id: TermId, trust: Trust) -> Self {
        Self { id, trust, ended: Arc::new(AtomicBool::new(false)) }
    }

    /// Its name, holder and epoch.
    pub fn id(&self) -> &TermId {
        &self.id
    }

    /// Whether its holder may act now: an atomic deadline check, no I/O. The fence has the last word on writes.
    pub fn is_trusted(&self) -> bool {
        !self.has_ended() && self.trust.lies_ahead()
    }

    /// Whether the supervisor has ended it; it never begins again.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Ends the term in this process: no write is sent under it any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

//! One lease as one instance sees it: its phase, and the words in which phases speak to the world.
//!
//! The phases are pure: an event and the present moment go in, commands come out, and the supervisor carries them out.
//! [`super::acquire`] leads from standby to a running worker, [`super::keep`] keeps it running, [`super::release`] leads
//! back.

use std::time::Duration;

use serde::Serialize;

use super::timing::Timing;
use super::{Ask, Effects, HandOver, Incarnation, LeaseName, LeaseRow, Release, TermId};
use crate::clock::Moment;
use crate::restart::{Failures, Intensity};

/// Where a lease stands in this instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not ours. Claims when a renewal shows it free.
    Standby,
    /// Not ours, and it may come to be: another instance goes first, until then.
    Deferring {
        /// Until when.
        until: Moment,
        /// Whose beacon is gone, if that is why.
        beaconless: Option<Incarnation>,
    },
    /// A claim is under way.
    Claiming,
    /// Ours, but a wait that somebody is owed has not passed.
    Waiting {
        /// The term.
        term: TermId,
        /// When the worker may start.
        until: Moment,
        /// Whether the store carries the wait for it.
        is_owed: bool,
    },
    /// Ours, and its worker runs.
    Running {
        /// The term.
        term: TermId,
    },
    /// Ours; its worker failed and starts again.
    Restarting {
        /// The term.
        term: TermId,
        /// When.
        at: Moment,
    },
    /// Its worker was told to stop.
    Stopping {
        /// The term.
        term: TermId,
        /// By when the stop must be confirmed.
        by: Moment,
        /// What comes after the confirmation.
        then: After,
    },
    /// The release is under way, or waits for its next try.
    Releasing {
        /// The term.
        term: TermId,
        /// How it is given back.
        how: Release,
        /// Tries so far.
        tries: u32,
        /// When to try again; none = one is under way.
        again_at: Option<Moment>,
    },
    /// Given up after failures.
    CoolingDown {
        /// When it may be claimed again.
        until: Moment,
    },
    /// The instance ends, and this is how it went.
    Done(Outcome),
}

/// What follows a confirmed stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The term is ours: give it back.
    Release(Release),
    /// The worker made no progress: that counts as a failure.
    Fail,
    /// The term is not, or perhaps not, ours: whatever the next renewal lists is the truth; this, if there is no next.
    Forget(Outcome),
}

/// How a lease ended when the instance did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was not ours.
    NotOurs,
    /// Its release was acknowledged.
    Released,
    /// Somebody else had it already.
    Lost,
    /// The store did not acknowledge the release, or nothing was sent, as the term was in doubt.
    LeftToExpire,
    /// Its worker did not confirm its stop, so nothing was released.
    Overdue,
}

/// What the phases ask the supervisor to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Register a new incarnation.
    Register,
    /// Listen to the store's news for this incarnation, and no other.
    Listen(Incarnation),
    /// Renew, and answer with the moment of sending.
    Renew(Incarnation),
    /// Let terms of this incarnation be trusted until then.
    Trust(Moment),
    /// End all trust of the incarnation.
    EndTrust,
    /// Declare an instance dead whose `renew_seq` stood still.
    DeclareDead {
        /// Who.
        who: Incarnation,
        /// The value that stood still.
        seen: i64,
    },
    /// Claim a lease.
    Claim(Ask),
    /// Declare all instances without a beacon dead.
    Bury(Incarnation),
    /// Start the worker.
    Start(TermId, HandOver),
    /// Start the worker again under the same term.
    Restart(TermId),
    /// Tell the worker to stop.
    Stop {
        /// The term.
        term: TermId,
        /// What the worker gets; after it, it is killed at its next await.
        within: Duration,
        /// Whether the term is over (or may be), so that not even a last write may be sent.
        revoked: bool,
        /// For the log.
        why: &'static str,
    },
    /// Tell the store that the wait that came with a term has passed.
    EndWait(TermId),
    /// Release a term.
    Release(TermId, Release),
    /// End the incarnation: its last release is acknowledged.
    Depart(Incarnation),
    /// Everything has ended: report and leave.
    End,
}

/// What every phase may look at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The present moment.
    pub now: Moment,
    /// The registered incarnation, if there is one.
    pub me: Option<Incarnation>,
    /// Whether the trust deadline lies ahead.
    pub trusted: bool,
    /// Whether the instance is ending.
    pub closing: bool,
    /// Whether an operator lets it take leases.
    pub up: bool,
    /// The how-manieth beyond its share this lease is, or would be; zero = within it. Beyond it others go first.
    pub beyond: usize,
    /// The times.
    pub timing: &'a Timing,
    /// A random number in `0.0..1.0`.
    pub jitter: f64,
}

/// One lease in one instance.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The lease.
    pub name: LeaseName,
    /// Where its worker's effects go.
    pub effects: Effects,
    /// Where it stands.
    pub phase: Phase,
    /// When the last answer of the store changed the phase: a renewal sent before it shows an older world.
    pub settled_at: Moment,
    /// How the term that is ours came free.
    pub after: HandOver,
    /// When the term's worker first started.
    pub started_at: Moment,
    /// Whom the last renewal showed as its holder.
    pub holder: Option<Incarnation>,
    /// Whether an operator paused it, by the last renewal.
    pub paused: bool,
    /// Whom an operator wants it to go to, by the last renewal.
    pub desired: Option<Incarnation>,
    /// Until when it is not moved for balance: nobody wanted it when it was.
    pub settled_until: Moment,
    /// Until when this instance stays away from it after failures.
    pub away_until: Moment,
    /// How often in a row this instance gave the lease up, as the store remembers it.
    pub given_up: u32,
    /// Its worker's recent failures.
    pub failures: Failures,
    /// How many are too many.
    pub intensity: Intensity,
}

impl Slot {
    /// A slot on standby.
    pub fn new(name: LeaseName, effects: Effects, intensity: Intensity) -> Self {
        Self {
            name,
            effects,
            phase: Phase::Standby,
            settled_at: Moment::default(),
            after: HandOver { reason: "first", gap: Duration::ZERO },
            started_at: Moment::default(),
            holder: None,
            paused: false,
            desired: None,
            settled_until: Moment::default(),
            away_until: Moment::default(),
            given_up: 0,
            failures: Failures::default(),
            intensity,
        }
    }

    /// Takes in what a renewal shows of the lease, whatever the phase.
    pub(crate) fn remember(&mut self, row: &LeaseRow, now: Moment) {
        self.holder = row.holder.filter(|_| row.holder_alive);
        self.paused = row.paused;
        self.desired = row.desired;
        self.away_until = now + row.cool_down;
        self.given_up = row.failures;
    }

    /// The term that this instance has, in whatever phase.
    pub fn term(&self) -> Option<&TermId> {
        match &self.phase {
            Phase::Waiting { term, .. }
            | Phase::Running { term }
            | Phase::Restarting { term, .. }
            | Phase::Stopping { term, .. }
            | Phase::Releasing { term, .. } => Some(term),
            Phase::Standby
            | Phase::Deferring { .. }
            | Phase::Claiming
            | Phase::CoolingDown { .. }
            | Phase::Done(_) => None,
        }
    }

    /// When time alone changes something here.
    pub fn due(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Deferring { until, .. } | Phase::Waiting { until, .. } | Phase::CoolingDown { until } => {
                Some(*until)
            }
            Phase::Restarting { at, .. } => Some(*at),
            Phase::Stopping { by, .. } => Some(*by),
            Phase::Releasing { again_at, .. } => *again_at,
            Phase::Standby | Phase::Claiming | Phase::Running { .. } | Phase::Done(_) => None,
        }
    }

    /// The phase as one word, for metrics and for people.
    pub fn state(&self) -> &'static str {
        match &self.phase {
            Phase::Standby | Phase::Deferring { .. } | Phase::Claiming | Phase::Done(_) => "standby",
            Phase::Waiting { .. } => "waiting",
            Phase::Running { .. } => "running",
            Phase::Restarting { .. } => "restarting",
            Phase::Stopping { .. } | Phase::Releasing { .. } => "stopping",
            Phase::CoolingDown { .. } => "cooling",
        }
    }

    /// Every word that [`Slot::state`] can say.
    pub const STATES: [&'static str; 6] =
        ["standby", "waiting", "running", "restarting", "stopping", "cooling"];
}

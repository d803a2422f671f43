//! One simulated instance: the real state machine, a worker per lease, and what happens to both.

use std::collections::BTreeMap;

use leased_actors::clock::Moment;
use leased_actors::lease::instance::Instance;
use leased_actors::lease::slot::Slot;
use leased_actors::lease::timing::Timing;
use leased_actors::lease::{Effects, Incarnation, LeaseName, ProcessId, TermId};
use leased_actors::restart::Intensity;

use crate::world::{Rules, TIMING};

/// What the simulation knows of an instance.
pub struct Node {
    pub instance: Instance,
    pub process: ProcessId,
    /// Rises with each crash: what was under way for an earlier life is lost.
    pub life: u64,
    pub workers: BTreeMap<LeaseName, Running>,
    pub paused_until: Option<Moment>,
    pub cut_until: Option<Moment>,
    pub down_until: Option<Moment>,
    pub ended: bool,
    /// Renewals sent.
    pub renewals: u32,
}

/// A worker's body.
#[derive(Clone)]
pub struct Running {
    pub term: TermId,
    /// The trust that its term lives by: that of its own incarnation.
    pub trusted_until: Moment,
    /// Since it was started, its instance was paused for longer than F.
    pub slept: bool,
}

impl Node {
    pub fn new(rules: Rules) -> Self {
        let slot = |(name, effects)| Slot::new(name, effects, Intensity::default());
        let timing = Timing { ttl: rules.ttl, ..TIMING };
        Self {
            instance: Instance::new(timing, (rules.leases)().into_iter().map(slot).collect()),
            process: ProcessId::new(),
            life: 0,
            workers: BTreeMap::new(),
            paused_until: None,
            cut_until: None,
            down_until: None,
            ended: false,
            renewals: 0,
        }
    }

    /// Whether its code runs at this moment.
    pub fn is_awake(&self, now: Moment) -> bool {
        !self.ended && [self.paused_until, self.down_until].iter().flatten().all(|until| now >= *until)
    }

    pub fn is_cut(&self, now: Moment) -> bool {
        self.cut_until.is_some_and(|until| now < until)
    }

    /// A renewal was acknowledged.
    pub fn extend_trust(&mut self, me: Option<Incarnation>, until: Moment) {
        for running in self.workers.values_mut().filter(|running| Some(running.term.holder) == me) {
            running.trusted_until = running.trusted_until.max(until);
        }
    }
}

pub fn leases() -> Vec<(LeaseName, Effects)> {
    let named = |name: &str, effects| (name.parse().unwrap(), effects);
    vec![
        named("inside", Effects::Fenced),
        named("outside", Effects::External),
        named("outward", Effects::External),
    ]
}

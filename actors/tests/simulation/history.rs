//! Which instance worked under which term and when, and the hand of a test that makes things happen.

use std::time::Duration;

use leased_actors::clock::Moment;
use leased_actors::lease::instance::Event;
use leased_actors::lease::{LeaseName, TermId};

use crate::world::World;

/// One worker's work under one term.
#[derive(Clone, Debug)]
pub struct Stint {
    pub node: usize,
    pub term: TermId,
    pub from: Moment,
    /// When it ended, or its trust did if that was earlier: it did nothing after that.
    pub to: Option<Moment>,
}

impl World {
    /// Workers of the node are over.
    pub fn over(&mut self, node: usize, which: impl Fn(&LeaseName) -> bool) {
        let now = self.clock.now();
        let workers = std::mem::take(&mut self.nodes[node].workers);
        let (over, going) = workers.into_iter().partition(|(name, _)| which(name));
        self.nodes[node].workers = going;
        for running in over.into_values() {
            let stint = |stint: &&mut Stint| stint.node == node && stint.to.is_none();
            let of_it = self.history.iter_mut().filter(stint).find(|stint| stint.term == running.term);
            of_it.unwrap().to = Some(now.min(running.trusted_until));
        }
    }

    /// The work under this lease so far, in the order of its beginnings.
    pub fn stints(&self, name: &LeaseName) -> Vec<&Stint> {
        self.history.iter().filter(|stint| stint.term.name == *name).collect()
    }

    /// When it did nothing any more, if that is past: one that still sleeps has not noticed.
    fn done(&self, stint: &Stint) -> Option<Moment> {
        let asleep = self.nodes[stint.node].workers.get(&stint.term.name);
        let asleep = asleep.filter(|running| running.term == stint.term).map(|running| running.trusted_until);
        stint.to.or(asleep.filter(|until| *until <= self.clock.now()))
    }

    /// Who runs the worker of this lease.
    pub fn runner(&self, name: &LeaseName) -> Option<usize> {
        self.nodes.iter().position(|node| node.workers.contains_key(name))
    }

    /// The instance stands still for a while.
    pub fn stall(&mut self, node: usize, span: Duration) {
        let (node, until) = (&mut self.nodes[node], self.clock.now() + span);
        node.paused_until = node.paused_until.max(Some(until));
        // It may have been stalled just before: only its trust says when its work was over.
        node.workers.values_mut().for_each(|running| running.slept = true);
    }

    /// The instance ends in order, and begins again.
    pub fn shut_down(&mut self, node: usize) {
        self.step(node, Event::Shutdown);
    }

    /// The work under this lease is by one after the other. Gives the number of terms.
    pub fn assert_disjoint(&self, name: &LeaseName) -> usize {
        let stints = self.stints(name);
        for pair in stints.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            // A restart is under the same term.
            let ordered =
                self.done(before).is_some_and(|to| to <= after.from) && before.term.epoch <= after.term.epoch;
            assert!(ordered, "seed {}: {before:?} and {after:?}", self.seed);
        }
        stints.len()
    }
}

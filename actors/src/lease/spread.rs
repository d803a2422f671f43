//! Leases spread over instances: who has its share, and who has too many. Pure.
//!
//! Nobody plans for the others. One that has its share lets those below it go first, and in steady state the one that
//! has most gives one lease up now and then, which somebody below its share then takes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Heartbeat, Incarnation};
use crate::clock::Moment;

/// Between two moves, and after each change in who is there. At half, a rolling restart moves leases about that the next
/// instance would have taken anyway; at double, balance comes that much later.
const PAUSE: Duration = Duration::from_secs(5);

/// How long a lease that came back, since nobody wanted it, is not moved again: another instance may be cooling down
/// from it, or may not know its worker.
pub const SETTLED: Duration = Duration::from_secs(300);

/// What the last renewal showed of the leases of all instances.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Leases of each instance that takes any.
    loads: BTreeMap<Incarnation, usize>,
    up: bool,
    all_taken: bool,
    /// No move before this.
    quiet_until: Moment,
}

impl Spread {
    /// Takes a renewal's reply in.
    pub fn observe(&mut self, me: Incarnation, world: &Heartbeat, now: Moment) {
        let mut loads: BTreeMap<_, _> =
            world.peers.iter().filter(|peer| peer.up).map(|peer| (peer.incarnation, 0)).collect();
        for holder in world.leases.iter().filter(|row| row.holder_alive).filter_map(|row| row.holder) {
            loads.entry(holder).and_modify(|load| *load += 1);
        }
        if !loads.keys().eq(self.loads.keys()) {
            self.quiet_until = now + PAUSE;
        }
        self.up = loads.contains_key(&me);
        self.all_taken = world.leases.iter().all(|row| row.holder_alive || row.paused);
        self.loads = loads;
    }

    /// Whether an operator lets this instance take leases.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Whether `ours` of `all` leases are this instance's share, or more.
    pub fn is_sated(&self, ours: usize, all: usize) -> bool {
        ours >= all.div_ceil(self.loads.len().max(1)) && self.loads.len() > 1
    }

    /// Whether this instance is the one that has to give one up now.
    pub fn has_too_many(&self, me: Incarnation, now: Moment) -> bool {
        let least = self.loads.values().min().copied().unwrap_or(0);
        let most = self.loads.iter().max_by_key(|(_, load)| **load);
        let uneven = most.is_some_and(|(who, load)| *who == me && load - least > 1);
        uneven && self.all_taken && now >= self.quiet_until
    }

    /// A lease was given up for balance.
    pub fn moved(&mut self, now: Moment) {
        self.quiet_until = now + PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Epoch, LeaseRow, Peer};
    use super::*;

    fn world(loads: &[(Incarnation, usize)]) -> Heartbeat {
        let peer = |who| Peer { incarnation: who, renew_seq: 1, ttl: PAUSE, up: true };
        let lease = |holder| LeaseRow {
            name: "w".parse().expect("a name"),
            epoch: Epoch(1),
            holder: Some(holder),
            holder_alive: true,
            paused: false,
            desired: None,
            cool_down: Duration::ZERO,
            failures: 0,
        };
        Heartbeat {
            leases: loads.iter().flat_map(|(who, load)| (0..*load).map(|_| lease(*who))).collect(),
            peers: loads.iter().map(|(who, _)| peer(*who)).collect(),
        }
    }

    #[test]
    fn only_the_one_that_has_most_gives_up_and_only_if_the_difference_is_more_than_one() {
        let (a, b) = (Incarnation::new(), Incarnation::new());
        for (loads, expected) in [((3, 1), (true, false)), ((2, 1), (false, false)), ((0, 2), (false, true))]
        {
            let mut spread = Spread::default();
            let world = world(&[(a, loads.0), (b, loads.1)]);
            spread.observe(a, &world, Moment::default());
            let later = Moment::default() + PAUSE;
            assert_eq!((spread.has_too_many(a, later), spread.has_too_many(b, later)), expected, "{loads:?}");
        }
    }

    #[test]
    fn nothing_moves_while_instances_come_and_go_or_a_lease_is_free() {
        let (a, b) = (Incarnation::new(), Incarnation::new());
        let mut spread = Spread::default();
        spread.observe(a, &world(&[(a, 4), (b, 0)]), Moment::default());
        assert!(!spread.has_too_many(a, Moment::default() + PAUSE / 2));
        assert!(spread.has_too_many(a, Moment::default() + PAUSE));
        let mut with_free = world(&[(a, 4), (b, 0)]);
        with_free.leases[0].holder_alive = false;
        spread.observe(a, &with_free, Moment::default());
        assert!(!spread.has_too_many(a, Moment::default() + PAUSE));
    }

    #[test]
    fn a_share_is_the_rounded_up_part_and_one_alone_is_never_sated() {
        let (a, b) = (Incarnation::new(), Incarnation::new());
        let mut spread = Spread::default();
        spread.observe(a, &world(&[(a, 0), (b, 0)]), Moment::default());
        assert_eq!([1, 2].map(|ours| spread.is_sated(ours, 3)), [false, true]);
        spread.observe(a, &world(&[(a, 3)]), Moment::default());
        assert!(!spread.is_sated(3, 3));
    }
}

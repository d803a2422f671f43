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

    /// How many of `all` leases are this instance's share; as good as all if it is alone.
    pub fn share(&self, all: usize) -> usize {
        if self.loads.len() > 1 { all.div_ceil(self.loads.len()) } else { usize::MAX }
    }

    /// Where among the leases that came free this instance begins, of `free`: each elsewhere, so that not all of them
    /// ask for the same ones.
    pub fn begins_at(&self, me: Incarnation, free: usize) -> usize {
        let before = self.loads.range(..me).count();
        before * free / self.loads.len().max(1)
    }

    /// How many leases this instance has to give up now. One, mostly; half of what it has too many, if that is more:
    /// with hundreds of leases on the first of many instances, one at a time would take an hour.
    pub fn surplus(&self, me: Incarnation, now: Moment) -> usize {
        let least = self.loads.values().min().copied().unwrap_or(0);
        let Some((who, most)) = self.loads.iter().max_by_key(|(_, load)| **load) else { return 0 };
        if *who != me || most - least <= 1 || !self.all_taken || now < self.quiet_until {
            return 0;
        }
        let share = self.loads.values().sum::<usize>().div_ceil(self.loads.len());
        (most.saturating_sub(share) / 2).max(1)
    }

    /// Leases were given up for balance.
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
            assert_eq!((spread.surplus(a, later) == 1, spread.surplus(b, later) == 1), expected, "{loads:?}");
        }
    }

    #[test]
    fn nothing_moves_while_instances_come_and_go_or_a_lease_is_free() {
        let (a, b) = (Incarnation::new(), Incarnation::new());
        let mut spread = Spread::default();
        spread.observe(a, &world(&[(a, 4), (b, 0)]), Moment::default());
        assert_eq!(spread.surplus(a, Moment::default() + PAUSE / 2), 0);
        assert_eq!(spread.surplus(a, Moment::default() + PAUSE), 1);
        let mut with_free = world(&[(a, 4), (b, 0)]);
        with_free.leases[0].holder_alive = false;
        spread.observe(a, &with_free, Moment::default());
        assert_eq!(spread.surplus(a, Moment::default() + PAUSE), 0);
    }

    #[test]
    fn a_share_is_the_rounded_up_part_and_one_alone_has_no_limit() {
        let (a, b) = (Incarnation::new(), Incarnation::new());
        let mut spread = Spread::default();
        spread.observe(a, &world(&[(a, 0), (b, 0)]), Moment::default());
        assert_eq!(spread.share(3), 2);
        spread.observe(a, &world(&[(a, 3)]), Moment::default());
        assert_eq!(spread.share(3), usize::MAX);
    }

    #[test]
    fn who_has_many_too_many_gives_up_half_of_them_at_once() {
        let (a, b) = (Incarnation::new(), Incarnation::new());
        for ((most, least), expected) in [((500, 0), 125), ((310, 190), 30), ((253, 247), 1), ((251, 249), 1)]
        {
            let mut spread = Spread::default();
            spread.observe(a, &world(&[(a, most), (b, least)]), Moment::default());
            assert_eq!(spread.surplus(a, Moment::default() + PAUSE), expected, "{most} and {least}");
        }
    }

    #[test]
    fn all_begin_elsewhere_among_what_came_free() {
        let all: Vec<_> = std::iter::repeat_with(Incarnation::new).take(3).collect();
        let mut spread = Spread::default();
        spread.observe(all[0], &world(&[(all[0], 0), (all[1], 0), (all[2], 0)]), Moment::default());
        let mut begin: Vec<_> = all.iter().map(|me| spread.begins_at(*me, 10)).collect();
        begin.sort_unstable();
        assert_eq!(begin, [0, 3, 6]);
        assert_eq!(Spread::default().begins_at(all[0], 10), 0);
    }
}

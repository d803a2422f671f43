//! Who stands still: the renewals of others, as this instance saw them, on its own clock that counts suspend.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Incarnation, Peer};
use crate::clock::Moment;

/// What this instance saw of the others' renewals.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    seen: BTreeMap<Incarnation, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    renew_seq: i64,
    since: Moment,
}

/// An instance whose renewals stood still for its whole TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Who.
    pub who: Incarnation,
    /// The `renew_seq` that stood still: the declaration is void if it has moved.
    pub seen: i64,
}

impl Watch {
    /// Takes a renewal's reply, received at `now`, and tells who has been silent for the larger of its TTL and `ttl`.
    pub fn observe(&mut self, me: Incarnation, peers: &[Peer], ttl: Duration, now: Moment) -> Vec<Silent> {
        let alive = |who: &Incarnation| peers.iter().any(|peer| peer.incarnation == *who);
        self.seen.retain(|who, _| alive(who));
        let mut silent = Vec::new();
        for peer in peers.iter().filter(|peer| peer.incarnation != me) {
            let fresh = Seen { renew_seq: peer.renew_seq, since: now };
            let seen = self.seen.entry(peer.incarnation).or_insert(fresh);
            if seen.renew_seq != peer.renew_seq {
                *seen = fresh;
            } else if now.since(seen.since) >= ttl.max(peer.ttl) {
                silent.push(Silent { who: peer.incarnation, seen: seen.renew_seq });
            }
        }
        silent
    }

    /// Starts from zero: what was seen before our own trust lapsed proves nothing about the time between.
    pub fn forget(&mut self) {
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    fn peer(who: Incarnation, renew_seq: i64, ttl: u64) -> Peer {
        Peer { incarnation: who, renew_seq, ttl: Duration::from_secs(ttl), up: true }
    }

    #[test]
    fn only_silence_for_the_whole_of_the_longer_ttl_counts() {
        let (me, other) = (Incarnation::new(), Incarnation::new());
        let mut watch = Watch::default();
        assert_eq!(watch.observe(me, &[peer(other, 1, 8)], TTL, at(10)), []);
        assert_eq!(watch.observe(me, &[peer(other, 1, 8)], TTL, at(17)), []);
        assert_eq!(watch.observe(me, &[peer(other, 1, 8)], TTL, at(18)), [Silent { who: other, seen: 1 }]);
    }

    #[test]
    fn a_renewal_begins_the_count_anew_and_so_does_our_own_lapse() {
        let (me, other) = (Incarnation::new(), Incarnation::new());
        let mut watch = Watch::default();
        watch.observe(me, &[peer(other, 1, 5)], TTL, at(10));
        watch.observe(me, &[peer(other, 2, 5)], TTL, at(14));
        assert_eq!(watch.observe(me, &[peer(other, 2, 5)], TTL, at(18)), []);
        watch.forget();
        assert_eq!(watch.observe(me, &[peer(other, 2, 5)], TTL, at(30)), []);
        assert_eq!(watch.observe(me, &[peer(other, 2, 5)], TTL, at(35)).len(), 1);
    }

    #[test]
    fn an_instance_never_suspects_itself_and_forgets_the_dead() {
        let (me, other) = (Incarnation::new(), Incarnation::new());
        let mut watch = Watch::default();
        watch.observe(me, &[peer(me, 1, 5), peer(other, 1, 5)], TTL, at(0));
        assert_eq!(watch.observe(me, &[peer(me, 1, 5)], TTL, at(100)), []);
        assert!(watch.seen.is_empty());
    }
}

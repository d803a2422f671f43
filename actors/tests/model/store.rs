//! The store, as far as a decision rests on it: rows, beacons, a wall clock. One lease. What LEASES calls statements
//! are functions here, and each is atomic.

use std::collections::BTreeMap;
use std::time::Duration;

use leased_actors::lease::{
    Ask, Claim, Epoch, HandOver, Heartbeat, Incarnation, LeaseName, LeaseRow, Peer, Renewal, TermId,
};

use crate::rules::{Broken, Rules, TICK};

#[derive(Clone, Debug)]
pub struct Store {
    pub instances: BTreeMap<Incarnation, Row>,
    pub lease: Lease,
    /// Added to the ticks, it is the store's wall clock.
    pub clock_offset: i64,
    pub is_up: bool,
}

/// An incarnation. The dead whom the lease does not name are left out: they are as good as never registered.
#[derive(Clone, Debug)]
pub struct Row {
    pub node: usize,
    /// Which process of that node.
    pub life: u32,
    pub renew_seq: i64,
    /// By the wall clock.
    pub renewed_at: i64,
    pub is_up: bool,
    pub has_beacon: bool,
    /// When a silent session is dropped.
    pub drop_at: Option<u64>,
    pub dead: Option<Death>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    Beacon,
    Ttl,
    Left,
}

#[derive(Clone, Debug)]
pub struct Lease {
    pub name: LeaseName,
    pub epoch: i64,
    pub holder: Option<Incarnation>,
    /// In ticks: what each claimer waits, until one has waited it out.
    pub owed: u64,
    /// By the store's wall clock, for what is broken on purpose: kept as a time, it is what is left of it.
    pub start_not_before: i64,
    /// The tick before which the worker of somebody else may still be at work.
    pub owed_until: u64,
    /// The epoch of the last fenced commit.
    pub committed: i64,
}

impl Store {
    pub fn new(name: LeaseName) -> Self {
        let lease =
            Lease { name, epoch: 0, holder: None, owed: 0, start_not_before: 0, owed_until: 0, committed: 0 };
        Self { instances: BTreeMap::new(), lease, clock_offset: 0, is_up: true }
    }

    pub fn wall(&self, now: u64) -> i64 {
        now.cast_signed() + self.clock_offset
    }

    pub fn is_alive(&self, who: Incarnation) -> bool {
        self.instances.get(&who).is_some_and(|row| row.dead.is_none())
    }

    /// Whether nobody living has the lease.
    pub fn is_free(&self) -> bool {
        self.lease.holder.is_none_or(|holder| !self.is_alive(holder))
    }

    /// The living holder, if its beacon is gone.
    pub fn beaconless_holder(&self) -> Option<Incarnation> {
        self.lease.holder.filter(|who| self.is_alive(*who) && !self.instances[who].has_beacon)
    }

    pub fn register(&mut self, me: Incarnation, node: usize, life: u32, now: u64) {
        for row in self.instances.values_mut().filter(|row| row.node == node && row.life == life) {
            row.has_beacon = false;
        }
        let (renewed_at, renew_seq) = (self.wall(now), 0);
        let row = Row {
            node,
            life,
            renew_seq,
            renewed_at,
            is_up: true,
            has_beacon: true,
            drop_at: None,
            dead: None,
        };
        self.instances.insert(me, row);
    }

    pub fn renew(&mut self, me: Incarnation, rules: &Rules, now: u64) -> Renewal {
        let wall = self.wall(now);
        let Some(row) = self.instances.get_mut(&me).filter(|row| row.dead.is_none() && row.has_beacon) else {
            return Renewal::Dead;
        };
        row.renew_seq += 1;
        row.renewed_at = wall;
        if rules.broken == Broken::WallClockTtl {
            self.expire_by_wall_clock(wall, rules);
        }
        let lease = LeaseRow {
            name: self.lease.name.clone(),
            epoch: Epoch(self.lease.epoch),
            holder: self.lease.holder,
            holder_alive: !self.is_free(),
            paused: false,
            desired: None,
            cool_down: Duration::ZERO,
            failures: 0,
        };
        let peer = |(who, row): (&Incarnation, &Row)| Peer {
            incarnation: *who,
            renew_seq: row.renew_seq,
            ttl: rules.timing.ttl,
            up: row.is_up,
        };
        let peers = self.instances.iter().filter(|(_, row)| row.dead.is_none()).map(peer).collect();
        Renewal::Alive(Heartbeat { leases: vec![lease], peers })
    }

    fn expire_by_wall_clock(&mut self, wall: i64, rules: &Rules) {
        let ttl = ticks(rules.timing.ttl).cast_signed();
        let late = |row: &Row| row.dead.is_none() && wall - row.renewed_at >= ttl;
        let late: Vec<_> = self.instances.iter().filter(|(_, row)| late(row)).map(|(who, _)| *who).collect();
        for who in late {
            self.end(who, Death::Ttl);
        }
    }

    /// Whatever its beacon says: one that stood still for the whole TTL has stopped.
    pub fn declare_dead(&mut self, who: Incarnation, seen: i64) -> bool {
        let still = self.instances.get(&who).is_some_and(|row| row.dead.is_none() && row.renew_seq == seen);
        if still {
            self.end(who, Death::Ttl);
        }
        still
    }

    pub fn bury(&mut self, rules: &Rules) -> Vec<Incarnation> {
        let gone = |row: &Row| row.dead.is_none() && !row.has_beacon;
        let gone: Vec<_> = self.instances.iter().filter(|(_, row)| gone(row)).map(|(who, _)| *who).collect();
        let how = if rules.broken == Broken::TtlBeforeBeacon { Death::Ttl } else { Death::Beacon };
        for who in &gone {
            self.end(*who, how);
        }
        gone
    }

    pub fn claim(&mut self, ask: &Ask, rules: &Rules, now: u64) -> Option<Claim> {
        if ask.beaconless.is_some_and(|who| self.beaconless_holder() == Some(who)) {
            self.bury(rules);
        }
        let me = self.instances.get(&ask.me).filter(|row| row.dead.is_none() && row.is_up)?.clone();
        if !self.is_free() {
            return None;
        }
        let (wall, grace) = (self.wall(now), ticks(ask.grace));
        let old = self.lease.holder.and_then(|holder| self.instances.get(&holder));
        let owes = old
            .is_some_and(|old| old.dead == Some(Death::Beacon) && (old.node, old.life) != (me.node, me.life));
        let lease = &mut self.lease;
        if rules.broken == Broken::CarriedWait {
            (lease.owed, lease.owed_until) = (0, 0);
        }
        if owes {
            lease.owed = lease.owed.max(grace);
            lease.start_not_before = lease.start_not_before.max(wall + grace.cast_signed());
            lease.owed_until = lease.owed_until.max(now + grace);
        }
        lease.epoch = (lease.epoch + 1).max(100 + self.clock_offset);
        lease.holder = Some(ask.me);
        let wait = match rules.broken {
            Broken::WallClockWait => u64::try_from(lease.start_not_before - wall).unwrap_or(0),
            _ => lease.owed,
        };
        let term = TermId { name: lease.name.clone(), holder: ask.me, epoch: Epoch(lease.epoch) };
        self.forget_the_dead();
        let after = HandOver { reason: "released", gap: Duration::ZERO };
        Some(Claim { term, wait: TICK * u32::try_from(wait).unwrap_or(u32::MAX), after })
    }

    pub fn has(&self, term: &TermId) -> bool {
        self.lease.holder == Some(term.holder) && self.lease.epoch == term.epoch.0
    }

    pub fn end_wait(&mut self, term: &TermId) -> bool {
        let ours = self.has(term);
        if ours {
            self.lease.owed = 0;
        }
        ours
    }

    pub fn release(&mut self, term: &TermId) -> bool {
        let ours = self.has(term);
        if ours {
            self.lease.holder = None;
            self.forget_the_dead();
        }
        ours
    }

    /// A transaction of a leased worker: the fence, then one row. False: refused.
    pub fn commit(&mut self, term: &TermId, rules: &Rules) -> bool {
        let fenced = rules.broken == Broken::Fence || self.has(term) && self.is_alive(term.holder);
        if fenced {
            self.lease.committed = term.epoch.0;
        }
        fenced
    }

    /// Sessions that were silent for D are dropped.
    pub fn drop_silent(&mut self, now: u64) {
        for row in self.instances.values_mut().filter(|row| row.drop_at.is_some_and(|at| now >= at)) {
            (row.has_beacon, row.drop_at) = (false, None);
        }
    }

    pub fn end(&mut self, who: Incarnation, how: Death) {
        if let Some(row) = self.instances.get_mut(&who).filter(|row| row.dead.is_none()) {
            (row.dead, row.has_beacon, row.drop_at) = (Some(how), false, None);
        }
        self.forget_the_dead();
    }

    fn forget_the_dead(&mut self) {
        let named = self.lease.holder;
        self.instances.retain(|who, row| row.dead.is_none() || Some(*who) == named);
    }
}

pub fn ticks(span: Duration) -> u64 {
    span.as_secs()
}

//! A lease store in memory: for a single instance that wants no lease traffic, and the model that the other stores are
//! held against.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::{Clock, Moment};
use crate::lease::{
    Ask, Claim, Epoch, HandOver, Heartbeat, HolderView, Incarnation, LeaseName, LeaseRow, LeaseStore,
    LeaseView, News, Peer, ProcessId, Registration, Release, Renewal, StoreError, TermId,
};

/// Leases of this process only.
#[derive(Debug, Default)]
pub struct MemoryStore {
    clock: Clock,
    world: Mutex<World>,
}

#[derive(Debug, Default)]
struct World {
    instances: BTreeMap<Incarnation, Instance>,
    leases: BTreeMap<LeaseName, Lease>,
    cool_downs: BTreeMap<(LeaseName, ProcessId), (Moment, u32)>,
}

#[derive(Debug)]
struct Instance {
    registration: Registration,
    renew_seq: i64,
    renewed_at: Moment,
    dead: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Lease {
    epoch: i64,
    holder: Option<Incarnation>,
    freed_at: Moment,
    paused: bool,
}

impl MemoryStore {
    /// An empty store that keeps time by `clock`.
    pub fn new(clock: Clock) -> Self {
        Self { clock, world: Mutex::default() }
    }

    /// Sets an operator's wish that nobody acquires `name`, or lifts it.
    pub fn pause(&self, name: &LeaseName, paused: bool) {
        self.world().leases.entry(name.clone()).or_default().paused = paused;
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    fn alive(&self, who: Incarnation) -> bool {
        self.instances.get(&who).is_some_and(|instance| instance.dead.is_none())
    }

    fn end(&mut self, who: Incarnation, reason: &'static str) -> bool {
        let Some(instance) = self.instances.get_mut(&who).filter(|i| i.dead.is_none()) else { return false };
        instance.dead = Some(reason);
        true
    }

    fn row(&self, name: &LeaseName, lease: &Lease, me: &Instance, now: Moment) -> LeaseRow {
        let key = (name.clone(), me.registration.process);
        let (until, failures) = self.cool_downs.get(&key).copied().unwrap_or_default();
        LeaseRow {
            name: name.clone(),
            epoch: Epoch(lease.epoch),
            holder: lease.holder,
            holder_alive: lease.holder.is_some_and(|holder| self.alive(holder)),
            paused: lease.paused,
            desired: None,
            cool_down: until.since(now),
            failures,
        }
    }

    fn handed_over(&self, lease: &Lease, now: Moment) -> HandOver {
        let dead = lease.holder.and_then(|holder| self.instances.get(&holder));
        match dead.and_then(|instance| instance.dead.map(|reason| (reason, instance.renewed_at))) {
            Some((reason, since)) => HandOver { reason, gap: now.since(since) },
            None if lease.epoch == 0 => HandOver { reason: "first", gap: Duration::ZERO },
            None => HandOver { reason: "released", gap: now.since(lease.freed_at) },
        }
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn register(&self, me: &Registration, names: &[LeaseName]) -> Result<(), StoreError> {
        let mut world = self.world();
        let instance =
            Instance { registration: me.clone(), renew_seq: 0, renewed_at: self.clock.now(), dead: None };
        world.instances.insert(me.incarnation, instance);
        for name in names {
            world.leases.entry(name.clone()).or_default();
        }
        Ok(())
    }

    async fn renew(&self, me: Incarnation) -> Result<Renewal, StoreError> {
        let (mut world, now) = (self.world(), self.clock.now());
        let Some(instance) = world.instances.get_mut(&me).filter(|i| i.dead.is_none()) else {
            return Ok(Renewal::Dead);
        };
        instance.renew_seq += 1;
        instance.renewed_at = now;
        let instance = &world.instances[&me];
        let leases = world.leases.iter().map(|(name, lease)| world.row(name, lease, instance, now)).collect();
        let peer = |(who, i): (&Incarnation, &Instance)| Peer {
            incarnation: *who,
            renew_seq: i.renew_seq,
            ttl: i.registration.ttl,
            up: true,
        };
        let peers = world.instances.iter().filter(|(_, i)| i.dead.is_none()).map(peer).collect();
        Ok(Renewal::Alive(Heartbeat { leases, peers }))
    }

    async fn declare_dead(&self, who: Incarnation, seen: i64) -> Result<bool, StoreError> {
        let mut world = self.world();
        let still = world.instances.get(&who).is_some_and(|instance| instance.renew_seq == seen);
        Ok(still && world.end(who, "ttl"))
    }

    /// Nobody here has a beacon: what lives in this process dies with it.
    async fn bury(&self, _: Incarnation) -> Result<Vec<Incarnation>, StoreError> {
        Ok(vec![])
    }

    async fn news(&self, _: Incarnation) -> News {
        std::future::pending().await
    }

    async fn claim(&self, ask: &Ask) -> Result<Option<Claim>, StoreError> {
        let (name, me) = (&ask.name, ask.me);
        let (mut world, now) = (self.world(), self.clock.now());
        let Some(lease) = world.leases.get(name) else { return Ok(None) };
        let taken = lease.holder.is_some_and(|holder| world.alive(holder));
        if lease.paused || taken || !world.alive(me) {
            return Ok(None);
        }
        let after = world.handed_over(lease, now);
        let lease = world.leases.entry(name.clone()).or_default();
        lease.epoch += 1;
        lease.holder = Some(me);
        let term = TermId { name: name.clone(), holder: me, epoch: Epoch(lease.epoch) };
        // Nobody is owed a wait: a death is declared by TTL only, which is at least F + S.
        Ok(Some(Claim { term, wait: Duration::ZERO, after }))
    }

    async fn end_wait(&self, _: &TermId) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn release(&self, term: &TermId, how: Release) -> Result<bool, StoreError> {
        let (mut world, now) = (self.world(), self.clock.now());
        let Some(process) = world.instances.get(&term.holder).map(|i| i.registration.process) else {
            return Ok(false);
        };
        let ours = |lease: &&mut Lease| lease.holder == Some(term.holder) && lease.epoch == term.epoch.0;
        let Some(lease) = world.leases.get_mut(&term.name).filter(ours) else { return Ok(false) };
        lease.holder = None;
        lease.freed_at = now;
        let key = (term.name.clone(), process);
        match how {
            Release::Free => world.cool_downs.remove(&key),
            Release::CoolDown { wait, failures } => world.cool_downs.insert(key, (now + wait, failures)),
        };
        Ok(true)
    }

    async fn depart(&self, me: Incarnation) -> Result<(), StoreError> {
        self.world().end(me, "left");
        Ok(())
    }

    async fn list(&self) -> Result<Vec<LeaseView>, StoreError> {
        let world = self.world();
        let view = |(name, lease): (&LeaseName, &Lease)| {
            let holder = lease.holder.and_then(|holder| world.instances.get(&holder));
            let holder = holder.filter(|instance| instance.dead.is_none()).map(|instance| HolderView {
                incarnation: instance.registration.incarnation,
                label: instance.registration.label.clone(),
                host: instance.registration.host.clone(),
                pid: instance.registration.pid,
            });
            LeaseView {
                name: name.clone(),
                epoch: Epoch(lease.epoch),
                state: if lease.paused {
                    "paused"
                } else if holder.is_some() {
                    "running"
                } else {
                    "free"
                },
                holder,
                since: None,
                paused: lease.paused,
                desired: None,
            }
        };
        Ok(world.leases.iter().map(view).collect())
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;

    async fn fresh() -> crate::testing::Store {
        std::sync::Arc::new(MemoryStore::new(Clock::boottime()))
    }

    crate::lease_store_suite!(fresh);
}

//! The product's lease store, with each answer recorded as the supervisor gets it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use atcr_workers::store::SqlLeases;
use leased_actors::lease::{
    Ask, Claim, Heartbeat, Incarnation, LeaseName, LeaseStore, LeaseView, News, Registration, Release,
    Renewal, StoreError, TermId,
};

use super::control::Control;
use crate::history::{Event, Recorder, What, now};

pub(super) struct Recorded {
    store: SqlLeases,
    recorder: Recorder,
    process: String,
    control: Control,
    /// The terms that are ours, and when we knew.
    ours: Mutex<BTreeMap<LeaseName, (TermId, u64)>>,
}

impl Recorded {
    pub(super) fn new(store: SqlLeases, recorder: Recorder, process: String, control: Control) -> Self {
        Self { store, recorder, process, control, ours: Mutex::default() }
    }

    fn write(&self, me: Incarnation, what: What) {
        self.recorder.write(&Event::now(&self.process, what).by(&me.to_string()));
    }

    fn write_of(&self, term: &TermId, what: What) {
        let event = Event::now(&self.process, what).by(&term.holder.to_string());
        self.recorder.write(&event.of(term.name.as_str(), term.epoch.0));
    }

    /// What a renewal that was sent at `sent` shows of our terms.
    fn compare(&self, me: Incarnation, sent: u64, world: &Heartbeat) {
        let mut ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        for row in &world.leases {
            let listed = (row.holder == Some(me)).then_some(row.epoch);
            let known = ours.get(&row.name).cloned();
            match (known, listed) {
                (Some((term, since)), listed) if listed != Some(term.epoch) => {
                    if sent > since {
                        ours.remove(&row.name);
                        self.write_of(&term, What::Lost);
                    }
                }
                (None, Some(epoch)) => {
                    let term = TermId { name: row.name.clone(), holder: me, epoch };
                    self.write_of(&term, What::Listed);
                    ours.insert(row.name.clone(), (term, now()));
                }
                _ => {}
            }
        }
    }

    fn lose_all(&self, me: Incarnation) {
        let mut ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        ours.retain(|_, (term, _)| {
            let stays = term.holder != me;
            if !stays {
                self.write_of(term, What::Lost);
            }
            stays
        });
    }
}

#[async_trait]
impl LeaseStore for Recorded {
    async fn register(&self, me: &Registration, names: &[LeaseName]) -> Result<(), StoreError> {
        self.store.register(me, names).await?;
        self.write(me.incarnation, What::Registered);
        Ok(())
    }

    async fn renew(&self, me: Incarnation) -> Result<Renewal, StoreError> {
        let sent = now();
        let renewal = self.store.renew(me).await?;
        match &renewal {
            Renewal::Alive(world) => {
                self.write(me, What::Renewed { sent });
                self.compare(me, sent, world);
            }
            Renewal::Dead => {
                self.write(me, What::Dead);
                self.lose_all(me);
            }
        }
        Ok(renewal)
    }

    async fn declare_dead(&self, who: Incarnation, seen: i64) -> Result<bool, StoreError> {
        let sent = now();
        let declared = self.store.declare_dead(who, seen).await?;
        if declared {
            self.recorder.write(&Event::now(&self.process, What::Declared { who: who.to_string(), sent }));
        }
        Ok(declared)
    }

    async fn bury(&self, me: Incarnation) -> Result<Vec<Incarnation>, StoreError> {
        let sent = now();
        let buried = self.store.bury(me).await;
        self.write(me, What::Looked);
        for who in buried.iter().flatten() {
            self.write(me, What::Declared { who: who.to_string(), sent });
        }
        buried
    }

    async fn claim(&self, ask: &Ask) -> Result<Option<Claim>, StoreError> {
        let sent = now();
        let claim = self.store.claim(ask).await?;
        if let Some(claim) = &claim {
            let wait = u64::try_from(claim.wait.as_nanos()).unwrap_or(u64::MAX);
            self.write_of(&claim.term, What::Claimed { sent, wait, reason: claim.after.reason.to_owned() });
            let mut ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
            ours.insert(ask.name.clone(), (claim.term.clone(), now()));
        }
        Ok(claim)
    }

    async fn end_wait(&self, term: &TermId) -> Result<bool, StoreError> {
        self.store.end_wait(term).await
    }

    async fn release(&self, term: &TermId, how: Release) -> Result<bool, StoreError> {
        let sent = now();
        let ours = self.store.release(term, how).await?;
        self.write_of(term, What::Released { sent, ours });
        let mut terms = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        if terms.get(&term.name).is_some_and(|(known, _)| known == term) {
            terms.remove(&term.name);
        }
        Ok(ours)
    }

    async fn depart(&self, me: Incarnation) -> Result<(), StoreError> {
        self.store.depart(me).await
    }

    async fn news(&self, me: Incarnation) -> News {
        loop {
            let news = self.store.news(me).await;
            if !self.control.is_deaf() {
                return news;
            }
        }
    }

    async fn list(&self) -> Result<Vec<LeaseView>, StoreError> {
        self.store.list().await
    }
}

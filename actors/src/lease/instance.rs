//! One instance: its incarnation, its trust, its watch over the others, and a slot per lease. Pure: an event and the
//! present moment go in, commands come out. The supervisor carries them out and feeds their results back.

mod beat;

use std::collections::BTreeMap;

use super::slot::{Command, Outcome, Phase, Slot, View};
use super::spread::Spread;
use super::timing::Timing;
use super::watch::Watch;
use super::{
    Claim, Effects, Incarnation, LeaseName, News, Renewal, StoreError, TermId, acquire, keep, release,
};
use crate::clock::Moment;

/// What an instance hears.
#[derive(Clone, Debug)]
pub enum Event {
    /// A registration was answered.
    Registered(Incarnation, Result<(), StoreError>),
    /// A renewal was answered; it had been sent at that moment.
    Renewed(Incarnation, Moment, Result<Renewal, StoreError>),
    /// A declaration of death was answered.
    Declared(Result<bool, StoreError>),
    /// The burying of instances without a beacon was answered.
    Buried(Result<Vec<Incarnation>, StoreError>),
    /// The store of this incarnation has news.
    News(Incarnation, News),
    /// A claim was answered.
    Claimed(LeaseName, Incarnation, Result<Option<Claim>, StoreError>),
    /// The end of a wait was answered.
    WaitEnded(Result<bool, StoreError>),
    /// A release was answered.
    Released(TermId, Result<bool, StoreError>),
    /// A worker's end is confirmed: nothing of it runs any more.
    Ended(TermId),
    /// A worker made no progress for its limit.
    Stuck(TermId),
    /// The departure was answered.
    Departed,
    /// Time has passed.
    Tick,
    /// The process ends.
    Shutdown,
}

/// The state of one instance.
#[derive(Clone, Debug)]
pub struct Instance {
    timing: Timing,
    me: Option<Incarnation>,
    deadline: Moment,
    watch: Watch,
    spread: Spread,
    slots: BTreeMap<LeaseName, Slot>,
    /// When the next registration or renewal is due; none = one is under way.
    beat_at: Option<Moment>,
    /// When the last renewal was sent.
    beaten_at: Moment,
    /// When the next look for instances without a beacon is due; none = one is under way.
    poll_at: Option<Moment>,
    ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    Closing,
    Departing,
    Ended,
}

impl Instance {
    /// An instance that is not registered yet and knows these leases.
    pub fn new(timing: Timing, slots: Vec<Slot>) -> Self {
        Self {
            timing,
            me: None,
            deadline: Moment::default(),
            watch: Watch::default(),
            spread: Spread::default(),
            slots: slots.into_iter().map(|slot| (slot.name.clone(), slot)).collect(),
            beat_at: Some(Moment::default()),
            beaten_at: Moment::default(),
            poll_at: None,
            ending: Ending::No,
        }
    }

    /// Takes an event. `jitter` is a random number in `0.0..1.0`.
    pub fn step(&mut self, event: Event, now: Moment, jitter: f64) -> Vec<Command> {
        let mut commands = self.hear(event, now, jitter);
        commands.extend(self.pass_time(now, jitter));
        commands.extend(self.finish());
        commands
    }

    /// When time alone changes something; none = only events do.
    pub fn due(&self) -> Option<Moment> {
        if self.ending == Ending::Ended {
            return None;
        }
        let trust = self.depends_on_trust().then_some(self.deadline);
        self.slots.values().filter_map(Slot::due).chain(self.beat_at).chain(self.poll_at).chain(trust).min()
    }

    /// The registered incarnation.
    pub fn me(&self) -> Option<Incarnation> {
        self.me
    }

    /// Until when its renewals let it act.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Its leases, by name.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values()
    }

    /// How each lease ended; complete once [`Command::End`] was given.
    pub fn outcomes(&self) -> Vec<(LeaseName, Outcome)> {
        let done = |slot: &Slot| match slot.phase {
            Phase::Done(outcome) => Some((slot.name.clone(), outcome)),
            _ => None,
        };
        self.slots.values().filter_map(done).collect()
    }

    fn hear(&mut self, event: Event, now: Moment, jitter: f64) -> Vec<Command> {
        match event {
            Event::Registered(me, reply) => self.registered(me, reply.is_ok(), now),
            Event::Renewed(me, sent, reply) => self.renewed(me, sent, reply, now, jitter),
            Event::Declared(reply) => {
                self.look_if(reply == Ok(true), now);
                vec![]
            }
            Event::Buried(reply) => {
                self.poll_at = self.me.map(|_| now + self.timing.poll_every);
                self.look_if(reply.is_ok_and(|buried| !buried.is_empty()), now);
                vec![]
            }
            Event::News(me, news) if self.me == Some(me) => self.news(me, &news, now, jitter),
            Event::Claimed(name, me, reply) if self.me == Some(me) => {
                self.at(&name, now, jitter, |slot, view| acquire::claimed(slot, reply, view))
            }
            Event::Released(term, reply) if self.has(&term) => {
                self.at(&term.name, now, jitter, |slot, view| release::released(slot, &reply, view))
            }
            Event::Ended(term) if self.has(&term) => self.at(&term.name, now, jitter, |slot, view| {
                if matches!(slot.phase, Phase::Stopping { .. }) {
                    release::stopped(slot, view)
                } else {
                    keep::failed(slot, view)
                }
            }),
            Event::Stuck(term) if self.has(&term) => self.at(&term.name, now, jitter, keep::stuck),
            Event::Departed => {
                self.ending = Ending::Ended;
                vec![Command::End]
            }
            Event::Shutdown => self.close(now, jitter),
            // Nothing follows, or it is of an earlier life, or of a term that is over.
            Event::Tick
            | Event::WaitEnded(_)
            | Event::News(..)
            | Event::Claimed(..)
            | Event::Released(..)
            | Event::Ended(_)
            | Event::Stuck(_) => vec![],
        }
    }

    fn close(&mut self, now: Moment, jitter: f64) -> Vec<Command> {
        if self.ending != Ending::No {
            return vec![];
        }
        self.ending = Ending::Closing;
        self.each(now, jitter, release::close)
    }

    fn pass_time(&mut self, now: Moment, jitter: f64) -> Vec<Command> {
        if self.ending == Ending::Ended {
            return vec![];
        }
        let mut commands = self.beat(now);
        commands.extend(self.poll(now));
        let mut late = false;
        commands.extend(self.each(now, jitter, |slot, view| {
            late |= release::overdue(slot, view);
            let lapsed = if view.trusted { vec![] } else { keep::untrusted(slot, view) };
            let due = [acquire::deferred, acquire::waited, keep::backed_off, release::again]
                .map(|phase| phase(slot, view));
            [lapsed, due.concat()].concat()
        }));
        if late {
            commands.extend(self.close(now, jitter));
        }
        commands
    }

    /// Once every slot is done: depart, unless a worker may still run under this incarnation; then end.
    fn finish(&mut self) -> Vec<Command> {
        let all_done = self.slots.values().all(|slot| matches!(slot.phase, Phase::Done(_)));
        if self.ending != Ending::Closing || !all_done {
            return vec![];
        }
        let overdue = self.slots.values().any(|slot| slot.phase == Phase::Done(Outcome::Overdue));
        match self.me {
            Some(me) if !overdue => {
                self.ending = Ending::Departing;
                vec![Command::Depart(me)]
            }
            _ => {
                self.ending = Ending::Ended;
                vec![Command::End]
            }
        }
    }

    fn trusted(&self, now: Moment) -> bool {
        now < self.deadline
    }

    fn depends_on_trust(&self) -> bool {
        let external = |slot: &Slot| slot.effects == Effects::External;
        self.slots.values().any(|slot| match slot.phase {
            Phase::Waiting { .. } => true,
            Phase::Running { .. } | Phase::Restarting { .. } => external(slot),
            _ => false,
        })
    }

    fn has(&self, term: &TermId) -> bool {
        self.slots.get(&term.name).is_some_and(|slot| slot.term() == Some(term))
    }

    /// What the phases may look at.
    fn outlook(&self) -> Outlook {
        Outlook {
            me: self.me,
            deadline: self.deadline,
            closing: self.ending != Ending::No,
            up: self.spread.is_up(),
            taken: self.slots.values().filter(|slot| takes(slot)).count(),
            waiting: 0,
            share: self.spread.share(self.slots.len()),
        }
    }

    fn at(
        &mut self,
        name: &LeaseName,
        now: Moment,
        jitter: f64,
        phase: impl FnOnce(&mut Slot, &View<'_>) -> Vec<Command>,
    ) -> Vec<Command> {
        let mut outlook = self.outlook();
        outlook.waiting = self.slots.values().filter(|slot| slot.name != *name && waits(slot)).count();
        self.slots
            .get_mut(name)
            .map_or_else(Vec::new, |slot| outlook.turn(slot, &self.timing, now, jitter, phase))
    }

    /// Every slot in turn; each sees what those before it have taken.
    fn each(
        &mut self,
        now: Moment,
        jitter: f64,
        mut phase: impl FnMut(&mut Slot, &View<'_>) -> Vec<Command>,
    ) -> Vec<Command> {
        let mut outlook = self.outlook();
        let turns =
            self.slots.values_mut().map(|slot| outlook.turn(slot, &self.timing, now, jitter, &mut phase));
        turns.flatten().collect()
    }
}

/// Whether the lease counts for our share: it is ours, or asked for.
fn takes(slot: &Slot) -> bool {
    slot.term().is_some() || slot.phase == Phase::Claiming
}

/// Whether it will, if nobody below its share comes for it.
fn waits(slot: &Slot) -> bool {
    matches!(slot.phase, Phase::Deferring { .. }) && slot.desired.is_none()
}

/// What all slots share at one moment.
#[derive(Clone, Copy)]
struct Outlook {
    me: Option<Incarnation>,
    deadline: Moment,
    closing: bool,
    up: bool,
    taken: usize,
    /// Of the slots whose turn was before.
    waiting: usize,
    share: usize,
}

impl Outlook {
    /// A slot's turn, which may change what those after it see.
    fn turn(
        &mut self,
        slot: &mut Slot,
        timing: &Timing,
        now: Moment,
        jitter: f64,
        phase: impl FnOnce(&mut Slot, &View<'_>) -> Vec<Command>,
    ) -> Vec<Command> {
        let Self { me, deadline, closing, up, .. } = *self;
        self.taken -= usize::from(takes(slot));
        let beyond = (self.taken + self.waiting + 1).saturating_sub(self.share);
        let view = View { now, me, trusted: now < deadline, closing, up, beyond, timing, jitter };
        let commands = phase(slot, &view);
        self.taken += usize::from(takes(slot));
        self.waiting += usize::from(waits(slot));
        commands
    }
}
#[cfg(test)]
mod tests;

#[cfg(test)]
mod share_tests;

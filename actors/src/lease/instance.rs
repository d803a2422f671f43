//! One instance: its incarnation, its trust, its watch over the others, and a slot per lease. Pure: an event and the
//! present moment go in, commands come out. The supervisor carries them out and feeds their results back.

use std::collections::BTreeMap;
use std::time::Duration;

use super::slot::{Command, Outcome, Phase, Slot, View};
use super::timing::Timing;
use super::watch::Watch;
use super::{
    Claim, Effects, Heartbeat, Incarnation, LeaseName, Renewal, StoreError, TermId, acquire, keep, release,
};
use crate::clock::Moment;

/// The shortest pause before a failed renewal or registration is sent again: below it, a database that refuses at once
/// would be asked without pause; above R/2, one failure would cost a renewal.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// What an instance hears.
#[derive(Clone, Debug)]
pub enum Event {
    /// A registration was answered.
    Registered(Incarnation, Result<(), StoreError>),
    /// A renewal was answered; it had been sent at that moment.
    Renewed(Incarnation, Moment, Result<Renewal, StoreError>),
    /// A declaration of death was answered.
    Declared(Result<bool, StoreError>),
    /// A claim was answered.
    Claimed(LeaseName, Incarnation, Result<Option<Claim>, StoreError>),
    /// A release was answered.
    Released(TermId, Result<bool, StoreError>),
    /// A worker's end is confirmed: nothing of it runs any more.
    Ended(TermId),
    /// The departure was answered.
    Departed,
    /// Time has passed.
    Tick,
    /// The process ends.
    Shutdown,
}

/// The state of one instance.
#[derive(Debug)]
pub struct Instance {
    timing: Timing,
    me: Option<Incarnation>,
    deadline: Moment,
    watch: Watch,
    slots: BTreeMap<LeaseName, Slot>,
    /// When the next registration or renewal is due; none = one is under way.
    beat_at: Option<Moment>,
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
            slots: slots.into_iter().map(|slot| (slot.name.clone(), slot)).collect(),
            beat_at: Some(Moment::default()),
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
        self.slots.values().filter_map(Slot::due).chain(self.beat_at).chain(trust).min()
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
                if reply == Ok(true) && self.beat_at.is_some() {
                    self.beat_at = Some(now);
                }
                vec![]
            }
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
            Event::Departed => {
                self.ending = Ending::Ended;
                vec![Command::End]
            }
            Event::Shutdown => self.close(now, jitter),
            Event::Tick | Event::Claimed(..) | Event::Released(..) | Event::Ended(_) => vec![],
        }
    }

    fn registered(&mut self, me: Incarnation, accepted: bool, now: Moment) -> Vec<Command> {
        self.beat_at = Some(if accepted { now } else { now + self.timing.renew_every.max(TRY_AGAIN) });
        if accepted {
            self.me = Some(me);
            self.watch.forget();
        }
        vec![]
    }

    fn renewed(
        &mut self,
        me: Incarnation,
        sent: Moment,
        reply: Result<Renewal, StoreError>,
        now: Moment,
        jitter: f64,
    ) -> Vec<Command> {
        if self.me != Some(me) {
            return vec![];
        }
        let next = sent + self.timing.renew_every;
        self.beat_at = Some(if reply.is_ok() { next.max(now) } else { next.max(now + TRY_AGAIN) });
        match reply {
            Err(_) => vec![],
            Ok(Renewal::Dead) => self.lost(now, jitter),
            Ok(Renewal::Alive(world)) => {
                let mut commands = self.trust(sent, now);
                let silent = self.watch.observe(me, &world.peers, self.timing.ttl, now);
                if self.trusted(now) {
                    commands.extend(silent.iter().map(|s| Command::DeclareDead { who: s.who, seen: s.seen }));
                }
                commands.extend(self.see(&world, sent, now, jitter));
                commands
            }
        }
    }

    /// An acknowledged renewal: trust runs from its *sending*, so a slow success buys nothing.
    fn trust(&mut self, sent: Moment, now: Moment) -> Vec<Command> {
        if now >= self.deadline {
            self.watch.forget();
        }
        self.deadline = self.deadline.max(sent + self.timing.trust_for);
        vec![Command::Trust(self.deadline)]
    }

    fn see(&mut self, world: &Heartbeat, sent: Moment, now: Moment, jitter: f64) -> Vec<Command> {
        let mut commands = Vec::new();
        for row in &world.leases {
            commands.extend(self.at(&row.name, now, jitter, |slot, view| match slot.phase {
                _ if sent <= slot.settled_at => vec![],
                Phase::Claiming | Phase::Releasing { .. } | Phase::CoolingDown { .. } | Phase::Done(_) => {
                    vec![]
                }
                Phase::Standby => acquire::seen(slot, row, view),
                _ => keep::seen(slot, row, view),
            }));
        }
        commands
    }

    /// Somebody declared this incarnation dead: sticky, so everything it had is over. The process registers anew.
    fn lost(&mut self, now: Moment, jitter: f64) -> Vec<Command> {
        self.me = None;
        self.deadline = Moment::default();
        self.beat_at = Some(now);
        self.watch.forget();
        let stops = self.each(now, jitter, |slot, view| keep::lost(slot, view, "declared dead"));
        [vec![Command::EndTrust], stops].concat()
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
        let mut late = false;
        commands.extend(self.each(now, jitter, |slot, view| {
            late |= release::overdue(slot, view);
            let lapsed = if view.trusted { vec![] } else { keep::untrusted(slot, view) };
            let due = [acquire::waited, keep::backed_off, release::again].map(|phase| phase(slot, view));
            [lapsed, due.concat()].concat()
        }));
        if late {
            commands.extend(self.close(now, jitter));
        }
        commands
    }

    fn beat(&mut self, now: Moment) -> Vec<Command> {
        if self.beat_at.is_none_or(|at| now < at) {
            return vec![];
        }
        self.beat_at = None;
        if self.ending == Ending::Departing || self.me.is_none() && self.ending != Ending::No {
            return vec![];
        }
        vec![self.me.map_or(Command::Register, Command::Renew)]
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

    fn at(
        &mut self,
        name: &LeaseName,
        now: Moment,
        jitter: f64,
        phase: impl FnOnce(&mut Slot, &View<'_>) -> Vec<Command>,
    ) -> Vec<Command> {
        let view = view(&self.timing, self.me, self.deadline, self.ending, now, jitter);
        self.slots.get_mut(name).map_or_else(Vec::new, |slot| phase(slot, &view))
    }

    fn each(
        &mut self,
        now: Moment,
        jitter: f64,
        mut phase: impl FnMut(&mut Slot, &View<'_>) -> Vec<Command>,
    ) -> Vec<Command> {
        let view = view(&self.timing, self.me, self.deadline, self.ending, now, jitter);
        self.slots.values_mut().flat_map(|slot| phase(slot, &view)).collect()
    }
}

fn view(
    timing: &Timing,
    me: Option<Incarnation>,
    deadline: Moment,
    ending: Ending,
    now: Moment,
    jitter: f64,
) -> View<'_> {
    View { now, me, trusted: now < deadline, closing: ending != Ending::No, timing, jitter }
}

#[cfg(test)]
mod tests;

//! One instance: its incarnation, its trust, its watch over the others, and a slot per lease. Pure: an event and the
//! present moment go in, commands come out. The supervisor carries them out and feeds their results back.

use std::collections::BTreeMap;
use std::time::Duration;

use super::slot::{Command, Outcome, Phase, Slot, View};
use super::spread::{self, Spread};
use super::timing::Timing;
use super::watch::Watch;
use super::{
    Claim, Effects, Heartbeat, Incarnation, LeaseName, News, Release, Renewal, StoreError, TermId, acquire,
    keep, release,
};
use crate::clock::Moment;

/// The shortest pause before a failed renewal or registration is sent again: below it, a database that refuses at once
/// would be asked without pause; above R/2, one failure would cost a renewal.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// The shortest pause between two renewals, however many news there are. At half, a hundred leases that move cost a
/// hundred renewals in two seconds; at double, what is not in the news is seen that much later.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

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
#[derive(Debug)]
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
            Event::Declared(reply) => self.look_if(reply == Ok(true), now),
            Event::Buried(reply) => {
                self.poll_at = self.me.map(|_| now + self.timing.poll_every);
                self.look_if(reply.is_ok_and(|buried| !buried.is_empty()), now)
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
            // Of an earlier life, or of a term that is over.
            Event::Tick
            | Event::News(..)
            | Event::Claimed(..)
            | Event::Released(..)
            | Event::Ended(_)
            | Event::Stuck(_) => vec![],
        }
    }

    /// Renews soon, if there is something to see and no renewal is under way. Not at once: news come in flocks.
    fn look_if(&mut self, worth_it: bool, now: Moment) -> Vec<Command> {
        if worth_it {
            let soon = now.max(self.beaten_at + LOOK_PAUSE);
            self.beat_at = self.beat_at.map(|at| at.min(soon));
        }
        vec![]
    }

    fn news(&mut self, me: Incarnation, news: &News, now: Moment, jitter: f64) -> Vec<Command> {
        match news {
            News::Freed(name) => self.at(name, now, jitter, acquire::freed),
            News::Beaconless(who) => {
                let claims = self.each(now, jitter, |slot, view| acquire::beaconless(slot, *who, view));
                if claims.is_empty() { vec![Command::Bury(me)] } else { claims }
            }
            News::Look => self.look_if(true, now),
        }
    }

    fn registered(&mut self, me: Incarnation, accepted: bool, now: Moment) -> Vec<Command> {
        self.beat_at = Some(if accepted { now } else { now + self.timing.renew_every.max(TRY_AGAIN) });
        if accepted {
            self.me = Some(me);
            self.poll_at = Some(now + self.timing.poll_every);
            self.watch.forget();
            return vec![Command::Listen(me)];
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
                self.spread.observe(me, &world, now);
                commands.extend(self.see(&world, sent, now, jitter));
                commands.extend(self.balance(me, now, jitter));
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
            commands.extend(self.at(&row.name, now, jitter, |slot, view| {
                slot.remember(row, view.now);
                match slot.phase {
                    _ if sent <= slot.settled_at => vec![],
                    Phase::Claiming
                    | Phase::Releasing { .. }
                    | Phase::CoolingDown { .. }
                    | Phase::Done(_) => {
                        vec![]
                    }
                    Phase::Standby | Phase::Deferring { .. } => acquire::seen(slot, row, view),
                    _ => keep::seen(slot, row, view),
                }
            }));
        }
        commands
    }

    /// Gives one lease up, gracefully, if this instance is the one that has too many.
    fn balance(&mut self, me: Incarnation, now: Moment, jitter: f64) -> Vec<Command> {
        let movable = |slot: &&Slot| matches!(slot.phase, Phase::Running { .. }) && now >= slot.settled_until;
        let surplus = self.slots.values().rev().find(movable).map(|slot| slot.name.clone());
        match surplus {
            Some(name) if self.ending == Ending::No && self.spread.has_too_many(me, now) => {
                self.spread.moved(now);
                self.at(&name, now, jitter, |slot, view| {
                    slot.settled_until = now + spread::SETTLED;
                    release::hand_back(slot, Release::Free, view, "spread")
                })
            }
            _ => vec![],
        }
    }

    /// Somebody declared this incarnation dead: sticky, so everything it had is over. The process registers anew.
    fn lost(&mut self, now: Moment, jitter: f64) -> Vec<Command> {
        self.me = None;
        self.deadline = Moment::default();
        self.beat_at = Some(now);
        self.poll_at = None;
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

    fn beat(&mut self, now: Moment) -> Vec<Command> {
        if self.beat_at.is_none_or(|at| now < at) {
            return vec![];
        }
        self.beat_at = None;
        self.beaten_at = now;
        if self.ending == Ending::Departing || self.me.is_none() && self.ending != Ending::No {
            return vec![];
        }
        vec![self.me.map_or(Command::Register, Command::Renew)]
    }

    /// The slow look beside the news: notifications get lost.
    fn poll(&mut self, now: Moment) -> Option<Command> {
        let me = self.me.filter(|_| self.poll_at.is_some_and(|at| now >= at))?;
        let may = self.trusted(now) && self.ending == Ending::No;
        self.poll_at = (!may).then(|| now + self.timing.poll_every);
        may.then_some(Command::Bury(me))
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

    /// What the phases may look at. Leases that are ours, or asked for, count for our share.
    fn outlook(&self) -> Outlook {
        let counts = |slot: &&Slot| slot.term().is_some() || slot.phase == Phase::Claiming;
        let ours = self.slots.values().filter(counts).count();
        Outlook {
            me: self.me,
            deadline: self.deadline,
            closing: self.ending != Ending::No,
            up: self.spread.is_up(),
            sated: self.spread.is_sated(ours, self.slots.len()),
        }
    }

    fn at(
        &mut self,
        name: &LeaseName,
        now: Moment,
        jitter: f64,
        phase: impl FnOnce(&mut Slot, &View<'_>) -> Vec<Command>,
    ) -> Vec<Command> {
        let outlook = self.outlook();
        let view = outlook.view(&self.timing, now, jitter);
        self.slots.get_mut(name).map_or_else(Vec::new, |slot| phase(slot, &view))
    }

    /// Every slot in turn; each sees what those before it have taken.
    fn each(
        &mut self,
        now: Moment,
        jitter: f64,
        mut phase: impl FnMut(&mut Slot, &View<'_>) -> Vec<Command>,
    ) -> Vec<Command> {
        let names: Vec<LeaseName> = self.slots.keys().cloned().collect();
        let turns = names.iter().map(|name| self.at(name, now, jitter, &mut phase));
        turns.collect::<Vec<_>>().concat()
    }
}

/// What all slots share at one moment.
#[derive(Clone, Copy)]
struct Outlook {
    me: Option<Incarnation>,
    deadline: Moment,
    closing: bool,
    up: bool,
    sated: bool,
}

impl Outlook {
    fn view<'a>(&self, timing: &'a Timing, now: Moment, jitter: f64) -> View<'a> {
        let Self { me, deadline, closing, up, sated } = *self;
        View { now, me, trusted: now < deadline, closing, up, sated, timing, jitter }
    }
}

#[cfg(test)]
mod tests;

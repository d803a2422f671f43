//! The heartbeat and what it shows: registrations, renewals, news, and the slow poll beside them.

use std::time::Duration;

use super::{Ending, Instance};
use crate::clock::Moment;
use crate::lease::slot::{Command, Outcome, Phase, Slot};
use crate::lease::{
    Heartbeat, Incarnation, LeaseRow, News, Release, Renewal, StoreError, acquire, keep, release, spread,
};

/// The shortest pause before a failed renewal or registration is sent again: below it, a database that refuses at once
/// would be asked without pause; above R/2, one failure would cost a renewal.
pub(super) const TRY_AGAIN: Duration = Duration::from_millis(100);

/// The shortest pause between two renewals, however many news there are. At half, a hundred leases that move cost a
/// hundred renewals in two seconds; at double, what is not in the news is seen that much later.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

impl Instance {
    /// Renews soon, if there is something to see and no renewal is under way. Not at once: news come in flocks.
    pub(super) fn look_if(&mut self, worth_it: bool, now: Moment) {
        if worth_it {
            let soon = now.max(self.beaten_at + LOOK_PAUSE);
            self.beat_at = self.beat_at.map(|at| at.min(soon));
        }
    }

    pub(super) fn news(&mut self, me: Incarnation, news: &News, now: Moment, jitter: f64) -> Vec<Command> {
        match news {
            News::Freed(name) => {
                let claims = self.at(name, now, jitter, acquire::freed);
                // Whatever kept it from asking may be over: a pause, a wish, a cool-down.
                self.look_if(claims.is_empty(), now);
                claims
            }
            News::Beaconless(who) => {
                let claims = self.each(now, jitter, |slot, view| acquire::beaconless(slot, *who, view));
                if claims.is_empty() { vec![Command::Bury(me)] } else { claims }
            }
            News::Look => {
                self.look_if(true, now);
                vec![]
            }
        }
    }

    pub(super) fn registered(&mut self, me: Incarnation, accepted: bool, now: Moment) -> Vec<Command> {
        self.beat_at = Some(if accepted { now } else { now + self.timing.renew_every.max(TRY_AGAIN) });
        if accepted {
            self.me = Some(me);
            self.poll_at = Some(now + self.timing.poll_every);
            self.watch.forget();
            return vec![Command::Listen(me)];
        }
        vec![]
    }

    pub(super) fn renewed(
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
                commands.extend(self.see(me, &world, sent, now, jitter));
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

    /// What is taken first, then what is free, from another place in each instance.
    fn see(
        &mut self,
        me: Incarnation,
        world: &Heartbeat,
        sent: Moment,
        now: Moment,
        jitter: f64,
    ) -> Vec<Command> {
        let is_free = |row: &&LeaseRow| row.holder.is_none() || !row.holder_alive;
        let (mut free, taken): (Vec<_>, Vec<_>) = world.leases.iter().partition(is_free);
        let begin = self.spread.begins_at(me, free.len());
        free.rotate_left(begin);
        let mut outlook = self.outlook();
        let mut commands = Vec::new();
        for row in taken.into_iter().chain(free) {
            let Some(slot) = self.slots.get_mut(&row.name) else { continue };
            commands.extend(outlook.turn(slot, &self.timing, now, jitter, |slot, view| {
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

    /// Gives up, gracefully, what this instance has too many, if it is the one that has most.
    fn balance(&mut self, me: Incarnation, now: Moment, jitter: f64) -> Vec<Command> {
        let surplus = if self.ending == Ending::No { self.spread.surplus(me, now) } else { 0 };
        let movable = |slot: &&Slot| matches!(slot.phase, Phase::Running { .. }) && now >= slot.settled_until;
        let names: Vec<_> =
            self.slots.values().rev().filter(movable).take(surplus).map(|slot| slot.name.clone()).collect();
        if !names.is_empty() {
            self.spread.moved(now);
        }
        let moves = names.iter().map(|name| {
            self.at(name, now, jitter, |slot, view| {
                slot.settled_until = now + spread::SETTLED;
                release::hand_back(slot, Release::Free, view, "spread")
            })
        });
        moves.collect::<Vec<_>>().concat()
    }

    /// Somebody declared this incarnation dead: sticky, so everything it had is over. The process registers anew.
    fn lost(&mut self, now: Moment, jitter: f64) -> Vec<Command> {
        self.me = None;
        self.deadline = Moment::default();
        self.beat_at = Some(now);
        self.poll_at = None;
        self.watch.forget();
        let stops = self.each(now, jitter, |slot, view| {
            // Nobody acknowledged a release: whoever comes next does not wait for one, but it was not given back either.
            keep::lost(slot, Outcome::LeftToExpire, view, "incarnation lost")
        });
        [vec![Command::EndTrust], stops].concat()
    }

    pub(super) fn beat(&mut self, now: Moment) -> Vec<Command> {
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
    pub(super) fn poll(&mut self, now: Moment) -> Option<Command> {
        let me = self.me.filter(|_| self.poll_at.is_some_and(|at| now >= at))?;
        let may = self.trusted(now) && self.ending == Ending::No;
        self.poll_at = (!may).then(|| now + self.timing.poll_every);
        may.then_some(Command::Bury(me))
    }
}

//! A turn of one process: what lies ready, the time, the news; its commands, and the store's answers to them.

use std::collections::VecDeque;

use leased_actors::clock::Moment;
use leased_actors::lease::instance::Event;
use leased_actors::lease::slot::Command;
use leased_actors::lease::{Heartbeat, News, Renewal, TermId};

use crate::node::{Worker, failure, incarnation, moment, tick};
use crate::rules::{Broken, Rules};
use crate::store::Death;
use crate::world::{Checked, Flight, Net, Violation, World, ensure};

impl World {
    pub fn take_turn(&mut self, index: usize, net: Net, rules: &Rules) -> Checked {
        if !self.nodes[index].is_awake() {
            return Ok(());
        }
        self.net = net;
        let outcome = self.go_on(index, rules);
        self.net = Net::Prompt;
        outcome
    }

    /// Everything that lies ready, then the time, then the news, then a write of a worker that writes.
    pub fn go_on(&mut self, index: usize, rules: &Rules) -> Checked {
        let inbox = std::mem::take(&mut self.node(index).inbox);
        for event in inbox.into_iter().chain([Event::Tick]) {
            self.hear(index, event, rules)?;
        }
        if let (Some(me), true) = (self.nodes[index].instance.me(), self.reaches(index)) {
            let news = self.store.beaconless_holder().map(News::Beaconless);
            let freed = self.store.is_free().then(|| News::Freed(self.store.lease.name.clone()));
            if let Some(news) = news.or(freed) {
                self.hear(index, Event::News(me, news), rules)?;
            }
        }
        self.write(index, rules)
    }

    fn reaches(&self, index: usize) -> bool {
        self.store.is_up && !self.nodes[index].is_cut && !self.nodes[index].is_down
    }

    fn write(&mut self, index: usize, rules: &Rules) -> Checked {
        let term = self.nodes[index].worker.as_ref().map(|worker| worker.term.clone());
        let (Some(term), true) = (term, self.reaches(index)) else { return Ok(()) };
        let last = self.store.lease.committed;
        let committed = self.store().commit(&term, rules);
        ensure(!committed || last <= term.epoch.0, "I3", || format!("{term} commits after {last}"))
    }

    fn hear(&mut self, index: usize, event: Event, rules: &Rules) -> Checked {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if self.nodes[index].is_down {
                return Ok(());
            }
            for event in altered(event, moment(self.now), rules) {
                if let Event::Claimed(_, _, Ok(Some(claim))) = &event {
                    self.node(index).granted = Some(claim.term.epoch.0);
                }
                let now = moment(self.now);
                for command in self.node(index).instance.step(event, now, 0.0) {
                    events.extend(self.carry_out(index, command, rules)?);
                }
            }
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        index: usize,
        command: Command,
        rules: &Rules,
    ) -> Result<Option<Event>, Violation> {
        let now = self.now;
        match command {
            Command::Trust(until) => {
                let me = self.nodes[index].instance.me();
                let worker = self.node(index).worker.as_mut();
                if let Some(worker) = worker.filter(|worker| Some(worker.term.holder) == me) {
                    worker.trusted_until = worker.trusted_until.max(tick(until));
                }
            }
            Command::EndTrust | Command::Listen(_) => {}
            Command::Start(term, _) | Command::Restart(term) => {
                self.check_start(index, &term, rules)?;
                let trusted_until = tick(self.nodes[index].instance.deadline());
                self.node(index).worker = Some(Worker { term, trusted_until, stop_by: None });
            }
            Command::Stop { term, revoked, .. } => {
                if rules.broken == Broken::ReleaseFirst && !revoked {
                    self.store().release(&term);
                }
                let by = now + rules.timing.stop_within.as_secs();
                let Some(worker) = self.node(index).worker.as_mut() else {
                    return Ok(Some(Event::Ended(term)));
                };
                worker.stop_by = Some(by);
            }
            Command::End => self.end_process(index),
            call => return self.call(index, call, rules),
        }
        Ok(None)
    }

    fn check_start(&self, index: usize, term: &TermId, rules: &Rules) -> Checked {
        let node = &self.nodes[index];
        ensure(node.worker.is_none(), "I2", || format!("{term} starts beside its predecessor"))?;
        if rules.only_overlap {
            return Ok(());
        }
        let granted = node.granted == Some(term.epoch.0) && node.instance.me() == Some(term.holder);
        ensure(granted, "I11", || format!("{term} starts, and was not acquired"))?;
        ensure(!node.is_closing, "I11", || format!("{term} starts on shutdown"))?;
        let deadline = node.instance.deadline();
        ensure(moment(self.now) < deadline, "I10", || format!("{term} starts without trust"))?;
        let lease = &self.store.lease;
        let waited = lease.epoch != term.epoch.0 || self.now >= lease.owed_until;
        ensure(waited, "I10", || format!("{term} starts {} ticks early", lease.owed_until - self.now))
    }

    fn call(&mut self, index: usize, command: Command, rules: &Rules) -> Result<Option<Event>, Violation> {
        let sent = moment(self.now);
        if !self.reaches(index) {
            return Ok(Some(failure(&command, sent)));
        }
        if let Command::Release(term, _) = &command {
            let works = self.nodes[index].worker.as_ref().is_some_and(|worker| worker.term == *term);
            ensure(!works || rules.only_overlap, "I6", || {
                format!("{term} is released while its worker runs")
            })?;
        }
        if self.net == Net::CallLate {
            self.flights.push(Flight { node: index, life: self.nodes[index].life, sent, command });
            return Ok(None);
        }
        let before = self.store.lease.epoch;
        let answer = self.answer(index, &command, sent, rules);
        if let Event::Claimed(_, _, Ok(Some(claim))) = &answer {
            ensure(claim.term.epoch.0 > before, "I1", || format!("{} after {before}", claim.term))?;
        }
        match self.net {
            Net::ReplyLost => return Ok(Some(failure(&command, sent))),
            // The answer to a claim overtakes that of the renewal, which would say what has become of the term.
            Net::ReplyLate if matches!(answer, Event::Claimed(..)) => {
                self.node(index).inbox.insert(0, answer)
            }
            Net::ReplyLate => self.node(index).inbox.push(answer),
            Net::Prompt | Net::CallLate => return Ok(Some(answer)),
        }
        Ok(None)
    }

    pub fn answer(&mut self, index: usize, command: &Command, sent: Moment, rules: &Rules) -> Event {
        let (now, life) = (self.now, self.nodes[index].life);
        self.node(index).heard_at = now;
        self.serial += 1;
        let serial = self.serial;
        let store = self.store();
        match command.clone() {
            Command::Register => {
                let me = incarnation(serial);
                store.register(me, index, life, now);
                Event::Registered(me, Ok(()))
            }
            Command::Renew(me) => Event::Renewed(me, sent, Ok(store.renew(me, rules, now))),
            Command::DeclareDead { who, seen } => Event::Declared(Ok(store.declare_dead(who, seen))),
            Command::Bury(_) => Event::Buried(Ok(store.bury(rules))),
            Command::Claim(ask) => {
                Event::Claimed(ask.name.clone(), ask.me, Ok(store.claim(&ask, rules, now)))
            }
            Command::EndWait(term) => Event::WaitEnded(Ok(store.end_wait(&term))),
            Command::Release(term, _) => {
                let released = store.release(&term);
                Event::Released(term, Ok(released))
            }
            Command::Depart(me) => {
                store.end(me, Death::Left);
                Event::Departed
            }
            other => unreachable!("{other:?} is no call"),
        }
    }
}

/// What the instance hears instead, if it is broken on purpose.
fn altered(event: Event, now: Moment, rules: &Rules) -> Vec<Event> {
    match &event {
        Event::Claimed(_, me, Ok(Some(_))) if rules.broken == Broken::ClaimTrusts => {
            let renewal = Renewal::Alive(Heartbeat::default());
            vec![Event::Renewed(*me, now, Ok(renewal)), event]
        }
        _ => vec![event],
    }
}

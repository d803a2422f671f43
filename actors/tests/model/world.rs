//! A state of the model: three processes, the store, and calls under way; and what may happen to it next.

use std::collections::VecDeque;
use std::rc::Rc;

use leased_actors::clock::Moment;
use leased_actors::lease::instance::Event;
use leased_actors::lease::slot::Command;
use leased_actors::lease::{Effects, Heartbeat, LeaseName, News, Renewal};

use crate::node::{Node, Worker, failure, incarnation, moment, tick};
use crate::print::Print;
use crate::rules::{Broken, Fault, Rules, SERVER_DROP};
use crate::store::{Death, Store};

pub const NODES: usize = 3;

#[derive(Clone)]
pub struct World {
    pub now: u64,
    pub store: Rc<Store>,
    pub nodes: [Rc<Node>; NODES],
    /// Whose turn it is; at NODES, the tick is over.
    turn: usize,
    faults: u8,
    serial: u64,
    /// What becomes of the calls of this turn.
    net: Net,
    flights: Vec<Flight>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Net {
    Prompt,
    ReplyLost,
    ReplyLate,
    CallLate,
}

/// A call that the store executes a tick later, whether its process still lives or not.
#[derive(Clone, Debug)]
struct Flight {
    node: usize,
    life: u32,
    sent: Moment,
    command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The node whose turn it is goes on; or, after the last, time does.
    Go,
    Fault(Fault),
    Heal(usize),
    Resume(usize),
    Restart(usize),
    /// A worker that was told to stop has stopped at once.
    Stopped(usize),
    StoreUp,
}

/// An invariant that does not hold, as LEASES numbers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str, pub String);

type Checked = Result<(), Violation>;

fn ensure(holds: bool, invariant: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Violation(invariant, what())) }
}

impl World {
    /// All three are registered, and `holder` runs the worker.
    pub fn new(rules: &Rules, holder: usize) -> Self {
        let name: LeaseName = "worker".parse().expect("a name");
        let node = |_| Rc::new(Node::new(&name, 0, rules));
        let mut world = Self {
            now: 10,
            store: Rc::new(Store::new(name.clone())),
            nodes: std::array::from_fn(node),
            turn: 0,
            faults: 0,
            serial: 0,
            net: Net::Prompt,
            flights: Vec::new(),
        };
        for index in [holder, 0, 1, 2] {
            world.go_on(index, rules).expect("a healthy start");
        }
        world.turn = NODES;
        for _ in 0..=NODES {
            world.act(Action::Go, rules).expect("a healthy start");
        }
        assert!(world.nodes[holder].worker.is_some(), "{holder} runs the worker");
        world
    }

    /// What may happen now.
    pub fn actions(&self, rules: &Rules) -> Vec<Action> {
        let mut actions = vec![Action::Go];
        let before_the_tick = self.turn == 0;
        for (index, node) in self.nodes.iter().enumerate() {
            let told = node.worker.as_ref().is_some_and(|worker| worker.stop_by.is_some());
            let free = [
                (told && node.is_awake(), Action::Stopped(index)),
                (before_the_tick && node.is_cut, Action::Heal(index)),
                (before_the_tick && node.is_paused, Action::Resume(index)),
                (before_the_tick && node.is_down && node.life == 0, Action::Restart(index)),
            ];
            actions.extend(free.into_iter().filter(|(may, _)| *may).map(|(_, action)| action));
        }
        if before_the_tick && !self.store.is_up {
            actions.push(Action::StoreUp);
        }
        if self.faults < rules.faults_max {
            let faults = (0..NODES).flat_map(rules.faults).filter(|fault| self.may(*fault));
            actions.extend(faults.map(Action::Fault));
        }
        actions
    }

    /// Faults that touch only what one node does come just before its turn: elsewhere they would commute.
    fn may(&self, fault: Fault) -> bool {
        let turn = |index| self.turn == index && self.nodes[index].is_awake();
        match fault {
            Fault::Cut(index) => self.turn == index && !self.nodes[index].is_cut,
            Fault::Pause(index) => turn(index),
            Fault::Crash(index) => !self.nodes[index].is_down,
            Fault::Kill(index) => {
                self.store.instances.values().any(|row| row.node == index && row.has_beacon)
            }
            Fault::Drain(index) => {
                let row = self.nodes[index].instance.me().and_then(|me| self.store.instances.get(&me));
                turn(index) && row.is_some_and(|row| row.is_up)
            }
            Fault::Shutdown(index) => turn(index) && !self.nodes[index].is_closing,
            Fault::ReplyLost(index) | Fault::ReplyLate(index) | Fault::CallLate(index) => {
                turn(index) && !self.nodes[index].is_cut && self.store.is_up
            }
            Fault::StoreDown => self.store.is_up,
            Fault::ClockStep(_) => self.store.clock_offset == 0,
        }
    }

    pub fn act(&mut self, action: Action, rules: &Rules) -> Checked {
        match action {
            Action::Go if self.turn == NODES => self.pass_time(rules),
            Action::Go => {
                let index = self.turn;
                self.turn += 1;
                let net = std::mem::replace(&mut self.net, Net::Prompt);
                self.take_turn(index, net, rules)?;
            }
            Action::Fault(fault) => {
                self.faults += 1;
                self.fail(fault, rules)?;
            }
            Action::Heal(index) => self.heal(index),
            Action::Resume(index) => {
                self.node(index).is_paused = false;
                self.wake(index, rules);
            }
            Action::Restart(index) => {
                let (name, old) = (self.store.lease.name.clone(), &self.nodes[index]);
                let node = Node { is_cut: old.is_cut, ..Node::new(&name, old.life + 1, rules) };
                self.nodes[index] = Rc::new(node);
            }
            Action::Stopped(index) => {
                let worker = self.node(index).worker.take();
                self.node(index).inbox.extend(worker.map(|worker| Event::Ended(worker.term)));
                self.take_turn(index, Net::Prompt, rules)?;
            }
            Action::StoreUp => self.store().is_up = true,
        }
        let acting = self.nodes.iter().filter(|node| node.acts(rules, self.now)).count();
        let external = rules.effects == Effects::External;
        ensure(!external || acting <= 1, "I2", || format!("{acting} processes act"))
    }

    /// Within a tick, goes on for as long as nothing else may happen.
    pub fn go_on_alone(&mut self, rules: &Rules) -> Checked {
        while self.turn != 0 && self.faults == rules.faults_max && self.actions(rules).len() == 1 {
            self.act(Action::Go, rules)?;
        }
        Ok(())
    }

    /// Bounded liveness: with everything healed, and whoever is gone back, one worker runs within TTL + G and a few turns
    /// (and a clock that went back by six).
    pub fn recover(mut self, rules: &Rules) -> Checked {
        self.faults = rules.faults_max;
        while self.turn != 0 {
            self.act(Action::Go, rules)?;
        }
        self.store().is_up = true;
        for index in 0..NODES {
            self.heal(index);
            if self.nodes[index].is_paused {
                self.act(Action::Resume(index), rules)?;
            }
        }
        for _ in 0..20 {
            for index in (0..NODES).filter(|index| self.nodes[*index].is_down).collect::<Vec<_>>() {
                self.act(Action::Restart(index), rules)?;
            }
            for _ in 0..=NODES {
                self.act(Action::Go, rules)?;
            }
        }
        let running = self.nodes.iter().filter(|node| node.worker.is_some()).count();
        ensure(running == 1, "I9", || format!("{running} workers run long after everything healed"))
    }

    fn node(&mut self, index: usize) -> &mut Node {
        Rc::make_mut(&mut self.nodes[index])
    }

    fn store(&mut self) -> &mut Store {
        Rc::make_mut(&mut self.store)
    }

    fn fail(&mut self, fault: Fault, rules: &Rules) -> Checked {
        match fault {
            Fault::Cut(index) => {
                self.node(index).is_cut = true;
                let drop_at = Some(self.nodes[index].heard_at + SERVER_DROP);
                let rows = self.store().instances.values_mut();
                rows.filter(|row| row.node == index && row.has_beacon).for_each(|row| row.drop_at = drop_at);
            }
            Fault::Pause(index) => self.node(index).is_paused = true,
            Fault::Crash(index) => self.end_process(index),
            Fault::Kill(index) => self.drop_sessions(index),
            Fault::Drain(index) => {
                let me = self.nodes[index].instance.me();
                if let Some(row) = me.and_then(|me| self.store().instances.get_mut(&me)) {
                    row.is_up = false;
                }
            }
            Fault::Shutdown(index) => {
                self.node(index).is_closing = true;
                self.node(index).inbox.push(Event::Shutdown);
            }
            Fault::StoreDown => {
                self.store().is_up = false;
                (0..NODES).for_each(|index| self.drop_sessions(index));
                self.flights.clear();
            }
            Fault::ClockStep(by) => self.store().clock_offset += by,
            Fault::ReplyLost(_) => self.net = Net::ReplyLost,
            Fault::ReplyLate(_) => self.net = Net::ReplyLate,
            Fault::CallLate(_) => self.net = Net::CallLate,
        }
        // What happens to the calls of a turn happens in that turn.
        if self.net == Net::Prompt { Ok(()) } else { self.act(Action::Go, rules) }
    }

    fn drop_sessions(&mut self, index: usize) {
        for row in self.store().instances.values_mut().filter(|row| row.node == index) {
            (row.has_beacon, row.drop_at) = (false, None);
        }
    }

    /// The process is gone. The store knows at once, unless the network is cut: then, when it drops the session.
    fn end_process(&mut self, index: usize) {
        let node = self.node(index);
        (node.is_down, node.is_paused, node.worker) = (true, false, None);
        node.inbox.clear();
        if !node.is_cut {
            self.drop_sessions(index);
        }
    }

    fn heal(&mut self, index: usize) {
        self.node(index).is_cut = false;
        let (life, is_down) = (self.nodes[index].life, self.nodes[index].is_down);
        for row in self.store().instances.values_mut().filter(|row| row.node == index) {
            row.drop_at = None;
            row.has_beacon &= row.life == life && !is_down;
        }
    }

    fn pass_time(&mut self, rules: &Rules) {
        self.now += 1;
        self.turn = 0;
        let now = self.now;
        self.store().drop_silent(now);
        for Flight { node, life, sent, command } in std::mem::take(&mut self.flights) {
            let answer = self.answer(node, &command, sent, rules);
            if self.nodes[node].life == life && !self.nodes[node].is_down {
                self.node(node).inbox.push(answer);
            }
        }
        for index in (0..NODES).filter(|index| self.nodes[*index].is_awake()).collect::<Vec<_>>() {
            self.wake(index, rules);
        }
    }

    /// What comes before anything else that a process does at a new moment: stops that are due, then the watchdog.
    fn wake(&mut self, index: usize, rules: &Rules) {
        let now = self.now;
        if self.nodes[index].worker.is_some() {
            self.node(index).end_stopped(now);
        }
        if self.nodes[index].is_overdue(rules, now) {
            self.end_process(index);
        }
    }

    fn take_turn(&mut self, index: usize, net: Net, rules: &Rules) -> Checked {
        if !self.nodes[index].is_awake() {
            return Ok(());
        }
        self.net = net;
        let outcome = self.go_on(index, rules);
        self.net = Net::Prompt;
        outcome
    }

    /// Everything that lies ready, then the time, then the news, then a write of a worker that writes.
    fn go_on(&mut self, index: usize, rules: &Rules) -> Checked {
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
        self.write(index)
    }

    fn reaches(&self, index: usize) -> bool {
        self.store.is_up && !self.nodes[index].is_cut && !self.nodes[index].is_down
    }

    fn write(&mut self, index: usize) -> Checked {
        let term = self.nodes[index].worker.as_ref().map(|worker| worker.term.clone());
        let (Some(term), true) = (term, self.reaches(index)) else { return Ok(()) };
        let last = self.store.lease.committed;
        let committed = self.store().commit(&term);
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

    fn check_start(&self, index: usize, term: &leased_actors::lease::TermId, rules: &Rules) -> Checked {
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

    fn answer(&mut self, index: usize, command: &Command, sent: Moment, rules: &Rules) -> Event {
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

    pub fn fingerprint(&self, rules: &Rules) -> u64 {
        let mut print = Print::new(&self.store, self.now).number(self.turn as u64).number(self.faults.into());
        for node in &self.nodes {
            let flags = [node.is_down, node.is_closing, node.is_cut, node.is_paused, node.granted.is_some()];
            let flags = flags.iter().fold(0, |word, flag| word << 1 | u64::from(*flag));
            let silent = (self.now - node.heard_at.min(self.now)).min(SERVER_DROP);
            print = print.number(flags).number(node.life.into()).number(silent);
            if node.is_down {
                continue;
            }
            print = print.of(&node.instance).of(&node.inbox);
            if let Some(worker) = &node.worker {
                print = print.of(&worker.term).tick(worker.trusted_until);
                print = print.number(worker.stop_by.map_or(99, |by| by.saturating_sub(self.now)));
            }
        }
        let lease = &self.store.lease;
        for (who, row) in &self.store.instances {
            let flags = [row.is_up, row.has_beacon].iter().fold(0, |word, flag| word << 1 | u64::from(*flag));
            print = print.of(who).of(&row.dead).number(flags).number(row.node as u64).number(row.life.into());
            print = print.number(row.drop_at.map_or(99, |at| at.saturating_sub(self.now)));
            if rules.broken == Broken::WallClockTtl {
                let silent = self.store.wall(self.now) - row.renewed_at;
                print = print.number(silent.cast_unsigned());
            }
        }
        let wait = (lease.start_not_before - self.store.wall(self.now)).max(0);
        print = print.of(&lease.holder).number(wait.cast_unsigned()).tick(lease.owed_until);
        print = print.number(self.store.clock_offset.cast_unsigned()).number(self.store.is_up.into());
        print.of(&self.flights).finish()
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

//! A state of the model: three processes, the store, and calls under way; and what may happen to it next.

use std::rc::Rc;

use leased_actors::clock::Moment;
use leased_actors::lease::instance::Event;
use leased_actors::lease::slot::Command;
use leased_actors::lease::{Effects, LeaseName};

use crate::node::Node;
use crate::rules::{Fault, Rules, SERVER_DROP};
use crate::store::Store;

pub const NODES: usize = 3;

#[derive(Clone)]
pub struct World {
    pub now: u64,
    pub store: Rc<Store>,
    pub nodes: [Rc<Node>; NODES],
    /// Whose turn it is; at NODES, the tick is over.
    pub turn: usize,
    pub faults: u8,
    pub serial: u64,
    /// What becomes of the calls of this turn.
    pub net: Net,
    pub flights: Vec<Flight>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    Prompt,
    ReplyLost,
    ReplyLate,
    CallLate,
}

/// A call that the store executes a tick later, whether its process still lives or not.
#[derive(Clone, Debug)]
pub struct Flight {
    pub node: usize,
    pub life: u32,
    pub sent: Moment,
    pub command: Command,
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

pub type Checked = Result<(), Violation>;

pub fn ensure(holds: bool, invariant: &'static str, what: impl FnOnce() -> String) -> Checked {
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

    pub fn node(&mut self, index: usize) -> &mut Node {
        Rc::make_mut(&mut self.nodes[index])
    }

    pub fn store(&mut self) -> &mut Store {
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
    pub fn end_process(&mut self, index: usize) {
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
}

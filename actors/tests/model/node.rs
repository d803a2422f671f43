//! One process: the very state machine that the supervisor runs, the worker's body, and what is on its way to it.

use leased_actors::clock::Moment;
use leased_actors::lease::instance::{Event, Instance};
use leased_actors::lease::slot::{Command, Slot};
use leased_actors::lease::{Effects, Incarnation, LeaseName, StoreError, TermId};
use leased_actors::restart::Intensity;

use crate::rules::{Rules, TICK};

#[derive(Clone, Debug)]
pub struct Node {
    pub instance: Instance,
    /// Rises with each process of this node.
    pub life: u32,
    pub is_down: bool,
    pub is_closing: bool,
    pub is_cut: bool,
    pub is_paused: bool,
    /// The last tick at which the store heard of it.
    pub heard_at: u64,
    pub worker: Option<Worker>,
    /// Answers and endings that it takes at its next turn.
    pub inbox: Vec<Event>,
    /// The epoch of the last claim that it heard was granted.
    pub granted: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Worker {
    pub term: TermId,
    /// The trust that its term lives by: that of its own incarnation.
    pub trusted_until: u64,
    /// When its stop is over at the latest, once it was told to stop.
    pub stop_by: Option<u64>,
}

impl Node {
    pub fn new(name: &LeaseName, life: u32, rules: &Rules) -> Self {
        let slot = Slot::new(name.clone(), rules.effects, Intensity::default());
        Self {
            instance: Instance::new(rules.timing, vec![slot]),
            life,
            is_down: false,
            is_closing: false,
            is_cut: false,
            is_paused: false,
            heard_at: 0,
            worker: None,
            inbox: Vec::new(),
            granted: None,
        }
    }

    pub fn is_awake(&self) -> bool {
        !self.is_down && !self.is_paused
    }

    /// Whether its worker is at work, or would be on waking: past trust plus S the watchdog is faster.
    pub fn acts(&self, rules: &Rules, now: u64) -> bool {
        let in_time = |worker: &Worker| now < worker.trusted_until + rules.timing.stop_within.as_secs();
        self.worker.as_ref().is_some_and(|worker| !self.is_paused || in_time(worker))
    }

    /// Whether the watchdog has to end the process.
    pub fn is_overdue(&self, rules: &Rules, now: u64) -> bool {
        let late = |worker: &Worker| now >= worker.trusted_until + rules.timing.stop_within.as_secs();
        rules.effects == Effects::External && self.worker.as_ref().is_some_and(late)
    }

    /// A stop whose time has come is over.
    pub fn end_stopped(&mut self, now: u64) {
        let stopped = |worker: &mut Worker| worker.stop_by.is_some_and(|by| now >= by);
        if let Some(worker) = self.worker.take_if(stopped) {
            self.inbox.insert(0, Event::Ended(worker.term));
        }
    }
}

pub fn moment(tick: u64) -> Moment {
    Moment::default() + TICK * u32::try_from(tick).expect("runs are short")
}

pub fn tick(moment: Moment) -> u64 {
    moment.since(Moment::default()).as_secs()
}

/// Identities in the order of their making, of full length.
pub fn incarnation(serial: u64) -> Incarnation {
    format!("{:032x}", (1_u128 << 127) + u128::from(serial)).parse().expect("32 digits")
}

/// What the sender hears when its call got no answer.
pub fn failure(command: &Command, sent: Moment) -> Event {
    fn error<T>() -> Result<T, StoreError> {
        Err(StoreError { operation: String::new(), reason: String::new() })
    }
    match command.clone() {
        Command::Register => Event::Registered(incarnation(0), error()),
        Command::Renew(me) => Event::Renewed(me, sent, error()),
        Command::Claim(ask) => Event::Claimed(ask.name, ask.me, error()),
        Command::Bury(_) => Event::Buried(error()),
        Command::EndWait(_) => Event::WaitEnded(error()),
        Command::Release(term, _) => Event::Released(term, error()),
        Command::Depart(_) => Event::Departed,
        _ => Event::Declared(error()),
    }
}

//! The world: simulated time, the store, the network between, and what must always be true.

use std::collections::{BTreeMap, BinaryHeap};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leased_actors::clock::{Clock, Moment};
use leased_actors::lease::instance::Event;
use leased_actors::lease::slot::{Command, Outcome};
use leased_actors::lease::timing::Timing;
use leased_actors::lease::{
    Effects, Epoch, Incarnation, LeaseName, LeaseStore, News, ProcessId, Registration, StoreError, TermId,
};
use leased_actors::memory::MemoryStore;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::history::Stint;
use crate::node::{Node, Running, leases};

const STEP: Duration = Duration::from_millis(5);
pub const TIMING: Timing = Timing { poll_every: Duration::from_secs(1), ..Timing::POSTGRES };

#[derive(Clone, Copy)]
pub struct Rules {
    pub ttl: Duration,
    pub nodes: usize,
    pub leases: fn() -> Vec<(LeaseName, Effects)>,
    pub faults: bool,
    /// Whether now and then something is a long time on its way.
    pub dawdling: bool,
    /// Whether a release is told to the others.
    pub news: bool,
    /// Of each instance's renewals, one of so many is lost.
    pub renewals_lost: Option<u32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            ttl: TIMING.ttl,
            nodes: 3,
            leases,
            faults: true,
            dawdling: true,
            news: false,
            renewals_lost: None,
        }
    }
}

/// A call on its way to the store, or its answer on the way back; ordered by arrival, the earliest first.
struct Parcel {
    at: Moment,
    order: u64,
    node: usize,
    life: u64,
    content: Content,
}

enum Content {
    Call(Command, Moment),
    Answer(Box<Event>),
    WorkerEnds(TermId),
}

impl PartialEq for Parcel {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Parcel {}
impl PartialOrd for Parcel {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Parcel {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

pub struct World {
    pub seed: u64,
    rules: Rules,
    random: StdRng,
    pub clock: Clock,
    store: MemoryStore,
    pub nodes: Vec<Node>,
    pub history: Vec<Stint>,
    parcels: BinaryHeap<Parcel>,
    sent: u64,
    epochs: BTreeMap<LeaseName, Epoch>,
    leases: Vec<(LeaseName, Effects)>,
    closing: bool,
}

impl World {
    pub fn new(seed: u64, rules: Rules) -> Self {
        let clock = Clock::manual();
        Self {
            seed,
            rules,
            random: StdRng::seed_from_u64(seed),
            store: MemoryStore::new(clock.clone()),
            clock,
            nodes: (0..rules.nodes).map(|_| Node::new(rules)).collect(),
            history: Vec::new(),
            parcels: BinaryHeap::new(),
            sent: 0,
            epochs: BTreeMap::new(),
            leases: (rules.leases)(),
            closing: false,
        }
    }

    pub fn run(&mut self, span: Duration) {
        let end = self.clock.now() + span;
        while self.clock.now() < end {
            self.clock.advance(STEP);
            if self.rules.faults {
                self.trouble();
            }
            self.deliver();
            for node in 0..self.nodes.len() {
                self.tick(node);
            }
            self.check();
        }
    }

    pub fn heal(&mut self) {
        self.rules.faults = false;
        for node in &mut self.nodes {
            (node.paused_until, node.cut_until) = (None, None);
        }
    }

    pub fn shut_all_down(&mut self) {
        self.closing = true;
        for node in 0..self.nodes.len() {
            self.step(node, Event::Shutdown);
        }
    }

    pub fn assert_each_lease_runs_once(&self) {
        for (name, _) in &self.leases {
            let running = self.nodes.iter().filter(|node| node.workers.contains_key(name)).count();
            assert_eq!(running, 1, "seed {}: {name} runs {running} times", self.seed);
        }
    }

    pub fn assert_all_released(&self) {
        for node in &self.nodes {
            assert!(node.ended, "seed {}: an instance did not end", self.seed);
            for (name, outcome) in node.instance.outcomes() {
                let fine = matches!(outcome, Outcome::NotOurs | Outcome::Released);
                assert!(fine, "seed {}: {name} ended as {outcome:?}", self.seed);
            }
        }
        for lease in now(self.store.list()).unwrap() {
            assert!(lease.holder.is_none(), "seed {}: {} is not free", self.seed, lease.name);
        }
    }

    /// Now and then something happens to somebody.
    fn trouble(&mut self) {
        let (now, node) = (self.clock.now(), self.random.random_range(0..self.nodes.len()));
        if !self.random.random_bool(0.004) {
            return;
        }
        let span = Duration::from_millis(self.random.random_range(50..12_000));
        let what = self.random.random_range(0..4);
        match what {
            0 => {
                let node = &mut self.nodes[node];
                node.paused_until = Some(now + span);
                let long = span > TIMING.trust_for;
                node.workers.values_mut().for_each(|running| running.slept |= long);
            }
            1 => self.nodes[node].cut_until = Some(now + span),
            2 => self.begin_again(node, span),
            _ => {
                let failing = self.nodes[node].workers.values().next().map(|running| running.term.clone());
                if let Some(term) = failing {
                    let life = self.nodes[node].life;
                    self.send(node, life, Duration::ZERO, Content::WorkerEnds(term));
                }
            }
        }
    }

    /// The process is gone, and another one starts after a while.
    pub fn begin_again(&mut self, node: usize, after: Duration) {
        self.over(node, |_| true);
        let (life, down_until) = (self.nodes[node].life + 1, Some(self.clock.now() + after));
        self.nodes[node] = Node { life, down_until, ..Node::new(self.rules) };
    }

    fn send(&mut self, node: usize, life: u64, delay: Duration, content: Content) {
        self.sent += 1;
        self.parcels.push(Parcel { at: self.clock.now() + delay, order: self.sent, node, life, content });
    }

    fn travel(&mut self) -> Duration {
        let most = if self.rules.dawdling && self.random.random_bool(0.05) { 700 } else { 20 };
        Duration::from_millis(self.random.random_range(0..most))
    }

    fn deliver(&mut self) {
        let now = self.clock.now();
        let mut waiting = Vec::new();
        while self.parcels.peek().is_some_and(|parcel| parcel.at <= now) {
            let parcel = self.parcels.pop().unwrap();
            if let Content::Call(command, sent) = parcel.content {
                self.execute(parcel.node, parcel.life, command, sent);
            } else if self.nodes[parcel.node].life != parcel.life {
                // For a process that is gone.
            } else if !self.nodes[parcel.node].is_awake(now) {
                waiting.push(parcel);
            } else {
                match parcel.content {
                    Content::Answer(event) => self.step(parcel.node, *event),
                    Content::WorkerEnds(term) => self.worker_ends(parcel.node, term),
                    Content::Call(..) => unreachable!("executed above"),
                }
            }
        }
        self.parcels.extend(waiting);
    }

    fn worker_ends(&mut self, node: usize, term: TermId) {
        if self.nodes[node].workers.get(&term.name).is_some_and(|running| running.term == term) {
            self.over(node, |name| *name == term.name);
            self.step(node, Event::Ended(term));
        }
    }

    fn tick(&mut self, node: usize) {
        if self.nodes[node].ended && !self.closing {
            return self.begin_again(node, Duration::from_millis(100));
        }
        let now = self.clock.now();
        let due = self.nodes[node].instance.due().is_some_and(|due| now >= due);
        if due && self.nodes[node].is_awake(now) {
            self.step(node, Event::Tick);
        }
    }

    pub fn step(&mut self, node: usize, event: Event) {
        let (now, jitter) = (self.clock.now(), self.random.random());
        for command in self.nodes[node].instance.step(event, now, jitter) {
            self.carry_out(node, command);
        }
    }

    fn carry_out(&mut self, index: usize, command: Command) {
        let (now, life) = (self.clock.now(), self.nodes[index].life);
        let node = &mut self.nodes[index];
        match command {
            Command::Trust(until) => node.extend_trust(node.instance.me(), until),
            Command::EndTrust | Command::Listen(_) => {}
            Command::Start(term, _) | Command::Restart(term) => {
                assert!(now < node.instance.deadline(), "seed {}: {term} starts without trust", self.seed);
                let trusted_until = node.instance.deadline();
                let running = Running { term: term.clone(), trusted_until, slept: false };
                self.history.push(Stint { node: index, term: term.clone(), from: now, to: None });
                assert!(
                    node.workers.insert(term.name, running).is_none(),
                    "seed {}: started twice",
                    self.seed
                );
            }
            Command::Stop { term, within, .. } => {
                let takes = within.mul_f64(self.random.random());
                self.send(index, life, takes, Content::WorkerEnds(term));
            }
            // The process exits, with whatever of its workers there was.
            Command::End => {
                node.ended = true;
                self.over(index, |_| true);
            }
            call => {
                let delay = self.travel();
                self.send(index, life, delay, Content::Call(call, now));
            }
        }
    }

    /// A call arrives at the store, or is lost on the way there or back: then its sender gives up after T.
    fn execute(&mut self, node: usize, life: u64, command: Command, sent: Moment) {
        let now = self.clock.now();
        let mut lost = self.nodes[node].is_cut(now) || self.rules.faults && self.random.random_bool(0.01);
        if let (Command::Renew(_), Some(one_of)) = (&command, self.rules.renewals_lost) {
            self.nodes[node].renewals += 1;
            lost |= self.nodes[node].renewals.is_multiple_of(one_of);
        }
        let arrives = !lost || self.random.random_bool(0.5);
        let answer = if arrives { self.answer(node, &command, sent, lost) } else { failure(&command, sent) };
        let delay = if lost { TIMING.renew_timeout } else { self.travel() };
        self.send(node, life, delay, Content::Answer(Box::new(answer)));
    }

    /// From the seed too: the order in which instances come to be asked follows from it.
    fn incarnation(&mut self) -> Incarnation {
        format!("{:032x}", self.random.random::<u128>()).parse().expect("32 digits")
    }

    fn answer(&mut self, node: usize, command: &Command, sent: Moment, lost: bool) -> Event {
        let event = match command.clone() {
            Command::Register => {
                let me = registration(self.incarnation(), self.nodes[node].process, self.rules.ttl);
                let names: Vec<_> = self.leases.iter().map(|(name, _)| name.clone()).collect();
                Event::Registered(me.incarnation, now(self.store.register(&me, &names)))
            }
            Command::Renew(me) => Event::Renewed(me, sent, now(self.store.renew(me))),
            Command::DeclareDead { who, seen } => Event::Declared(now(self.store.declare_dead(who, seen))),
            Command::Bury(me) => Event::Buried(now(self.store.bury(me))),
            Command::Claim(ask) => {
                let (name, me) = (ask.name.clone(), ask.me);
                let reply = now(self.store.claim(&ask));
                if let Ok(Some(claim)) = &reply {
                    let last = self.epochs.insert(name.clone(), claim.term.epoch);
                    assert!(
                        last < Some(claim.term.epoch),
                        "seed {}: {name} has epoch {last:?} again",
                        self.seed
                    );
                }
                Event::Claimed(name, me, reply)
            }
            Command::EndWait(term) => Event::WaitEnded(now(self.store.end_wait(&term))),
            Command::Release(term, how) => {
                let works =
                    self.nodes.iter().any(|n| n.workers.get(&term.name).is_some_and(|r| r.term == term));
                assert!(!works, "seed {}: {term} released while its worker ran", self.seed);
                let reply = now(self.store.release(&term, how));
                if self.rules.news && reply == Ok(true) {
                    self.tell(node, &term.name);
                }
                Event::Released(term, reply)
            }
            Command::Depart(me) => {
                now(self.store.depart(me)).unwrap();
                Event::Departed
            }
            other => unreachable!("{other:?} is no call"),
        };
        if lost { failure(command, sent) } else { event }
    }

    /// The others hear that the lease came free.
    fn tell(&mut self, from: usize, name: &LeaseName) {
        for node in (0..self.nodes.len()).filter(|node| *node != from) {
            let Some(me) = self.nodes[node].instance.me() else { continue };
            let (life, delay) = (self.nodes[node].life, self.travel());
            let news = Event::News(me, News::Freed(name.clone()));
            self.send(node, life, delay, Content::Answer(Box::new(news)));
        }
    }

    /// What must be true at every moment.
    fn check(&self) {
        let now = self.clock.now();
        for (name, _) in self.leases.iter().filter(|(_, effects)| *effects == Effects::External) {
            let works = |node: &&Node| node.workers.get(name).is_some_and(|running| !running.slept);
            let at_work = self.nodes.iter().filter(works).count();
            assert!(
                at_work <= 1,
                "seed {}: {name} runs {at_work} times, none of them paused for long",
                self.seed
            );
            let acts = |node: &&Node| {
                node.is_awake(now)
                    && node.workers.get(name).is_some_and(|running| now < running.trusted_until)
            };
            let acting = self.nodes.iter().filter(acts).count();
            assert!(acting <= 1, "seed {}: {acting} instances act as {name}", self.seed);
        }
    }
}

/// What the sender hears when its call got no answer.
fn failure(command: &Command, sent: Moment) -> Event {
    fn error<T>() -> Result<T, StoreError> {
        Err(StoreError { operation: "call".into(), reason: "no answer".into() })
    }
    match command.clone() {
        Command::Register => Event::Registered(Incarnation::new(), error()),
        Command::Renew(me) => Event::Renewed(me, sent, error()),
        Command::Claim(ask) => Event::Claimed(ask.name, ask.me, error()),
        Command::Bury(_) => Event::Buried(error()),
        Command::EndWait(_) => Event::WaitEnded(error()),
        Command::Release(term, _) => Event::Released(term, error()),
        Command::Depart(_) => Event::Departed,
        _ => Event::Declared(error()),
    }
}

fn registration(incarnation: Incarnation, process: ProcessId, ttl: Duration) -> Registration {
    Registration { incarnation, process, ttl, ..leased_actors::testing::registration("node") }
}

/// The memory store never waits.
pub fn now<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the memory store waits for nothing"),
    }
}

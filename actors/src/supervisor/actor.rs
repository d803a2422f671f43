//! The supervisor's mailbox, state and handlers. A handler never waits for the store.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

use super::{Message, Setup, Snapshot, Standing};
use crate::clock::Moment;
use crate::lease::instance::{Event, Instance};
use crate::lease::slot::Slot;
use crate::lease::{Epoch, Incarnation, LeaseName, LeaseStore, Term, TermId, Trust};
use crate::metrics::{self, Meter};
use crate::shutdown::Report;
use crate::watchdog::Watchdog;
use crate::worker::{self, End, Worker};

pub(super) struct Supervisor;

/// What it starts with.
pub(super) struct Start {
    pub(super) setup: Setup,
    pub(super) store: Arc<dyn LeaseStore>,
    pub(super) workers: Vec<Arc<dyn Worker>>,
    pub(super) publish: watch::Sender<Snapshot>,
    pub(super) report: Arc<OnceLock<Report>>,
    pub(super) tasks: TaskTracker,
    pub(super) meter: Meter,
}

/// The instance, and everything that its commands are carried out with.
pub(super) struct State {
    pub(super) setup: Setup,
    pub(super) store: Arc<dyn LeaseStore>,
    pub(super) workers: HashMap<LeaseName, Arc<dyn Worker>>,
    pub(super) instance: Instance,
    pub(super) trust: Trust,
    pub(super) running: HashMap<LeaseName, Running>,
    pub(super) last_failures: HashMap<LeaseName, String>,
    pub(super) runs: u64,
    pub(super) watchdog: Watchdog,
    pub(super) timer: Option<(Moment, Timer)>,
    pub(super) listening: Option<DropGuard>,
    pub(super) publish: watch::Sender<Snapshot>,
    pub(super) report: Arc<OnceLock<Report>>,
    pub(super) tasks: TaskTracker,
    pub(super) meter: Meter,
    pub(super) told: Told,
}

type Timer = JoinHandle<Result<(), ractor::MessagingErr<Message>>>;

/// A worker's actor and what the supervisor knows of it.
pub(super) struct Running {
    pub(super) term: Term,
    pub(super) actor: ActorRef<worker::Message>,
    pub(super) progress: worker::Progress,
    /// How long it may make none; none = not asked, or told to stop already.
    pub(super) progress_within: Option<Duration>,
    pub(super) meter: Meter,
}

impl Actor for Supervisor {
    type Msg = Message;
    type State = State;
    type Arguments = Start;

    async fn pre_start(&self, myself: ActorRef<Message>, start: Start) -> Result<State, ActorProcessingErr> {
        let mut state = State::new(start)?;
        state.take(&myself, Event::Tick).await;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let _handling = state.meter.handling();
        match message {
            Message::Event(event) => state.take(&myself, event).await,
            Message::Ended(term, end) => {
                state.worker_ended(&term, end);
                state.take(&myself, Event::Ended(term)).await;
            }
            // Whoever asked may not wait any more.
            Message::Pulse(answer) => drop(answer.send(())),
        }
        Ok(())
    }

    /// A worker's actor is gone: whoever waits for its body's end tells the rest. The default would end the supervisor.
    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Message>,
        _event: SupervisionEvent,
        _state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

impl State {
    fn new(start: Start) -> Result<Self, std::io::Error> {
        let Start { setup, store, workers, publish, report, tasks, meter } = start;
        let slot = |worker: &Arc<dyn Worker>| Slot::new(worker.name(), worker.effects(), worker.intensity());
        let instance = Instance::new(setup.timing, workers.iter().map(slot).collect());
        let watchdog = Watchdog::start(setup.clock.clone(), &setup.timing, setup.on_overdue.clone())?;
        Ok(Self {
            trust: Trust::none(setup.clock.clone()),
            workers: workers.into_iter().map(|worker| (worker.name(), worker)).collect(),
            running: HashMap::new(),
            last_failures: HashMap::new(),
            runs: 0,
            timer: None,
            listening: None,
            setup,
            store,
            instance,
            watchdog,
            publish,
            report,
            tasks,
            meter,
            told: Told::default(),
        })
    }

    /// Lets the instance decide on an event, and does what it says.
    async fn take(&mut self, myself: &ActorRef<Message>, event: Event) {
        let commands = self.instance.step(event, self.setup.clock.now(), rand::random());
        for command in commands {
            self.carry_out(myself, command).await;
        }
        while let Some(term) = self.stuck() {
            for command in self.instance.step(Event::Stuck(term), self.setup.clock.now(), rand::random()) {
                self.carry_out(myself, command).await;
            }
        }
        self.set_timer(myself);
        self.tell();
    }

    fn worker_ended(&mut self, term: &TermId, end: End) {
        self.watchdog.let_go(term);
        let Some(running) = self.running.remove(&term.name) else { return };
        running.term.end();
        let (lease, epoch) = (&term.name, term.epoch.0);
        match end {
            End::Stopped => tracing::info!(lease.name = %lease, lease.epoch = epoch, "worker stopped"),
            End::Killed => {
                self.last_failures.insert(lease.clone(), "killed: it did not stop in time".into());
                tracing::warn!(lease.name = %lease, lease.epoch = epoch, "worker killed");
            }
            End::Failed(reason) => {
                metrics::failed(lease.as_str());
                tracing::error!(lease.name = %lease, lease.epoch = epoch, reason, "worker failed");
                self.last_failures.insert(lease.clone(), reason);
            }
        }
    }

    /// A worker that has made no progress for its limit; each is told once.
    fn stuck(&mut self) -> Option<TermId> {
        let now = self.setup.clock.now();
        let late = |running: &&mut Running| {
            running.progress_within.is_some_and(|limit| now >= running.progress.made_at() + limit)
        };
        let running = self.running.values_mut().find(late)?;
        running.progress_within = None;
        Some(running.term.id().clone())
    }

    /// When the next worker would be late with its progress.
    fn progress_due(&self) -> Option<Moment> {
        let due = |running: &Running| running.progress_within.map(|limit| running.progress.made_at() + limit);
        self.running.values().filter_map(due).min()
    }

    /// One timer for the earliest moment at which time alone changes something.
    fn set_timer(&mut self, myself: &ActorRef<Message>) {
        let Some(due) = self.instance.due().into_iter().chain(self.progress_due()).min() else { return };
        if let Some((at, timer)) = &self.timer {
            if *at == due && !timer.is_finished() {
                return;
            }
            timer.abort();
        }
        // A millisecond at least: whatever is due already was decided on just now.
        let wait = due.since(self.setup.clock.now()).max(Duration::from_millis(1));
        let meter = self.meter.clone();
        let timer = myself.send_after(wait, move || {
            meter.sending();
            Message::Event(Event::Tick)
        });
        self.timer = Some((due, timer));
    }

    /// Publishes what has changed: with hundreds of leases, telling all of them after every event would cost more than
    /// the events.
    fn tell(&mut self) {
        let mut changed = self.told.replace_all(self.instance.me(), self.runs, self.trust.lies_ahead());
        for slot in self.instance.slots() {
            if self.told.replace(slot) {
                metrics::state(slot);
                changed = true;
            }
        }
        if !changed {
            return;
        }
        let standing = |slot: &Slot| Standing {
            name: slot.name.clone(),
            state: slot.state(),
            epoch: slot.term().map(|term| term.epoch),
            last_failure: self.last_failures.get(&slot.name).cloned(),
            actor: self.running.get(&slot.name).and_then(|running| running.actor.get_name()),
        };
        self.publish.send_replace(Snapshot {
            incarnation: self.instance.me(),
            leases: self.instance.slots().map(standing).collect(),
            trust: Some(self.trust.clone()),
            clock: self.setup.clock.clone(),
        });
    }
}

/// What was published last.
#[derive(Default)]
pub(super) struct Told {
    all: Option<(Option<Incarnation>, u64, bool)>,
    leases: HashMap<LeaseName, (&'static str, Option<Epoch>)>,
}

impl Told {
    /// Whether the incarnation is another, a worker started again, or trust began or ended.
    fn replace_all(&mut self, me: Option<Incarnation>, runs: u64, trusted: bool) -> bool {
        self.all.replace((me, runs, trusted)) != Some((me, runs, trusted))
    }

    /// Whether the lease stands otherwise.
    fn replace(&mut self, slot: &Slot) -> bool {
        let now = (slot.state(), slot.term().map(|term| term.epoch));
        match self.leases.get_mut(&slot.name) {
            Some(told) => std::mem::replace(told, now) != now,
            None => self.leases.insert(slot.name.clone(), now).is_none(),
        }
    }
}

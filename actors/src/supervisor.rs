//! The actor with a slot per lease. It takes events from its mailbox, lets the pure [`Instance`] decide, and carries
//! the commands out. Its handlers never await the store: they start the work and take its answer as a message.

mod carry_out;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, Moment};
use crate::lease::instance::{Event, Instance};
use crate::lease::slot::Slot;
use crate::lease::timing::Timing;
use crate::lease::{Epoch, Incarnation, LeaseName, LeaseStore, ProcessId, Term, TermId, Trust};
use crate::metrics::{self, Meter};
use crate::shutdown::Report;
use crate::watchdog::{Bite, Watchdog};
use crate::worker::{self, End, Worker};

/// What an instance is, and how it keeps time.
#[derive(Clone)]
pub struct Setup {
    /// This process.
    pub process: ProcessId,
    /// Shown to people.
    pub label: String,
    /// Host name, for display.
    pub host: String,
    /// Where the status page is served, if it is.
    pub admin_address: Option<String>,
    /// The times.
    pub timing: Timing,
    /// The clock; [`Clock::boottime`] outside of tests.
    pub clock: Clock,
    /// Ends the process when a worker that acts outside the database did not stop in time.
    pub on_overdue: Bite,
}

/// A running supervisor. Dropping it does not stop the supervisor; [`Supervision::shut_down`] does.
pub struct Supervision {
    actor: ActorRef<Message>,
    meter: Meter,
    ended: JoinHandle<()>,
    report: Arc<OnceLock<Report>>,
    snapshot: watch::Receiver<Snapshot>,
    tasks: TaskTracker,
}

/// The supervisor ended without a report: its workers are cancelled, and the process should end.
#[derive(Debug, thiserror::Error)]
#[error("the supervisor failed: its workers were cancelled and its leases are left to expire")]
pub struct SupervisorFailed;

/// This instance at one moment, for people.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Its incarnation, once registered.
    pub incarnation: Option<Incarnation>,
    /// Its leases, by name.
    pub leases: Vec<Standing>,
    #[serde(skip)]
    trust: Option<Trust>,
    #[serde(skip)]
    clock: Clock,
}

/// One lease in this instance.
#[derive(Clone, Debug, Serialize)]
pub struct Standing {
    /// The lease.
    pub name: LeaseName,
    /// One of [`Slot::STATES`].
    pub state: &'static str,
    /// The epoch of the term that this instance has.
    pub epoch: Option<Epoch>,
    /// What its worker last failed of, here.
    pub last_failure: Option<String>,
    /// The name of the actor that runs it.
    pub actor: Option<String>,
}

impl Snapshot {
    /// Time to the trust deadline; zero = passed, or never begun.
    pub fn trust_remaining(&self) -> Duration {
        self.trust.as_ref().map_or(Duration::ZERO, |trust| trust.deadline().since(self.clock.now()))
    }

    /// Sets the gauges that only mean something at the moment of a scrape.
    pub fn observe(&self) {
        metrics::trust_remaining(self.trust_remaining());
    }
}

/// Starts a supervisor over `workers`, each under the lease of its name.
///
/// # Errors
/// If the actor or the watchdog's thread cannot be started.
pub async fn start(
    setup: Setup,
    store: Arc<dyn LeaseStore>,
    workers: Vec<Arc<dyn Worker>>,
) -> Result<Supervision, SpawnErr> {
    let (publish, snapshot) = watch::channel(Snapshot::default());
    let (report, tasks) = (Arc::new(OnceLock::new()), TaskTracker::new());
    let meter = Meter::new("supervisor");
    let name = format!("supervisor@{}", setup.process);
    let start = Start {
        setup,
        store,
        workers,
        publish,
        report: report.clone(),
        tasks: tasks.clone(),
        meter: meter.clone(),
    };
    let (actor, ended) = Actor::spawn(Some(name), Supervisor, start).await?;
    Ok(Supervision { actor, meter, ended, report, snapshot, tasks })
}

impl Supervision {
    /// Asks for the end: no new claims, every worker stopped and confirmed, every lease released and acknowledged.
    pub fn shut_down(&self) {
        self.meter.sending();
        // A supervisor that is gone already has ended in its own way: `ended` tells.
        let _ = self.actor.cast(Message::Event(Event::Shutdown));
    }

    /// Waits for the end, by [`Supervision::shut_down`] or by a failure. Cancel-safe.
    ///
    /// # Errors
    /// If the supervisor failed or was killed.
    pub async fn ended(&mut self) -> Result<Report, SupervisorFailed> {
        // Whatever the join says, only the report tells a clean end from a failure.
        let _ = (&mut self.ended).await;
        self.tasks.close();
        self.report.get().cloned().ok_or(SupervisorFailed)
    }

    /// This instance, updated at each change.
    pub fn snapshot(&self) -> watch::Receiver<Snapshot> {
        self.snapshot.clone()
    }

    /// The supervisor's actor name, unique in the process.
    pub fn actor_name(&self) -> Option<String> {
        self.actor.get_name()
    }
}

/// The supervisor's mailbox. Only the store's answers, workers' ends and timers come here: all bounded in number.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something that the instance decides on.
    Event(Event),
    /// A worker's body has really ended.
    Ended(TermId, End),
}

struct Supervisor;

struct Start {
    setup: Setup,
    store: Arc<dyn LeaseStore>,
    workers: Vec<Arc<dyn Worker>>,
    publish: watch::Sender<Snapshot>,
    report: Arc<OnceLock<Report>>,
    tasks: TaskTracker,
    meter: Meter,
}

struct State {
    setup: Setup,
    store: Arc<dyn LeaseStore>,
    workers: HashMap<LeaseName, Arc<dyn Worker>>,
    instance: Instance,
    trust: Trust,
    running: HashMap<LeaseName, Running>,
    last_failures: HashMap<LeaseName, String>,
    runs: u64,
    watchdog: Watchdog,
    timer: Option<(Moment, Timer)>,
    publish: watch::Sender<Snapshot>,
    report: Arc<OnceLock<Report>>,
    tasks: TaskTracker,
    meter: Meter,
}

type Timer = JoinHandle<Result<(), ractor::MessagingErr<Message>>>;

/// A worker's actor and what the supervisor knows of it.
struct Running {
    term: Term,
    actor: ActorRef<worker::Message>,
    shared: worker::Shared,
    meter: Meter,
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
        }
        Ok(())
    }

    /// A worker's actor is gone, however: once its body is really gone too, that is the acknowledgement.
    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Message>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let gone = match event {
            SupervisionEvent::ActorTerminated(cell, ..) | SupervisionEvent::ActorFailed(cell, _) => {
                cell.get_id()
            }
            _ => return Ok(()),
        };
        if let Some(running) = state.running.values().find(|running| running.actor.get_id() == gone) {
            let (term, shared) = (running.term.id().clone(), running.shared.clone());
            let meter = state.meter.clone();
            state.tasks.spawn(async move {
                let end = shared.finished().await;
                meter.sending();
                let _ = myself.cast(Message::Ended(term, end));
            });
        }
        Ok(())
    }
}

impl State {
    fn new(start: Start) -> Result<Self, std::io::Error> {
        let Start { setup, store, workers, publish, report, tasks, meter } = start;
        let slot = |worker: &Arc<dyn Worker>| Slot::new(worker.name(), worker.effects(), worker.intensity());
        let instance = Instance::new(setup.timing, workers.iter().map(slot).collect());
        let watchdog =
            Watchdog::start(setup.clock.clone(), setup.timing.stop_within, setup.on_overdue.clone())?;
        Ok(Self {
            trust: Trust::none(setup.clock.clone()),
            workers: workers.into_iter().map(|worker| (worker.name(), worker)).collect(),
            running: HashMap::new(),
            last_failures: HashMap::new(),
            runs: 0,
            timer: None,
            setup,
            store,
            instance,
            watchdog,
            publish,
            report,
            tasks,
            meter,
        })
    }

    /// Lets the instance decide on an event, and does what it says.
    async fn take(&mut self, myself: &ActorRef<Message>, event: Event) {
        let commands = self.instance.step(event, self.setup.clock.now(), rand::random());
        for command in commands {
            self.carry_out(myself, command).await;
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

    /// One timer for the earliest moment at which time alone changes something.
    fn set_timer(&mut self, myself: &ActorRef<Message>) {
        let Some(due) = self.instance.due() else { return };
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

    fn tell(&self) {
        self.instance.slots().for_each(metrics::state);
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

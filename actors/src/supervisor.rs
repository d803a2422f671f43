//! The actor with a slot per lease. It takes events from its mailbox, lets the pure `Instance` decide, and carries
//! the commands out. Its handlers never await the store: they start the work and take its answer as a message.

mod actor;
mod carry_out;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ractor::{Actor, ActorRef, RpcReplyPort, SpawnErr};
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use self::actor::{Start, Supervisor};
use crate::clock::Clock;
use crate::lease::instance::Event;
use crate::lease::timing::Timing;
use crate::lease::{Epoch, Incarnation, LeaseName, LeaseStore, ProcessId, TermId, Trust};
use crate::metrics::{self, Meter};
use crate::shutdown::Report;
use crate::watchdog::Bite;
use crate::worker::{End, Worker};

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

/// A running supervisor.
///
/// ```
/// use std::sync::Arc;
///
/// use leased_actors::clock::Clock;
/// use leased_actors::lease::ProcessId;
/// use leased_actors::lease::timing::Timing;
/// use leased_actors::memory::MemoryStore;
/// use leased_actors::supervisor::{self, Setup};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = Clock::boottime();
/// let setup = Setup {
///     process: ProcessId::new(),
///     label: "one".to_owned(),
///     host: "here".to_owned(),
///     admin_address: None,
///     timing: Timing::SQLITE,
///     clock: clock.clone(),
///     on_overdue: Arc::new(|term| panic!("{term} did not stop in time")),
/// };
/// let workers = Vec::new(); // Each an `Arc<dyn Worker>`.
/// let mut supervision = supervisor::start(setup, Arc::new(MemoryStore::new(clock)), workers).await?;
///
/// let mut shown = supervision.snapshot();
/// let registered = shown.wait_for(|now| now.incarnation.is_some()).await?.incarnation;
/// assert!(registered.is_some());
///
/// supervision.shut_down();
/// let report = supervision.ended().await?;
/// assert!(report.is_clean(), "every lease was released, and each release acknowledged");
/// # Ok(())
/// # }
/// ```
///
/// Dropping it does not stop the supervisor; [`Supervision::shut_down`] does.
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
    /// One of `Slot::STATES`.
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

    /// Tells whether the supervisor is at work; may outlive it.
    pub fn pulse(&self) -> Pulse {
        Pulse { actor: self.actor.clone(), meter: self.meter.clone() }
    }

    /// The supervisor's actor name, unique in the process.
    pub fn actor_name(&self) -> Option<String> {
        self.actor.get_name()
    }
}

/// Feels whether the supervisor takes messages from its mailbox: for whoever ends a process that hangs.
#[derive(Clone)]
pub struct Pulse {
    actor: ActorRef<Message>,
    meter: Meter,
}

impl Pulse {
    /// Whether the supervisor has answered within `within`. False also once it has ended. Cancel-safe.
    pub async fn beats(&self, within: Duration) -> bool {
        let (answer, answered) = ractor::concurrency::oneshot();
        self.meter.sending();
        self.actor.cast(Message::Pulse(answer.into())).is_ok()
            && matches!(tokio::time::timeout(within, answered).await, Ok(Ok(())))
    }
}

/// The supervisor's mailbox. Only the store's answers, workers' ends and timers come here: all bounded in number.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something that the instance decides on.
    Event(Event),
    /// A worker's body has really ended.
    Ended(TermId, End),
    /// Somebody wants to know whether messages are taken.
    Pulse(RpcReplyPort<()>),
}

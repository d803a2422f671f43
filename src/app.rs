//! The one place that knows everything: settings -> database -> workers -> supervisor, and back again at the end.

mod unleased;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leased_actors::clock::Clock;
use leased_actors::lease::{LeaseStore, ProcessId};
use leased_actors::memory::MemoryStore;
use leased_actors::shutdown::Report;
use leased_actors::supervisor::{self, Setup, Supervision, SupervisorFailed};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::health::HoldHealth;
use crate::machine;
use crate::metrics;
use crate::parent::Parent;
use crate::service;
use crate::settings::{DatabaseUrl, Listen, Settings};
use crate::signals::Signals;
use crate::status::{self, Live, Shown};
use crate::store::{Database, Fencing, MigrateError, OpenError, Options, SqlLeases};
use crate::workers::{self, SetUpError};

/// How long the end waits for requests under way at the status page. At double, an exit takes that much longer for a
/// reader that hangs.
const GOODBYE: Duration = Duration::from_millis(200);

/// What a command gives each operation on leases, for which an instance has a renewal's time. At half, a server under load
/// passes for one that is away; at double, one that is away is told of that much later.
const PATIENCE: Duration = Duration::from_secs(10);

/// How the process ends. The numbers are the interface to systemd, Kubernetes and the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Stopped, and every release was acknowledged.
    Stopped = 0,
    /// A machine, a database or a network failed: a restart may help.
    Failed = 1,
    /// Stopped, but a lease was left to expire.
    LeftToExpire = 75,
    /// The settings are wrong: a restart cannot help.
    Settings = 78,
    /// A second signal.
    Insisted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why the process could not begin. Its text says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    exit: Exit,
    text: String,
}

impl Refusal {
    /// A restart may help.
    pub(crate) fn failed(text: impl ToString) -> Self {
        Self { exit: Exit::Failed, text: text.to_string() }
    }

    /// A restart cannot help.
    pub(crate) fn settings(text: impl ToString) -> Self {
        Self { exit: Exit::Settings, text: text.to_string() }
    }

    /// The exit code that goes with it.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Url { .. }
            | OpenError::FileSystem { .. }
            | OpenError::NotADatabase(_)
            | OpenError::Pooler => Self::settings(error),
            OpenError::Connect(_) => Self::failed(error),
        }
    }
}

impl From<MigrateError> for Refusal {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Newer(_) => Self::settings(error),
            MigrateError::Database(_) => Self::failed(error),
        }
    }
}

impl From<SetUpError> for Refusal {
    fn from(error: SetUpError) -> Self {
        match error {
            SetUpError::Dns(_) => Self::failed(error),
            _ => Self::settings(error),
        }
    }
}

/// Opens the database of the settings.
///
/// # Errors
/// If the address cannot be read, or the database does not answer.
pub async fn open(settings: &Settings) -> Result<Database, Refusal> {
    open_with(settings, Duration::ZERO).await
}

/// The same, with no less than this for each operation on leases.
async fn open_with(settings: &Settings, patience: Duration) -> Result<Database, Refusal> {
    let timing = settings.leases.timing(settings.backend());
    let database = &settings.database;
    let options = Options {
        url: database.url.reveal(),
        direct_url: database.direct_url.as_ref().map(|url| url.reveal().to_owned()),
        max_connections: database.max_connections,
        renew_timeout: timing.renew_timeout.max(patience),
        stop_within: timing.stop_within,
        fencing: if settings.leases.enabled { Fencing::Leased } else { Fencing::Unleased },
    };
    Ok(Database::open(&options).await?)
}

/// The machine gives the process no threads, or no descriptors.
pub fn no_runtime(error: &std::io::Error) -> Refusal {
    Refusal::failed(format!("start: {error}; it needs a few threads and open files (ulimit -u, ulimit -n)"))
}

/// Opens a database that is there and has this version's schema: for commands that look or ask.
pub(crate) async fn open_ready(settings: &Settings) -> Result<Database, Refusal> {
    // To open a file that is not there would make one, where nobody wants it.
    if let DatabaseUrl::Sqlite(path) = &settings.database.url
        && matches!(path.try_exists(), Ok(false))
    {
        return Err(Refusal::failed(format!(
            "there is no database at {} (database.url): run this where the instances run, or say where it is with \
             ATCR__DATABASE__URL or --settings; an instance makes one, or `atcr-workers migrate`",
            path.display()
        )));
    }
    let database = open_with(settings, PATIENCE).await?;
    if database.pending_migrations().await?.is_empty() {
        return Ok(database);
    }
    Err(Refusal::failed(
        "the database lacks this version's schema: start an instance, or run `atcr-workers migrate`",
    ))
}

/// The life of the process: begin, work until told to stop, and end in order.
///
/// # Errors
/// If it could not begin.
pub async fn run(settings: Settings, exit_with_parent: bool) -> Result<Exit, Refusal> {
    let mut signals = Signals::install().map_err(|error| no_runtime(&error))?;
    if exit_with_parent {
        let parent =
            Parent::watch().map_err(|error| Refusal::failed(format!("--exit-with-parent: {error}")))?;
        signals = signals.or_death_of(parent);
    }
    if settings.network.allow_loopback {
        tracing::warn!(
            "network.allow_loopback is on: strangers' addresses may lead to this machine. For tests only"
        );
    }
    let begun = tokio::select! {
        begun = begin(&settings) => begun?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before anything had begun");
            return Ok(Exit::Stopped);
        }
    };
    Ok(work(begun, signals).await)
}

/// What runs between the beginning and the end.
struct Begun {
    supervision: Supervision,
    beside: JoinSet<()>,
    stop: CancellationToken,
}

async fn begin(settings: &Settings) -> Result<Begun, Refusal> {
    let recorder = metrics::install().map_err(Refusal::failed)?;
    let database = open(settings).await?;
    database.check_usable()?;
    let applied = database.migrate().await?;
    if !applied.is_empty() {
        tracing::info!(migrations = applied.join(", "), "database migrated");
    }
    machine::look(&database).await;
    let listener = listen(settings).await?;
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let workers = workers::leased(settings, &database)?;
    let health = workers::hold_health(settings, &database)?;
    let (clock, store) = leases(settings, &database).await?;
    let setup = Setup {
        process: ProcessId::new(),
        label: settings.instance.label.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        admin_address: address.map(|address| address.to_string()),
        timing: settings.leases.timing(settings.backend()),
        clock,
        on_overdue: Arc::new(end_at_once),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        label = setup.label,
        process = %setup.process,
        admin.address = setup.admin_address,
        leased = settings.leases.enabled,
        workers = workers.iter().map(|worker| worker.name().to_string()).collect::<Vec<_>>().join(","),
        "atcr-workers begins"
    );
    let supervision = supervisor::start(setup, store, workers).await.map_err(Refusal::failed)?;
    let (stop, mut beside) = (CancellationToken::new(), JoinSet::new());
    if let Some(listener) = listener {
        let holds = health.as_ref().map(HoldHealth::holds);
        let (label, user_agent) = (&settings.instance.label, &settings.network.user_agent);
        let (leases, token) = (SqlLeases::new(database.clone()), settings.admin.token.clone());
        let live = Live::new(database, supervision.snapshot(), label, user_agent, token.is_some());
        let live = live.map_err(Refusal::failed)?;
        beside.spawn(live.clone().run(stop.clone()));
        let (metrics, instance) = (recorder.clone(), supervision.snapshot());
        let shown = Shown { metrics, instance, holds, live, leases, token };
        let stop = stop.clone();
        beside.spawn(async move {
            if let Err(error) = status::serve(listener, shown, stop).await {
                tracing::error!(%error, "the status page failed; the workers go on");
            }
        });
    }
    if let Some(health) = health {
        beside.spawn(health.run(stop.clone()));
    }
    beside.spawn(metrics::fold(recorder, stop.clone()));
    beside.spawn(service::report(supervision.pulse(), supervision.snapshot(), stop.clone()));
    Ok(Begun { supervision, beside, stop })
}

async fn listen(settings: &Settings) -> Result<Option<TcpListener>, Refusal> {
    let listen = settings.admin.listen;
    let named = match listen {
        Listen::At(address) => address.to_string(),
        Listen::Auto => "auto: the ports 9464 to 9479 of 127.0.0.1".to_owned(),
        Listen::Off => "off".to_owned(),
    };
    status::bind(listen).await.map_err(|error| {
        Refusal::failed(format!(
            "admin.listen ({named}): {error}; free the port, choose another, or set it to \"\""
        ))
    })
}

async fn leases(settings: &Settings, database: &Database) -> Result<(Clock, Arc<dyn LeaseStore>), Refusal> {
    let clock = Clock::boottime();
    if settings.leases.enabled {
        return Ok((clock, Arc::new(SqlLeases::new(database.clone()))));
    }
    unleased::refuse_beside_another(database, &clock, settings.leases.timing(settings.backend()).ttl).await?;
    tracing::warn!("leases.enabled is off: no other instance may be started on this database");
    Ok((clock.clone(), Arc::new(MemoryStore::new(clock))))
}

/// Works until a signal or the supervisor's own end; then every worker stops, every lease is released, and each
/// acknowledgement is waited for.
async fn work(begun: Begun, mut signals: Signals) -> Exit {
    let Begun { mut supervision, mut beside, stop } = begun;
    let ended = tokio::select! {
        signal = signals.next() => {
            supervision.shut_down();
            service::stopping();
            tracing::info!(signal, "stopping: workers, then leases; a second signal ends at once");
            tokio::select! {
                ended = supervision.ended() => ended,
                signal = signals.next() => {
                    tracing::warn!(signal, "second signal: ending at once; leases are left to expire");
                    return Exit::Insisted;
                }
            }
        }
        ended = supervision.ended() => ended,
    };
    stop.cancel();
    // What a reader of the page is waiting for may end; what hangs is cut.
    let _ = timeout(GOODBYE, async { while beside.join_next().await.is_some() {} }).await;
    beside.shutdown().await;
    exit_of(&ended)
}

fn exit_of(ended: &Result<Report, SupervisorFailed>) -> Exit {
    match ended {
        Ok(report) if report.is_clean() => {
            tracing::info!(%report, "stopped");
            Exit::Stopped
        }
        Ok(report) => {
            tracing::error!(%report, "stopped, but a lease was left to expire");
            Exit::LeftToExpire
        }
        Err(failed) => {
            tracing::error!(%failed, "ending");
            Exit::Failed
        }
    }
}

/// Called on the watchdog's own thread, when the runtime may be stuck: nothing here waits for it.
pub fn end_at_once(term: &leased_actors::lease::TermId) {
    tracing::error!(%term, "the worker did not stop in time: ending the process");
    std::process::exit(Exit::Failed as i32);
}

//! One small process of the product's own parts: its settings, its database with leases, fence and beacons, and the
//! real supervisor, over workers that only record what they do. `contender --help` says how it is told what to do.

mod control;
mod recorded;
mod workers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use atcr_workers::app;
use atcr_workers::settings::{Settings, environment};
use atcr_workers::signals::Signals;
use atcr_workers::store::SqlLeases;
use atcr_workers::telemetry;
use clap::Parser;
use leased_actors::clock::Clock;
use leased_actors::lease::timing::Timing;
use leased_actors::lease::{LeaseName, ProcessId, TermId};
use leased_actors::supervisor::{self, Setup};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::history::{Event, Recorder, What};
use control::Control;
use recorded::Recorded;
use workers::Probe;

/// Contends for leases and records what happens, one JSON object per line.
///
/// Settings come from the environment, as the product's do. Lines on stdin: `deafen` (drop the store's news), `hear`,
/// `shift MILLISECONDS` (the clock that counts suspend jumps ahead), `spawn` (start short-lived children from now on).
#[derive(Parser)]
#[command(name = "contender")]
struct Arguments {
    /// Its workers, each named `fenced-…`, `external-…` or `idle-…` (fenced, and does nothing).
    workers: Vec<LeaseName>,
    /// So many idle workers more, `idle-1` to `idle-N`.
    #[arg(long, default_value_t = 0)]
    leases: u32,
    /// Append the history to this file, instead of to stdout. The log goes to stderr, as the product's does.
    #[arg(long)]
    history: Option<PathBuf>,
    /// Milliseconds between two acts, and between two commits, of a worker. 0: none, it only starts and stops.
    #[arg(long, default_value_t = 5)]
    pace: u64,
    /// End when the process that started this one does.
    #[arg(long)]
    with_parent: bool,
}

/// The life of a contender. Exit codes are the product's: 0, 1, 75, 78.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match begin(arguments) {
        // Not by a return: a thread that is stuck in the kernel must not hold the process.
        Ok(code) => std::process::exit(code),
        #[allow(clippy::print_stderr, reason = "a program's last word")]
        Err(error) => {
            eprintln!("contender: {error}");
            match error.downcast_ref::<app::Refusal>() {
                Some(refusal) => refusal.exit().into(),
                None => ExitCode::FAILURE,
            }
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn begin(arguments: Arguments) -> Result<i32, Failure> {
    if arguments.with_parent {
        set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    let settings = Settings::load(None, environment())?;
    telemetry::init(&settings.telemetry)?;
    let recorder = Recorder::open(arguments.history.as_deref())?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(run(arguments, settings, recorder))
}

async fn run(arguments: Arguments, settings: Settings, recorder: Recorder) -> Result<i32, Failure> {
    let mut signals = Signals::install()?;
    let (process, clock) = (ProcessId::new(), Clock::boottime_ahead());
    let timing = settings.leases.timing(settings.backend());
    let database = app::open(&settings).await?;
    database.migrate().await?;
    let me = process.to_string();
    recorder.write(&Event::now(&me, began(&settings, &timing)));

    let control = Control::listen(clock.clone(), recorder.clone(), me.clone());
    let store = Recorded::new(SqlLeases::new(database.clone()), recorder.clone(), me.clone(), control);
    let idle =
        (1..=arguments.leases).map(|n| format!("idle-{n}").parse()).collect::<Result<Vec<LeaseName>, _>>()?;
    let names = arguments.workers.into_iter().chain(idle);
    let probe = |name| Probe::new(name, database.clone(), recorder.clone(), &me, arguments.pace);
    let workers = names.map(|name| Ok(Arc::new(probe(name)?) as _)).collect::<Result<Vec<_>, String>>()?;
    let overdue = (recorder.clone(), me.clone());
    let setup = Setup {
        process,
        label: settings.instance.label.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        admin_address: None,
        timing,
        clock,
        on_overdue: Arc::new(move |term: &TermId| {
            let (recorder, me) = &overdue;
            recorder.write(&Event::now(me, What::Exit { code: 1 }).of(term.name.as_str(), term.epoch.0));
            std::process::exit(1)
        }),
    };
    let mut supervision = supervisor::start(setup, Arc::new(store), workers).await?;
    let report = tokio::select! {
        _ = signals.next() => {
            recorder.write(&Event::now(&me, What::Closing));
            supervision.shut_down();
            supervision.ended().await
        }
        report = supervision.ended() => report,
    };
    let code = match report {
        Ok(report) if report.is_clean() => app::Exit::Stopped,
        Ok(_) => app::Exit::LeftToExpire,
        Err(_) => app::Exit::Failed,
    };
    recorder.write(&Event::now(&me, What::Exit { code: code as i32 }));
    Ok(code as i32)
}

fn began(settings: &Settings, timing: &Timing) -> What {
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    What::Began {
        pid: std::process::id(),
        label: settings.instance.label.clone(),
        renew_every: nanos(timing.renew_every),
        trust_for: nanos(timing.trust_for),
        stop_within: nanos(timing.stop_within),
        grace: nanos(timing.grace),
        ttl: nanos(timing.ttl),
        poll_every: nanos(timing.poll_every),
    }
}

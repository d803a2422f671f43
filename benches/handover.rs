//! How long a lease takes from one process to the next, beside what the machine needs for the same at the very least.
//!
//! `cargo bench --bench handover [-- ROUNDS] [sqlite|postgres] [rounds|rare|many]`, all if none is named.
//!
//! `rounds`: 200 each with 2 and with 5 processes of the built worker, on a SQLite file and on a private PostgreSQL. Their stream is a closed port: a worker starts and tries again,
//! and "started" is what counts. From the signal to the holder until the line of its successor is read, in this process,
//! on CLOCK_MONOTONIC. Between the rounds, bare clients do the same by the least that can: see `floors`.
//! `rare`: what takes seconds by design. `many`: statements per second, and 500 leases over 10 instances.

#![allow(clippy::unwrap_used, reason = "a bench that fails should say where")]

#[path = "handover/contenders.rs"]
mod contenders;
#[path = "handover/floors.rs"]
mod floors;
#[path = "../tests/it/support/http.rs"]
#[allow(dead_code, reason = "the tests' own")]
mod http;
#[path = "handover/idle.rs"]
mod idle;
#[path = "handover/many.rs"]
mod many;
#[path = "handover/process.rs"]
mod process;
#[path = "handover/rare.rs"]
mod rare;
mod support;
#[path = "handover/workers.rs"]
mod workers;

use std::path::PathBuf;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use floors::Floors;
use support::postgres::Postgres;
use workers::Workers;

const ROUNDS: usize = 200;

/// Few, and as many as an operator may run.
const PROCESSES: [usize; 2] = [2, 5];

/// What the time may be of the floor.
const RATIO_MAX: f64 = 1.5;

const SIGNALS: [(&str, Signal); 2] = [("SIGTERM", Signal::TERM), ("SIGKILL", Signal::KILL)];

/// Where the leases are.
pub(crate) enum Place<'a> {
    Sqlite(TempDir),
    Postgres(&'a Postgres, String),
}

/// Milliseconds of one kind of hand-over, and of its floor, round by round.
#[derive(Default)]
struct Series {
    took: Vec<f64>,
    floor: Vec<f64>,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [process::CHILD, program, ref arguments @ ..] => return process::become_child(program, arguments),
        [floors::BARE, what, on] => return floors::client(what, on),
        _ => {}
    }
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let of =
        |all: &[&str], name: &str| words.contains(&name) || !all.iter().any(|other| words.contains(other));
    let place = |name: &str| of(&["sqlite", "postgres"], name);
    let part = |name: &str| of(&["rounds", "rare", "many"], name);
    let server = place("postgres").then(Postgres::private);
    let mut places = Vec::new();
    if place("sqlite") {
        places.push(Place::Sqlite(tempfile::tempdir().unwrap()));
    }
    places.extend(server.as_ref().map(Place::server));
    if part("rounds") {
        rounds_of(&places, rounds);
    }
    for place in &places {
        if part("rare") {
            rare::measure(&place.another());
        }
        if part("many") {
            many::statements(place);
            many::crash(place);
        }
    }
}

fn rounds_of(places: &[Place<'_>], rounds: usize) {
    println!("{rounds} rounds, milliseconds");
    println!("| | processes | signal | median | p99 | floor | its p99 | of the floor, may be {RATIO_MAX} |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut idle = Vec::new();
    for place in places {
        for count in PROCESSES {
            idle.extend(measure(&place.another(), count, rounds));
        }
    }
    println!();
    idle.iter().for_each(|line| println!("{line}"));
    println!();
}

/// Prints a row for each signal; returns what an idle one costs.
fn measure(place: &Place<'_>, count: usize, rounds: usize) -> Option<String> {
    let (mut workers, mut floors) = (Workers::start(&place.url(), count), place.floors());
    let idle = (count == PROCESSES[0]).then(|| idle::watch(place, workers.standby(), count));
    let mut series: [Series; SIGNALS.len()] = Default::default();
    for _ in 0..rounds {
        for ((_, signal), series) in SIGNALS.iter().zip(&mut series) {
            series.floor.push(floors.sample(*signal));
            series.took.push(workers.hand_over(*signal));
        }
    }
    for ((signal, _), series) in SIGNALS.iter().zip(series) {
        let (took, floor) = (percentiles(series.took), percentiles(series.floor));
        let ratio = took.0 / floor.0;
        println!(
            "| {} | {count} | {signal} | {:.2} | {:.2} | {:.2} | {:.2} | {ratio:.2} |",
            place.name(),
            took.0,
            took.1,
            floor.0,
            floor.1
        );
    }
    idle
}

/// Median and 99th percentile.
fn percentiles(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    (at(0.5), at(0.99))
}

impl<'a> Place<'a> {
    fn server(server: &'a Postgres) -> Self {
        let database = Runtime::new().unwrap().block_on(server.fresh_database());
        Place::Postgres(server, database)
    }

    /// A fresh database of the same kind.
    fn another(&self) -> Self {
        match self {
            Place::Sqlite(_) => Place::Sqlite(tempfile::tempdir().unwrap()),
            Place::Postgres(server, _) => Self::server(server),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Place::Sqlite(_) => "SQLite",
            Place::Postgres(..) => "PostgreSQL",
        }
    }

    fn url(&self) -> String {
        match self {
            Place::Sqlite(directory) => format!("sqlite://{}", directory.path().join("atcr.db").display()),
            Place::Postgres(_, url) => url.clone(),
        }
    }

    fn floors(&self) -> Floors {
        match self {
            Place::Sqlite(directory) => Floors::sqlite(directory.path()),
            Place::Postgres(_, url) => Floors::postgres(url),
        }
    }

    /// Has the server write down every statement, or no more; where. None: there is no server.
    fn log_statements(&self, on: bool) -> Option<PathBuf> {
        let Place::Postgres(server, _) = self else { return None };
        Runtime::new().unwrap().block_on(async {
            let set = format!("ALTER SYSTEM SET log_statement = '{}'", if on { "all" } else { "none" });
            server.execute(&set).await;
            server.execute("SELECT pg_reload_conf()").await;
        });
        Some(server.directory().join("server.log"))
    }
}

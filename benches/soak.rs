//! The whole `jetstream` worker under its supervisor for a long time: does its memory stay flat, and is everything that
//! was sent in the tables at the end?
//!
//! `cargo bench --bench soak [-- EVENTS] [--postgres [URL]]`: 1,000,000 events of the network's mix, 3 in 100 of them
//! the registry's, without any filter at the server, into a temporary SQLite file, or into the empty database at URL, or
//! a private PostgreSQL. The server and the generator are another process, this program with the argument `send`, so
//! that what is measured here is the worker, its leases and its metrics, and nothing else.
//!
//! Identities are looked up at a closed port: each look-up fails and is put off, as with a directory that is down.

#![allow(clippy::unwrap_used, reason = "a bench that fails should say where")]

#[path = "../tests/it/store/fixture.rs"]
#[allow(dead_code, reason = "the tests' own")]
mod fixture;
#[path = "soak/memory.rs"]
mod memory;
#[path = "soak/send.rs"]
mod send;
mod stopwatch;
mod support;
#[allow(dead_code, reason = "not every bench asks it everything")]
mod truth;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use atcr_workers::atproto::guard::{GuardSettings, Guarded};
use atcr_workers::atproto::identity::{Resolver, TxtLookup};
use atcr_workers::ingest::{Jetstream, connect};
use atcr_workers::metrics;
use leased_actors::clock::Clock;
use leased_actors::lease::ProcessId;
use leased_actors::lease::timing::Timing;
use leased_actors::supervisor::{self, Setup, Supervision};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use fixture::Fixture;
use send::{Sender, Sent};
use stopwatch::{Cost, Stopwatch};

/// Events between two rows of the table.
const SAMPLE_EVERY: u64 = 50_000;

/// Short against a sample, long against the cost of looking.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Without one new event for so long, the run has failed.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// No name server is asked for anything.
struct NoDns;

#[async_trait]
impl TxtLookup for NoDns {
    async fn txt(&self, _: &str) -> Result<Vec<String>, String> {
        Err("there is no dns here".to_owned())
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let count = arguments.iter().find_map(|word| word.parse().ok()).unwrap_or(1_000_000);
    if arguments.iter().any(|word| word == "send") {
        return send::send(count).await;
    }
    let fixture = open(&arguments).await;
    let recorder = metrics::install().unwrap();
    let stop = CancellationToken::new();
    let folding = tokio::spawn(metrics::fold(recorder.clone(), stop.clone()));
    let sender = Sender::spawn(count).await;
    println!("{count} events into {:?}; the server is another process", fixture.database.backend());

    let mut supervision = start(&fixture, &sender.url).await;
    let samples = watch(&fixture, &recorder, sender, count).await;
    supervision.shut_down();
    let report = supervision.ended().await.unwrap();
    stop.cancel();
    folding.await.unwrap();
    assert!(report.is_clean(), "{report}");
    memory::assert_flat(&samples);
}

async fn open(arguments: &[String]) -> Fixture {
    match arguments.iter().position(|word| word == "--postgres").map(|at| arguments.get(at + 1)) {
        None => Fixture::sqlite().await,
        Some(Some(url)) if url.contains("://") => {
            let fixture = Fixture::open(url.clone(), None).await;
            fixture.database.migrate().await.unwrap();
            fixture
        }
        Some(_) => Fixture::postgres().await,
    }
}

/// The worker as `workers` puts it together, but for what it asks the server for: everything.
async fn start(fixture: &Fixture, url: &str) -> Supervision {
    let guard = GuardSettings {
        allow_loopback: true,
        test_hosts: Some(([127, 0, 0, 1], 9).into()),
        user_agent: "soak".to_owned(),
        timeout: Duration::from_secs(10),
        per_host: 2,
    };
    let (guarded, operator) = (Guarded::new(guard.clone()).unwrap(), Guarded::trusting(guard).unwrap());
    let resolver = Resolver::new(guarded, operator, "http://127.0.0.1:9", Arc::new(NoDns));
    let follow = connect::Config {
        hosts: vec![connect::Host::parse(url).unwrap()],
        collections: Vec::new(),
        rewind: Duration::from_secs(10),
        idle_limit: Duration::from_secs(30),
        connect_timeout: connect::CONNECT_TIMEOUT,
        message_bytes_max: connect::MESSAGE_BYTES_MAX,
        backoff: connect::Backoff::default(),
        user_agent: "soak".to_owned(),
        compression: connect::Compression::default(),
    };
    let worker = Jetstream { database: fixture.database.clone(), follow, resolver: Arc::new(resolver) };
    let setup = Setup {
        process: ProcessId::new(),
        label: "soak".to_owned(),
        host: "here".to_owned(),
        admin_address: None,
        timing: Timing::SQLITE,
        clock: Clock::boottime(),
        on_overdue: Arc::new(|term| panic!("{term} did not stop in time")),
    };
    supervisor::start(setup, Arc::new(fixture.leases.clone()), vec![Arc::new(worker)]).await.unwrap()
}

/// Prints a line for every [`SAMPLE_EVERY`] events that the worker has taken, and returns resident memory at each, once
/// everything that was sent is in the tables.
async fn watch(fixture: &Fixture, recorder: &PrometheusHandle, sender: Sender, count: u64) -> Vec<f64> {
    println!(
        "{:>10} {:>10} {:>8} {:>14} {:>8} {:>8}",
        "events", "events/s", "CPU s", "events/CPU-s", "RSS MiB", "peak MiB"
    );
    let (whole, mut since, mut last) = (Stopwatch::start(), Stopwatch::start(), 0);
    let (mut samples, mut moved) = (Vec::new(), (0, Instant::now()));
    loop {
        let taken = taken(recorder);
        if taken >= last + SAMPLE_EVERY || taken >= count {
            let now = memory::now();
            row(taken, taken - last, since.stop(), &now);
            samples.push(now.resident);
            (since, last) = (Stopwatch::start(), taken);
        }
        if taken >= count {
            break;
        }
        if taken > moved.0 {
            moved = (taken, Instant::now());
        }
        assert!(moved.1.elapsed() < STUCK_AFTER, "stuck at {taken} of {count} events");
        sleep(LOOK_EVERY).await;
    }
    let key = connect::Host::parse(&sender.url).unwrap().key().clone();
    let sent = sender.sent().await;
    support::eventually::eventually("the position of the last event", STUCK_AFTER, async || {
        let positions = fixture.database.stream_cursors().await.unwrap();
        let last = [(key.to_string(), sent.last_us)];
        let found: Vec<_> = positions.into_iter().map(|at| (at.host, at.time_us)).collect();
        if found == last { Ok(()) } else { Err(found) }
    })
    .await;
    row(count, count, whole.stop(), &memory::now());
    assert_eq!(taken(recorder), count, "no event was taken twice");
    assert_all_there(fixture, &sent).await;
    samples
}

fn row(at: u64, events: u64, cost: Cost, memory: &memory::Memory) {
    let events = events as f64;
    println!(
        "{at:>10} {:>10.0} {:>8.2} {:>14.0} {:>8.1} {:>8.1}",
        events / cost.wall,
        cost.cpu,
        events / cost.cpu,
        memory.resident,
        memory.peak
    );
}

/// Events that the worker has made something of, dropping included.
fn taken(recorder: &PrometheusHandle) -> u64 {
    let counts = ["atcr_stream_events_total{", "atcr_stream_dropped_total{"];
    let text = recorder.render();
    let lines = text.lines().filter(|line| counts.iter().any(|name| line.starts_with(name)));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

async fn assert_all_there(fixture: &Fixture, sent: &Sent) {
    for (table, rows) in &sent.rows {
        let found = fixture.lines(&format!("SELECT CAST(COUNT(*) AS TEXT) AS line FROM {table}")).await;
        assert_eq!(found, [rows.to_string()], "{table}");
    }
    println!(
        "\nall there: {}",
        sent.rows.iter().map(|(t, n)| format!("{t} {n}")).collect::<Vec<_>>().join(", ")
    );
}

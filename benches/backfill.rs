//! The `backfill` worker over a whole network: how much of what the bare requests would take goes into keeping what they
//! bring, does its memory stay flat, and what does a second run cost in which nothing has changed?
//!
//! `cargo bench --bench backfill [-- REPOSITORIES] [postgres] [once]`: 10,000 repositories of 20 records on 64 PDSes, read
//! 8 at once and 2 per host, into a temporary SQLite file; with `postgres` also into a private PostgreSQL. Rounds take turns:
//! a bare client makes the very same requests with the same guarded client and throws the answers away, then the worker
//! runs. The network is another process, this program with the argument `network`. Exits with 1 if a table does not hold
//! exactly what the network has, if the two made different requests, if memory grew, or if an unchanged repository cost
//! more than one request.

#![allow(clippy::unwrap_used, reason = "a bench that fails should say where")]

#[path = "backfill/bare.rs"]
mod bare;
#[path = "../tests/it/store/fixture.rs"]
#[allow(dead_code, reason = "the tests' own")]
mod fixture;
#[path = "soak/memory.rs"]
#[allow(dead_code, reason = "this bench fails in its own way")]
mod memory;
#[path = "backfill/network.rs"]
mod network;
#[path = "backfill/product.rs"]
mod product;
mod stopwatch;
mod support;

use std::process::ExitCode;

use atcr_workers::metrics;
use atcr_workers::store::Backend;

use bare::Bare;
use network::Network;
use product::Product;
use stopwatch::{Cost, Stopwatch};

/// Each on fresh databases; the median of the ratios is shown.
const ROUNDS: usize = 3;

/// Records of each repository: a profile, 9 images and 10 tags.
const RECORDS: usize = 20;

/// Of the bare requests' speed.
const RATIO_MIN: f64 = 0.7;

/// What did not hold.
type Failures = Vec<String>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let repositories = arguments.iter().find_map(|word| word.parse().ok()).unwrap_or(10_000);
    let is = |wanted: &str| arguments.iter().any(|word| word == wanted);
    if is("network") {
        network::serve(repositories, RECORDS).await;
        return ExitCode::SUCCESS;
    }
    let backends =
        if is("postgres") { vec![Backend::Sqlite, Backend::Postgres] } else { vec![Backend::Sqlite] };
    let rounds = if is("once") { 1 } else { ROUNDS };
    let failures = measure(repositories, &backends, rounds).await;
    failures.iter().for_each(|failure| println!("FAILED: {failure}"));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn measure(repositories: usize, backends: &[Backend], rounds: usize) -> Failures {
    let recorder = metrics::install().unwrap();
    let mut network = Network::spawn(repositories).await;
    let records = network.setting.rows["records"];
    println!("{repositories} repositories, {records} records, 8 at once, 2 per host; {rounds} rounds\n");
    println!(
        "{:<12} {:>9} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8}",
        "", "requests", "seconds", "records/s", "CPU s", "of bare", "by CPU", "commits"
    );
    let mut failures = Failures::new();
    let mut ratios = vec![Vec::new(); backends.len()];
    for round in 0..rounds {
        let before = network.counts().await;
        let watch = Stopwatch::start();
        Bare::new(&network.setting).read_all().await;
        let bare = watch.stop();
        let asked = network.counts().await - before;
        row("bare", asked.all(), records, bare, bare, 0);
        for (backend, ratios) in backends.iter().zip(&mut ratios) {
            let name = format!("{backend:?}");
            let product = Product::new(*backend, &network.setting).await;
            let (before, commits) = (network.counts().await, product::transactions(&recorder));
            let (cost, samples) = product.run().await;
            let own = network.counts().await - before;
            row(&name, own.all(), records, cost, bare, product::transactions(&recorder) - commits);
            ratios.push(bare.wall / cost.wall);
            failures.extend(own.differences(&asked).map(|what| format!("{name}: {what}")));
            failures.extend(
                product
                    .wrong_tables(&network.setting)
                    .await
                    .into_iter()
                    .map(|what| format!("{name}: {what}")),
            );
            if round == 0 {
                failures.extend(flat(&name, &samples));
                failures.extend(run_again(&name, &product, &mut network, repositories + 1).await);
            }
        }
    }
    println!();
    for (backend, ratios) in backends.iter().zip(ratios) {
        let ratio = median(ratios);
        let verdict = if ratio >= RATIO_MIN { "reached" } else { "missed" };
        println!(
            "{backend:?}: {ratio:.2} of the bare requests' speed; {RATIO_MIN} is asked for SQLite: {verdict}"
        );
    }
    failures
}

/// The second run, and what it asked for each repository, relays' lists apart.
async fn run_again(name: &str, product: &Product, network: &mut Network, repositories: usize) -> Failures {
    let before = network.counts().await;
    let (cost, _) = product.run().await;
    let asked = network.counts().await - before;
    let each = (asked.all() - asked.relays) as f64 / repositories as f64;
    println!(
        "{name}, nothing changed: {each:.3} requests per repository, {:.0} repositories/s, {:.1} s",
        repositories as f64 / cost.wall,
        cost.wall
    );
    let mut failures = product.wrong_tables(&network.setting).await;
    if asked.latest as usize != repositories || asked.all() != asked.relays + asked.latest {
        failures.push(format!("{asked:?} for {repositories} unchanged repositories"));
    }
    failures
}

fn row(name: &str, requests: u64, records: usize, cost: Cost, bare: Cost, commits: u64) {
    println!(
        "{name:<12} {requests:>9} {:>9.1} {:>10.0} {:>8.1} {:>8.2} {:>8.2} {commits:>8}",
        cost.wall,
        records as f64 / cost.wall,
        cost.cpu,
        bare.wall / cost.wall,
        bare.cpu / cost.cpu,
    );
}

fn flat(name: &str, resident: &[f64]) -> Option<String> {
    let (ratio, highest) = memory::growth(resident);
    println!(
        "{name}: resident memory at most {highest:.1} MiB, {ratio:.3} x the median of {} samples after a fifth",
        resident.len()
    );
    (ratio > memory::PEAK_MAX).then(|| format!("{name}: memory grew: {ratio:.3} x the median"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

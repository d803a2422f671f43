//! What the index costs on top of its rows: frames through decode, project and `Tx::apply`, against bare inserts of the
//! very rows that came of it, into the same tables of another database, in the same run.
//!
//! `cargo bench --bench index [-- EVENTS] [sqlite|postgres]`: EVENTS (20,000) frames, every one a record that is new,
//! in batches of 500; without a name on both databases. PostgreSQL is a private one, as in the tests.
//! `cargo bench --bench index -- catch-up [EVENTS] [sqlite|postgres]`: `index/catch_up.rs`.

#![allow(clippy::unwrap_used, reason = "a bench that fails should say where")]

#[path = "index/bare.rs"]
mod bare;
#[path = "index/catch_up.rs"]
mod catch_up;
#[path = "../tests/it/store/fixture.rs"]
#[allow(dead_code, reason = "the tests' own")]
mod fixture;
mod stopwatch;
mod support;
mod truth;

use std::collections::HashSet;
use std::process::ExitCode;

use atcr_workers::atproto::Change;
use atcr_workers::ingest::decode::{Kind, Operation, decode};
use atcr_workers::ingest::known::Known;
use atcr_workers::ingest::project::{What, project};
use atcr_workers::ingest::wire::Wire;
use atcr_workers::store::{Backend, Tx};
use leased_actors::lease::Term;
use localnet::events::{Mix, lines};

use fixture::Fixture;
use stopwatch::{Cost, Stopwatch};

/// As many frames as the worker puts into one transaction.
const BATCH_FRAMES: usize = 500;

/// Fresh databases each; the median of the ratios is shown.
const ROUNDS: usize = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let is_catch_up = arguments.iter().any(|word| word == "catch-up");
    arguments.retain(|word| word != "catch-up");
    let count = arguments.iter().find_map(|word| word.parse().ok());
    let wanted = |name: &str| arguments.iter().all(|word| word == name || word.parse::<usize>().is_ok());
    for (word, name, backend) in
        [("sqlite", "SQLite", Backend::Sqlite), ("postgres", "PostgreSQL", Backend::Postgres)]
    {
        if !wanted(word) {
            continue;
        }
        if is_catch_up {
            if let Err(wrong) = catch_up::run(name, backend, count.unwrap_or(1_000_000)).await {
                println!("{wrong}");
                return ExitCode::FAILURE;
            }
        } else {
            run(name, backend, &frames(count.unwrap_or(20_000))).await;
        }
    }
    ExitCode::SUCCESS
}

/// The registry's part of the network's mix, each record once, and the hold that makes the counts count.
fn frames(count: usize) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    let mut is_new = |frame: &Vec<u8>| match decode(frame).unwrap().kind {
        Kind::Commit(commit) if commit.operation == Operation::Create => {
            let did = decode(frame).unwrap().did.into_owned();
            seen.insert((did, commit.collection.into_owned(), commit.rkey.into_owned()))
        }
        _ => false,
    };
    let mix = Mix { registry_share: 1.0, registry_authors: 1_000, ..Mix::default() };
    let rest = lines(mix).filter(|frame| is_new(frame)).take(count.saturating_sub(1));
    std::iter::once(truth::captain(mix.start_us)).chain(rest).collect()
}

/// What one round measured, each over all frames.
#[derive(Clone, Copy, Default)]
struct Round {
    projected: Cost,
    applied: Cost,
    repeated: Cost,
    bare: Cost,
}

async fn run(name: &str, backend: Backend, frames: &[Vec<u8>]) {
    println!("{} frames, {BATCH_FRAMES} to a batch, {ROUNDS} rounds", frames.len());
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(round(backend, frames).await);
    }
    let ratio = |of: fn(&Round) -> f64| median(rounds.iter().map(of).collect());
    let rate = |of: fn(&Round) -> f64| frames.len() as f64 / median(rounds.iter().map(of).collect());
    println!("\n{name:<34} {:>10} {:>8} {:>8}", "events/s", "of bare", "by CPU");
    let line = |what: &str, rate: f64, wall: f64, cpu: f64| {
        println!("{what:<34} {rate:>10.0} {wall:>8.2} {cpu:>8.2}");
    };
    line(
        "decode, project, apply, cursor",
        rate(|r| (r.projected + r.applied).wall),
        ratio(|r| r.bare.wall / (r.projected + r.applied).wall),
        ratio(|r| r.bare.cpu / (r.projected + r.applied).cpu),
    );
    line(
        "apply, cursor",
        rate(|r| r.applied.wall),
        ratio(|r| r.bare.wall / r.applied.wall),
        ratio(|r| r.bare.cpu / r.applied.cpu),
    );
    line(
        "apply, cursor, of what is known",
        rate(|r| r.repeated.wall),
        ratio(|r| r.bare.wall / r.repeated.wall),
        ratio(|r| r.bare.cpu / r.repeated.cpu),
    );
    line("bare inserts, cursor", rate(|r| r.bare.wall), 1.0, 1.0);
}

async fn fresh(backend: Backend) -> Fixture {
    match backend {
        Backend::Sqlite => Fixture::sqlite().await,
        Backend::Postgres => Fixture::postgres().await,
    }
}

async fn round(backend: Backend, frames: &[Vec<u8>]) -> Round {
    let (indexed, plain) = (fresh(backend).await, fresh(backend).await);
    let term = indexed.term().await;
    let mut round = Round::default();
    let mut marks = Vec::new();
    for batch in frames.chunks(BATCH_FRAMES) {
        let watch = Stopwatch::start();
        let changes = changes(batch);
        round.projected += watch.stop();
        assert_eq!(changes.len(), batch.len(), "every frame is a change");
        round.applied += apply(&indexed, &term, changes, Some(batch.len())).await;
        marks.push(bare::marks(&indexed).await);
    }
    for batch in frames.chunks(BATCH_FRAMES) {
        round.repeated += apply(&indexed, &term, changes(batch), Some(0)).await;
    }
    round.bare = bare::insert(&plain, bare::batches(&indexed, &marks).await).await;
    assert_eq!(bare::difference(&indexed, &plain).await, None, "both databases hold the same rows");
    round
}

fn changes(frames: &[Vec<u8>]) -> Vec<Change> {
    let known = Known::default();
    let change = |frame: &Vec<u8>| match project(Wire::V1, frame, &known, i64::MAX).what {
        What::Change(change, None) => Some(*change),
        _ => None,
    };
    frames.iter().filter_map(change).collect()
}

/// From the first statement to the end of the commit. What comes before is left out: on SQLite a writer waits for its
/// turn, so that others get theirs, and that is no work.
async fn apply(fixture: &Fixture, term: &Term, changes: Vec<Change>, expected: Option<usize>) -> Cost {
    let write = async move |tx: &mut Tx| {
        let watch = Stopwatch::start();
        let applied = tx.apply(&changes).await?;
        tx.save_cursor("v1", "bench.test:443", i64::try_from(changes.len()).unwrap()).await?;
        Ok((watch, applied))
    };
    let (watch, applied) = fixture.database.fenced(term, write).await.unwrap();
    let cost = watch.stop();
    if let Some(expected) = expected {
        assert_eq!(applied.changed.values().sum::<usize>(), expected);
    }
    cost
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

//! A catch-up: events of the whole network, one in twenty of them ours, through glance, decode, project and `Tx::apply`,
//! against bare inserts of the rows that are there at the end, in as many transactions.
//!
//! The bare rows come once, in the batch that wrote them last, and none comes that was deleted on the way. Table by table they
//! come, too, which no program that follows a stream can do: shown beside it. Which rows there must be is told from the
//! lines alone (`truth.rs`).

use atcr_workers::ingest::known::Known;
use atcr_workers::ingest::project::{What, project};
use atcr_workers::ingest::wire::Wire;
use atcr_workers::store::Backend;
use localnet::events::{Mix, lines};

use crate::fixture::Fixture;
use crate::stopwatch::{Cost, Stopwatch};
use crate::truth::{Truth, captain};
use crate::{BATCH_FRAMES, ROUNDS, apply, bare, fresh, median};

/// Of so many events one is ours.
const ONE_OURS_IN: usize = 20;

/// So many that most of what comes is new, as in a catch-up; about one event in six is of a record that was there.
const AUTHORS: usize = 2_000;

#[derive(Clone, Copy, Default)]
struct Round {
    projected: Cost,
    applied: Cost,
    /// Pauses that the store leaves for others, and the fence's check, included.
    whole: Cost,
    bare: Cost,
    sorted: Cost,
}

/// Err: what is not in the tables as it should be.
pub(crate) async fn run(name: &str, backend: Backend, events: usize) -> Result<(), String> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(round(backend, events).await?);
    }
    let ours = events / ONE_OURS_IN;
    println!(
        "\n{name}: {events} events, {ours} of them ours, {BATCH_FRAMES} of ours to a batch, {ROUNDS} rounds"
    );
    println!("{:<34} {:>10} {:>8} {:>16}", "", "events/s", "of bare", "(rounds)");
    let row = |what: &str, of: fn(&Round) -> f64| {
        let ratios: Vec<f64> = rounds.iter().map(|r| r.bare.wall / of(r)).collect();
        let (rate, ratio) = (events as f64 / median(rounds.iter().map(of).collect()), median(ratios.clone()));
        let all: Vec<_> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        println!("{what:<34} {rate:>10.0} {ratio:>8.2} {:>16}", all.join(" "));
    };
    row("all of it, pauses for others too", |r| r.whole.wall);
    row("project, apply, cursor", |r| (r.projected + r.applied).wall);
    row("apply, cursor", |r| r.applied.wall);
    row("bare inserts, cursor", |r| r.bare.wall);
    row("the same, table by table", |r| r.sorted.wall);
    Ok(())
}

async fn round(backend: Backend, events: usize) -> Result<Round, String> {
    let (indexed, plain, sorted) = (fresh(backend).await, fresh(backend).await, fresh(backend).await);
    let (term, known) = (indexed.term().await, Known::default());
    let (mut round, mut truth) = (Round::default(), Truth::default());
    let (mut frames, mut left) = (frames(), events);
    let (mut changes, mut marks) = (Vec::new(), Vec::new());
    while left > 0 {
        let some: Vec<Vec<u8>> = frames.by_ref().take(left.min(BATCH_FRAMES * ONE_OURS_IN)).collect();
        left -= some.len();
        some.iter().for_each(|frame| truth.note(frame));
        let whole = Stopwatch::start();
        let watch = Stopwatch::start();
        for frame in &some {
            match project(Wire::V1, frame, &known, i64::MAX).what {
                What::Change(change, None) => changes.push(*change),
                What::Dropped(_) => {}
                other => return Err(format!("an event says {other:?}")),
            }
        }
        round.projected += watch.stop();
        round.applied += apply(&indexed, &term, std::mem::take(&mut changes), None).await;
        round.whole += whole.stop();
        marks.push(bare::marks(&indexed).await);
    }
    is_right(&indexed, &truth).await?;
    round.bare = bare::insert(&plain, bare::batches(&indexed, &marks).await).await;
    round.sorted = bare::insert(&sorted, bare::sorted_batches(&indexed, marks.len()).await).await;
    for other in [&plain, &sorted] {
        if let Some(table) = bare::difference(&indexed, other).await {
            return Err(format!("{table}: the bare inserts made other rows"));
        }
    }
    Ok(round)
}

/// One in [`ONE_OURS_IN`] is ours, the hold's captain first. The others are of strangers.
fn frames() -> impl Iterator<Item = Vec<u8>> {
    let mix = Mix { registry_share: 1.0, registry_authors: AUTHORS, ..Mix::default() };
    let mut ours = std::iter::once(captain(mix.start_us)).chain(lines(mix));
    let mut others = lines(Mix { seed: 2, registry_share: 0.0, ..mix });
    (0..).map(move |n| if n % ONE_OURS_IN == 0 { ours.next() } else { others.next() }.expect("no end"))
}

async fn is_right(fixture: &Fixture, truth: &Truth) -> Result<(), String> {
    for (table, expected) in truth.rows() {
        let found = fixture.lines(&format!("SELECT CAST(COUNT(*) AS TEXT) AS line FROM {table}")).await;
        if found != [expected.to_string()] {
            return Err(format!("{table}: {found:?} rows, expected {expected}"));
        }
    }
    let key = "did || ' ' || collection || ' ' || rkey || ' ' || state";
    let mut found = fixture.lines(&format!("SELECT {key} AS line FROM records")).await;
    found.sort();
    if found == truth.records() { Ok(()) } else { Err("records: not those that were sent".to_owned()) }
}

//! The property that all depends on: whatever way the histories of records arrive, the rows are the same.

use atcr_workers::atproto::{Change, Collection, Record, State};
use atcr_workers::store::{Tx, WriteError};
use leased_actors::lease::Term;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

use super::fixture::Fixture;
use super::samples::*;

/// What a record's history says at one revision: 0 is absent, 1 unreadable, others are versions.
type Step = u8;

/// A delivery: each a batch of indices into the changes, and whether its transaction fails at its end.
type Batch = (Vec<prop::sample::Index>, bool);

#[derive(Clone, Debug)]
struct Scenario {
    /// A history for each of the records of [`record`].
    histories: Vec<Vec<Step>>,
    batches: Vec<Batch>,
    /// From where everything is sent once more, in order, as after a restart.
    replay_from: prop::sample::Index,
}

const RECORDS: usize = 12;

/// The record at each address, in a world whose DIDs start with `world`: author, rkey, collection and, at a version, record.
fn record(world: &str, address: usize, version: i64) -> (String, &'static str, Collection, Record) {
    let (user, other) = (format!("{world}user"), format!("{world}other"));
    let (a, b) = (format!("{world}hold-a"), format!("{world}hold-b"));
    let hold = if version % 2 == 0 { &a } else { &b };
    let repository = if version % 3 == 0 { "app" } else { "tool" };
    match address {
        0 => (user, "m1", Collection::Manifest, manifest(repository, Some(hold), version)),
        1 => (user, "m2", Collection::Manifest, manifest("app", Some(hold), version + 1)),
        2 => (user, "t", Collection::Tag, tag(repository, "latest", version)),
        3 => (other, "star", Collection::Star, star(&user, repository)),
        4 => (user, "app", Collection::Page, page("app", version)),
        5 => (user, "self", Collection::Profile, profile(Some(hold), version)),
        6 => (a, "self", Collection::Captain, captain(&user)),
        7 => (b, "self", Collection::Captain, captain(&other)),
        8 => (a.clone(), "crew", Collection::Crew, crew(&other, version)),
        9 => (a.clone(), "s", Collection::Stats, stats(&user, repository, version, 1)),
        10 => (b.clone(), "s", Collection::Stats, stats(&user, "app", 1, version)),
        _ => (b.clone(), "scan", Collection::Scan, scan(&user, repository, version)),
    }
}

fn changes(world: &str, histories: &[Vec<Step>]) -> Vec<Change> {
    let mut changes = Vec::new();
    let longest = histories.iter().map(Vec::len).max().unwrap_or(0);
    for n in 0..longest {
        for (address, history) in histories.iter().enumerate() {
            let Some(step) = history.get(n) else { continue };
            let (author, rkey, collection, record) = record(world, address, i64::from(*step));
            let state = match step {
                0 => State::Absent,
                1 => State::Unreadable,
                _ => State::Present(Box::new(record)),
            };
            changes.push(change(&author, rkey, u32::try_from(n).unwrap() + 1, collection, state));
        }
    }
    changes
}

/// Every row that a reader could see, without the times of writing.
async fn rows(fixture: &Fixture, world: &str) -> Vec<String> {
    let text = |column: &str| format!("COALESCE(CAST({column} AS TEXT), '-')");
    let mut rows = Vec::new();
    for (table, key, columns) in [
        ("users", "did", "did handle active"),
        ("records", "did", "did collection rkey rev cid state"),
        ("manifests", "did", "did rkey repository digest hold_did created_at config_digest subject_digest"),
        ("layers", "did", "did rkey layer_index digest size media_type"),
        ("manifest_references", "did", "did rkey reference_index digest os os_version is_attestation"),
        ("manifest_annotations", "did", "did rkey key value"),
        ("tags", "did", "did rkey repository tag digest created_at"),
        ("stars", "did", "did rkey owner_did repository created_at"),
        ("repo_pages", "did", "did rkey repository description updated_at"),
        ("profiles", "did", "did rkey default_hold_did auto_remove_untagged updated_at"),
        ("captains", "hold_did", "hold_did owner_did public provider"),
        ("crew", "hold_did", "hold_did rkey member_did permissions added_at"),
        ("hold_repository_stats", "hold_did", "hold_did rkey owner_did repository pull_count push_count"),
        ("repository_stats", "did", "did repository pull_count push_count last_pull last_push updated_at"),
        ("scans", "hold_did", "hold_did rkey manifest_digest repository critical total scanned_at"),
    ] {
        let line = columns.split(' ').map(text).collect::<Vec<_>>().join(" || ' ' || ");
        let query = format!("SELECT '{table} ' || {line} AS line FROM {table} WHERE {key} LIKE '{world}%'");
        rows.extend(fixture.lines(&query).await.into_iter().map(|row| row.replace(world, "")));
    }
    rows.sort();
    rows
}

/// Applies the changes, and lets the transaction fail after that if asked to.
async fn deliver(fixture: &Fixture, term: &Term, changes: Vec<Change>, fails: bool) {
    let work = async move |tx: &mut Tx| {
        tx.apply(&changes).await?;
        if fails { Err(WriteError::Database("cut".into())) } else { Ok(()) }
    };
    assert_eq!(fixture.database.fenced(term, work).await.is_err(), fails);
}

async fn both_ways(fixture: &Fixture, term: &Term, round: u32, scenario: &Scenario) -> [Vec<String>; 2] {
    let (straight, wild) = (format!("did:plc:s{round:04}-"), format!("did:plc:w{round:04}-"));
    for change in changes(&straight, &scenario.histories) {
        deliver(fixture, term, vec![change], false).await;
    }
    let all = changes(&wild, &scenario.histories);
    for (indices, fails) in &scenario.batches {
        let batch = indices.iter().map(|index| index.get(&all).clone()).collect();
        deliver(fixture, term, batch, *fails).await;
    }
    // The replay reaches back to the beginning in the end: nothing that was lost stays lost.
    let (before, after) = all.split_at(scenario.replay_from.index(all.len()));
    deliver(fixture, term, after.to_vec(), false).await;
    deliver(fixture, term, before.to_vec(), false).await;
    [rows(fixture, &straight).await, rows(fixture, &wild).await]
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let histories = prop::collection::vec(prop::collection::vec(0_u8..8, 1..4), RECORDS);
    let batch = (prop::collection::vec(any::<prop::sample::Index>(), 1..12), prop::bool::weighted(0.2));
    (histories, prop::collection::vec(batch, 0..6), any::<prop::sample::Index>())
        .prop_map(|(histories, batches, replay_from)| Scenario { histories, batches, replay_from })
}

fn every_way_of_arrival_ends_in_the_same_rows(fixture: impl Future<Output = Fixture>, cases: u32) {
    let runtime = Runtime::new().unwrap();
    let (fixture, round) = (runtime.block_on(fixture), std::cell::Cell::new(0));
    let term = runtime.block_on(fixture.term());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let outcome = TestRunner::new(config).run(&scenarios(), |scenario| {
        round.set(round.get() + 1);
        let [straight, wild] = runtime.block_on(both_ways(&fixture, &term, round.get(), &scenario));
        prop_assert!(!straight.is_empty());
        prop_assert_eq!(straight, wild);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_way_of_arrival_ends_in_the_same_rows_on_sqlite() {
    every_way_of_arrival_ends_in_the_same_rows(Fixture::sqlite(), 30);
}

#[test]
fn every_way_of_arrival_ends_in_the_same_rows_on_postgres() {
    every_way_of_arrival_ends_in_the_same_rows(Fixture::postgres(), 8);
}

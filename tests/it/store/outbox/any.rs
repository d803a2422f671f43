//! However a stream is cut into batches, repeated and rolled back: each event is told once, as a plain reading of the
//! events in their order says.

use std::collections::{BTreeMap, BTreeSet};

use atcr_workers::atproto::{Change, Collection, State};
use atcr_workers::outbox::Trigger;
use atcr_workers::store::{Tx, WriteError};
use leased_actors::lease::Term;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Fixture, add};
use crate::store::samples::*;

/// What happens; numbers are of manifests, tags and counts.
#[derive(Clone, Copy, Debug)]
enum Event {
    Push(u8),
    Tag(u8, u8),
    Untag(u8),
    Scan(u8, u8),
    Unscan(u8),
}

/// A transaction: from how far back it repeats, how much new it brings, and whether it fails at the end.
type Batch = (usize, usize, bool);

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (0_u8..3).prop_map(Event::Push),
        3 => (0_u8..2, 0_u8..3).prop_map(|(tag, of)| Event::Tag(tag, of)),
        1 => (0_u8..2).prop_map(Event::Untag),
        3 => (0_u8..2, 0_u8..3).prop_map(|(of, counts)| Event::Scan(of, counts)),
        1 => (0_u8..2).prop_map(Event::Unscan),
    ];
    prop::collection::vec(event, 1..25)
}

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    prop::collection::vec((0_usize..6, 1_usize..8, prop::bool::weighted(0.2)), 1..12)
}

/// What repositories say at the event number `at`, of a world of its own.
fn said(world: &str, at: usize, event: Event) -> Change {
    let (user, hold) = (format!("did:plc:{world}user"), format!("did:plc:{world}hold"));
    let n = u32::try_from(at).unwrap() + 10;
    match event {
        Event::Push(m) => present(&user, &format!("m{m}"), n, manifest("app", Some(&hold), m.into())),
        Event::Tag(t, m) => present(&user, &format!("t{t}"), n, tag("app", &format!("v{t}"), m.into())),
        Event::Untag(t) => change(&user, &format!("t{t}"), n, Collection::Tag, State::Absent),
        Event::Scan(m, counts) => present(&hold, &scan_key(m), n, scan_of(&user, m, counts, n)),
        Event::Unscan(m) => change(&hold, &scan_key(m), n, Collection::Scan, State::Absent),
    }
}

fn scan_key(m: u8) -> String {
    format!("{:064x}", 1_000 + u32::from(m))
}

fn scan_of(user: &str, m: u8, counts: u8, n: u32) -> atcr_workers::atproto::Record {
    use atcr_workers::atproto::{Micros, Record, records::Scan};
    let Record::Scan(scan) = scan(user, "app", 1_000 + i64::from(m)) else { panic!("a scan is a scan") };
    Record::Scan(Scan { high: counts.into(), scanned_at: Micros(n.into()), ..scan })
}

/// Told by a plain reading: each as trigger, manifest and tag.
fn wanted(events: &[Event]) -> Vec<String> {
    let (mut told, mut waiting) = (Vec::new(), BTreeMap::<u8, Vec<usize>>::new());
    let (mut pushed, mut tags, mut scans) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    for event in events {
        match *event {
            Event::Push(m) => {
                pushed.insert(m);
                waiting.entry(m).or_default().push(told.len());
                told.push(format!("push {m} "));
            }
            Event::Tag(t, m) => {
                let moved = tags.insert(t, m) != Some(m);
                match waiting.get_mut(&m).and_then(Vec::pop) {
                    Some(push) => told[push] = format!("push {m} v{t}"),
                    None if moved && pushed.contains(&m) => told.push(format!("push {m} v{t}")),
                    None => {}
                }
            }
            Event::Untag(t) => {
                tags.remove(&t);
            }
            Event::Scan(m, counts) => {
                let before = scans.insert(m, counts);
                // Before its manifest, the hold does not host the repository.
                if pushed.is_empty() {
                    continue;
                }
                told.push(format!("scan:all {m} "));
                match before {
                    None => told.push(format!("scan:first {m} ")),
                    Some(before) if before != counts => told.push(format!("scan:changed {m} ")),
                    Some(_) => {}
                }
            }
            Event::Unscan(m) => {
                scans.remove(&m);
            }
        }
    }
    told.sort();
    told
}

async fn deliver(fixture: &Fixture, term: &Term, changes: Vec<Change>, fails: bool) {
    let work = async move |tx: &mut Tx| {
        tx.apply(&changes).await?;
        if fails { Err(WriteError::Database("cut".into())) } else { Ok(()) }
    };
    let outcome = fixture.database.fenced(term, work).await;
    assert_eq!(outcome.is_err(), fails, "{outcome:?}");
}

async fn told(fixture: &Fixture, world: &str) -> Vec<String> {
    let all = format!(
        "SELECT d.trigger || ' ' || SUBSTR(d.digest, 68, 4) || ' ' || d.tag AS line FROM webhook_deliveries d
         JOIN webhooks w ON w.id = d.webhook_id WHERE w.user_did = 'did:plc:{world}user'"
    );
    let number = |line: &String| {
        let mut words = line.splitn(3, ' ');
        let [trigger, digest, tag] = std::array::from_fn(|_| words.next().unwrap());
        format!("{trigger} {} {tag}", i64::from_str_radix(digest, 16).unwrap() - 1_000)
    };
    let mut told: Vec<_> = fixture.lines(&all).await.iter().map(number).collect();
    told.sort();
    told
}

async fn each_event_is_told_once(
    fixture: &Fixture,
    term: &Term,
    world: &str,
    events: &[Event],
    batches: &[Batch],
) {
    let (user, hold) = (format!("did:plc:{world}user"), format!("did:plc:{world}hold"));
    let known = [present(&user, "self", 1, profile(None, 1)), present(&hold, "self", 1, captain(&user))];
    fixture.apply(term, &known).await;
    add(fixture, &user, &Trigger::SETTABLE).await;
    // The first one is there from the beginning, so that scans count from then on however the rest is cut.
    let events: Vec<Event> = [Event::Push(0)].into_iter().chain(events.iter().copied()).collect();
    let changes: Vec<Change> = events.iter().enumerate().map(|(at, event)| said(world, at, *event)).collect();
    let mut at = 0;
    while at < changes.len() {
        for (back, more, fails) in batches {
            let to = (at + more).min(changes.len());
            deliver(fixture, term, changes[at.saturating_sub(*back)..to].to_vec(), *fails).await;
            if !fails {
                at = to;
            }
        }
        let to = (at + 1).min(changes.len());
        deliver(fixture, term, changes[..to].to_vec(), false).await;
        at = to;
    }
    assert_eq!(told(fixture, world).await, wanted(&events), "{events:?} in {batches:?}");
}

fn any_way_of_arrival_tells_each_event_once(
    runtime: &tokio::runtime::Runtime,
    fixture: &Fixture,
    cases: u32,
) {
    let term = runtime.block_on(fixture.term());
    let round = std::cell::Cell::new(0);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
    let outcome = TestRunner::new(config).run(&(events(), batches()), |(events, batches)| {
        round.set(round.get() + 1);
        let world = format!("w{:05}x", round.get());
        let run = each_event_is_told_once(fixture, &term, &world, &events, &batches);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(run)));
        prop_assert!(caught.is_ok(), "see above");
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn any_way_of_arrival_tells_each_event_once_on_sqlite() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = runtime.block_on(Fixture::sqlite());
    any_way_of_arrival_tells_each_event_once(&runtime, &fixture, 24);
}

#[test]
fn any_way_of_arrival_tells_each_event_once_on_postgres() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = runtime.block_on(Fixture::postgres());
    any_way_of_arrival_tells_each_event_once(&runtime, &fixture, 12);
}

//! Whatever way labels arrive, what is kept is what the labeler said last: any order, repetition and loss on the way, by the
//! stream, by the list, and after the sequence began anew.

use std::collections::BTreeMap;

use atcr_workers::{
    atproto::{Did, Micros},
    store::{
        Tx,
        labels::{About, LabelRow},
    },
};
use leased_actors::lease::Term;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::store::fixture::Fixture;

const SUBJECTS: usize = 4;

/// A label: whose subject, its time, whether it takes back, whether its signature is good.
#[derive(Clone, Debug)]
struct Said {
    subject: usize,
    cts: i64,
    neg: bool,
    verified: bool,
}

fn said() -> impl Strategy<Value = Said> {
    (0..SUBJECTS, 1..6_i64, any::<bool>(), proptest::bool::weighted(0.8))
        .prop_map(|(subject, cts, neg, verified)| Said { subject, cts, neg, verified })
}

fn row(said: &Said, seq: Option<i64>) -> LabelRow {
    let uri = format!("did:plc:user{}", said.subject);
    LabelRow {
        about: Some(About::Account(Did::parse(&uri).unwrap())),
        uri,
        val: "!takedown".into(),
        cid: None,
        neg: said.neg,
        cts: Micros(said.cts),
        exp: None,
        seq,
        verified: said.verified,
    }
}

/// Of each subject the last good word: the greatest time, and of one time the later.
fn fold(history: &[Said]) -> Vec<String> {
    let mut last: BTreeMap<usize, (i64, bool)> = BTreeMap::new();
    for said in history.iter().filter(|said| said.verified) {
        let entry = last.entry(said.subject).or_insert((said.cts, said.neg));
        if said.cts >= entry.0 {
            *entry = (said.cts, said.neg);
        }
    }
    last.into_iter()
        .filter(|(_, (_, neg))| !neg)
        .map(|(subject, _)| format!("did:plc:user{subject}"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn any_way_to_hear_it_ends_in_what_was_said_last_on_sqlite() {
    any_way_to_hear_it_ends_in_what_was_said_last(Fixture::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_way_to_hear_it_ends_in_what_was_said_last_on_postgres() {
    any_way_to_hear_it_ends_in_what_was_said_last(Fixture::postgres().await).await;
}

async fn any_way_to_hear_it_ends_in_what_was_said_last(fixture: Fixture) {
    let term = fixture.term().await;
    let scenario = (
        proptest::collection::vec(said(), 1..12),
        proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
    );
    let mut runner = TestRunner::new(Config { cases: 30, failure_persistence: None, ..Config::default() });
    let handle = tokio::runtime::Handle::current();
    let (fixture, term) = (&fixture, &term);
    let outcome = tokio::task::block_in_place(|| {
        runner.run(&scenario, |(history, detours)| {
            let (hidden, expected) = handle.block_on(heard(fixture, term, &history, &detours));
            prop_assert_eq!(hidden, expected);
            Ok(())
        })
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Labels come in any order and more than once, some from the list, and in the end all once more, in their order: in an era of
/// its own, as after a sequence that began anew, if there were detours.
async fn heard(
    fixture: &Fixture,
    term: &Term,
    history: &[Said],
    detours: &[proptest::sample::Index],
) -> (Vec<String>, Vec<String>) {
    fixture.execute("DELETE FROM labels").await;
    let src = Did::parse("did:plc:labeler").unwrap();
    let of = src.clone();
    let follow = async move |tx: &mut Tx| tx.follow_labeler(&of, true, Some("key")).await;
    fixture.database.fenced(term, follow).await.unwrap();
    let mut steps: Vec<(LabelRow, i64)> = Vec::new();
    for (n, detour) in detours.iter().enumerate() {
        let at = detour.index(history.len());
        let seq = if n % 3 == 0 { None } else { Some(at as i64 + 1) };
        steps.push((row(&history[at], seq), 0));
    }
    steps.extend(history.iter().enumerate().map(|(at, said)| (row(said, Some(at as i64 + 1)), 1)));
    for (row, era) in steps {
        let of = src.clone();
        let store =
            async move |tx: &mut Tx| tx.store_labels(&of, era, true, std::slice::from_ref(&row)).await;
        fixture.database.fenced(term, store).await.unwrap();
    }
    let hidden = fixture.lines("SELECT DISTINCT uri AS line FROM taken_down ORDER BY 1").await;
    (hidden, fold(history))
}

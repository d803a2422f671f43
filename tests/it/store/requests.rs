//! What is asked for again, and positions that are numbers.

use atcr_workers::store::{BackfillRequest, StreamCursor, Tx, WriteError};
use leased_actors::lease::Term;

use super::fixture::Fixture;
use super::on_both;
use super::samples::did;

on_both! {
    a_repository_is_asked_for_once_however_often_and_every_one_by_one_wish
    a_wish_that_is_repeated_while_it_is_fulfilled_stays
    a_number_alone_decides_where_there_is_one
    a_forgotten_number_leaves_its_time_and_any_number_may_follow
}

const USER: &str = "did:plc:user";

async fn ask(fixture: &Fixture, term: &Term, dids: &'static [Option<&str>], reason: &'static str) {
    let work = async move |tx: &mut Tx| {
        for of in dids {
            tx.ask_backfill(of.map(did).as_ref(), reason).await?;
        }
        Ok::<_, WriteError>(())
    };
    fixture.database.fenced(term, work).await.unwrap();
}

async fn requests(fixture: &Fixture) -> Vec<BackfillRequest> {
    fixture.database.backfill_requests().await.unwrap()
}

async fn a_repository_is_asked_for_once_however_often_and_every_one_by_one_wish(fixture: Fixture) {
    let term = fixture.term().await;
    assert_eq!(requests(&fixture).await, []);
    ask(&fixture, &term, &[Some(USER), None, Some(USER), None], "sync").await;
    ask(&fixture, &term, &[None], "recount").await;
    let found: Vec<_> = requests(&fixture).await.into_iter().map(|of| (of.did, of.reason)).collect();
    let expected = [(Some(did(USER)), "sync".to_owned()), (None, "recount".to_owned())];
    assert_eq!(found, expected, "the longest due first");
}

async fn a_wish_that_is_repeated_while_it_is_fulfilled_stays(fixture: Fixture) {
    let term = fixture.term().await;
    ask(&fixture, &term, &[Some(USER), None], "sync").await;
    // Of one moment, so in no order of their own.
    let mut begun = requests(&fixture).await;
    begun.sort_by_key(|of| of.did.is_none());
    // By a clock that stands still, or goes back: a later wish is newer all the same.
    fixture.execute("UPDATE backfill_request SET asked_at = asked_at + 3600000000 WHERE did = '*'").await;
    let ahead = requests(&fixture).await;
    ask(&fixture, &term, &[None], "sync").await;
    let done = async |request: BackfillRequest| {
        let work = async move |tx: &mut Tx| tx.backfill_done(&request).await;
        fixture.database.fenced(&term, work).await.unwrap()
    };
    assert!(done(begun[0].clone()).await);
    assert!(!done(begun[0].clone()).await, "taken out already");
    assert!(!done(ahead.iter().find(|of| of.did.is_none()).unwrap().clone()).await);
    let left = requests(&fixture).await;
    assert_eq!(left.iter().map(|of| &of.did).collect::<Vec<_>>(), [&None]);
    assert!(done(left[0].clone()).await);
    assert_eq!(requests(&fixture).await, []);
}

async fn save(fixture: &Fixture, term: &Term, seq: i64, time_us: i64) -> StreamCursor {
    let work = async move |tx: &mut Tx| tx.save_numbered_cursor("v2", "host", seq, time_us).await;
    fixture.database.fenced(term, work).await.unwrap();
    fixture.database.stream_cursors().await.unwrap().remove(0)
}

fn at(seq: Option<i64>, time_us: i64) -> StreamCursor {
    StreamCursor { wire: "v2".into(), host: "host".into(), time_us, seq }
}

async fn a_number_alone_decides_where_there_is_one(fixture: Fixture) {
    let term = fixture.term().await;
    assert_eq!(save(&fixture, &term, 5, 100).await, at(Some(5), 100));
    assert_eq!(save(&fixture, &term, 4, 900).await, at(Some(5), 100), "never back");
    assert_eq!(save(&fixture, &term, 6, 50).await, at(Some(6), 100), "times need not rise");
    assert_eq!(save(&fixture, &term, 7, 200).await, at(Some(7), 200));
}

async fn a_forgotten_number_leaves_its_time_and_any_number_may_follow(fixture: Fixture) {
    let term = fixture.term().await;
    save(&fixture, &term, 5_000, 100).await;
    let forget = async |tx: &mut Tx| {
        tx.forget_cursor_number("v2", "other").await?;
        tx.forget_cursor_number("v2", "host").await
    };
    fixture.database.fenced(&term, forget).await.unwrap();
    assert_eq!(fixture.database.stream_cursors().await.unwrap(), [at(None, 100)]);
    assert_eq!(save(&fixture, &term, 1, 90).await, at(Some(1), 100));
}

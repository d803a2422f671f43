//! Identities: a handle has one owner, and a look-up that is asked for is not forgotten.

use std::time::Duration;

use atcr_workers::atproto::Handle;
use atcr_workers::store::{HandleFound, IdentityDue, IdentityFound, Tx};
use leased_actors::lease::Term;

use super::fixture::Fixture;
use super::on_both;
use super::samples::*;
use crate::support::eventually::eventually;

const ALICE: &str = "did:plc:alice";
const BOB: &str = "did:plc:bob";

on_both! {
    a_handle_moves_to_its_new_owner
    a_handle_that_could_not_be_checked_stays_and_is_looked_up_again
    a_failed_look_up_is_put_off
    a_look_up_that_is_asked_for_meanwhile_stays_due
    strangers_are_not_looked_up
}

async fn known(fixture: &Fixture, who: &[&str]) -> Term {
    let term = fixture.term().await;
    let changes: Vec<_> = who.iter().map(|did| present(did, "t", 1, tag("app", "a", 1))).collect();
    fixture.apply(&term, &changes).await;
    term
}

async fn due(fixture: &Fixture, who: &str) -> Option<IdentityDue> {
    let due = fixture.database.due_identities(100).await.unwrap();
    due.into_iter().find(|due| due.did == did(who))
}

async fn set(fixture: &Fixture, term: &Term, due: IdentityDue, handle: HandleFound) {
    let found = IdentityFound { handle, pds: Some("https://pds.test".into()) };
    let work = async move |tx: &mut Tx| tx.set_identity(&due, &found).await;
    fixture.database.fenced(term, work).await.unwrap();
}

fn handle(text: &str) -> HandleFound {
    HandleFound::Valid(Handle::parse(text).unwrap())
}

async fn handles(fixture: &Fixture) -> Vec<String> {
    fixture
        .lines("SELECT did || ' ' || handle || ' ' || COALESCE(pds, '-') AS line FROM users ORDER BY did")
        .await
}

async fn a_handle_moves_to_its_new_owner(fixture: Fixture) {
    let term = known(&fixture, &[ALICE, BOB]).await;
    set(&fixture, &term, due(&fixture, ALICE).await.unwrap(), handle("shared.test")).await;
    assert!(due(&fixture, ALICE).await.is_none());
    set(&fixture, &term, due(&fixture, BOB).await.unwrap(), handle("Shared.test")).await;
    let expected =
        [format!("{ALICE} handle.invalid https://pds.test"), format!("{BOB} shared.test https://pds.test")];
    assert_eq!(handles(&fixture).await, expected);
}

async fn a_handle_that_could_not_be_checked_stays_and_is_looked_up_again(fixture: Fixture) {
    let term = known(&fixture, &[ALICE]).await;
    set(&fixture, &term, due(&fixture, ALICE).await.unwrap(), handle("alice.test")).await;
    let again = async |tx: &mut Tx| tx.mark_identity_due(&[did(ALICE)]).await;
    fixture.database.fenced(&term, again).await.unwrap();
    set(&fixture, &term, due(&fixture, ALICE).await.unwrap(), HandleFound::Unknown).await;
    assert_eq!(handles(&fixture).await, [format!("{ALICE} alice.test https://pds.test")]);
    let later = "SELECT did AS line FROM users WHERE identity_due_at IS NOT NULL AND identity_failures = 1";
    assert_eq!(fixture.lines(later).await, [ALICE]);
    fixture.database.fenced(&term, again).await.unwrap();
    set(&fixture, &term, due(&fixture, ALICE).await.unwrap(), HandleFound::Invalid).await;
    assert_eq!(handles(&fixture).await, [format!("{ALICE} handle.invalid https://pds.test")]);
}

async fn a_failed_look_up_is_put_off(fixture: Fixture) {
    let term = known(&fixture, &[ALICE]).await;
    for failures in 1..=2 {
        let due = eventually("the look-up is due", Duration::from_secs(10), async || {
            fixture.execute("UPDATE users SET identity_due_at = 1").await;
            due(&fixture, ALICE).await.ok_or(())
        });
        let due = due.await;
        assert_eq!(due.failures, failures - 1);
        let failed = async move |tx: &mut Tx| tx.identity_failed(&due).await;
        fixture.database.fenced(&term, failed).await.unwrap();
        assert!(self::due(&fixture, ALICE).await.is_none(), "still due");
    }
    let waits = fixture
        .lines("SELECT CAST((identity_due_at - first_seen) / 1000000 AS TEXT) AS line FROM users")
        .await
        .remove(0);
    let seconds: i64 = waits.parse().unwrap();
    assert!((60..120).contains(&seconds), "{seconds}");
}

async fn a_look_up_that_is_asked_for_meanwhile_stays_due(fixture: Fixture) {
    let term = known(&fixture, &[ALICE]).await;
    let old = due(&fixture, ALICE).await.unwrap();
    let again = async |tx: &mut Tx| tx.mark_identity_due(&[did(ALICE)]).await;
    fixture.database.fenced(&term, again).await.unwrap();
    let failed = old.clone();
    fixture.database.fenced(&term, async move |tx: &mut Tx| tx.identity_failed(&failed).await).await.unwrap();
    assert!(due(&fixture, ALICE).await.is_some(), "put off");
    set(&fixture, &term, old, handle("alice.test")).await;
    let still = due(&fixture, ALICE).await.expect("cleared");
    set(&fixture, &term, still, handle("alice.test")).await;
    assert!(due(&fixture, ALICE).await.is_none());
}

async fn strangers_are_not_looked_up(fixture: Fixture) {
    let term = known(&fixture, &[ALICE]).await;
    let strange = async |tx: &mut Tx| tx.mark_identity_due(&[did(ALICE), did(BOB)]).await;
    fixture.database.fenced(&term, strange).await.unwrap();
    assert!(due(&fixture, BOB).await.is_none());
    assert_eq!(fixture.database.known_dids().await.unwrap(), [did(ALICE)]);
}

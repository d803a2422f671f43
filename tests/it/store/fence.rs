//! The fence: what is refused leaves no trace, what is under way is not cut, and a claim waits for it.

use std::time::Duration;

use atcr_workers::store::{Backend, Database, Fencing, Options, Tx, WriteError};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use leased_actors::clock::Clock;
use leased_actors::lease::{Epoch, Incarnation, LeaseStore, Release, Term, TermId, Trust};
use tokio::sync::oneshot;

use super::fixture::{Fixture, ask, name, registration, trust};
use super::on_both;
use super::samples::{cursor, present, tag};
use crate::support::eventually::eventually;

const WITHIN: Duration = Duration::from_secs(30);

on_both! {
    a_write_under_the_leases_term_commits
    a_write_under_any_other_term_is_refused_and_leaves_no_trace
    a_write_of_a_dead_holder_is_refused
    an_untrusted_term_does_not_reach_the_database
    what_fails_inside_is_rolled_back
    what_the_database_refuses_is_told_and_nothing_is_half_written
    a_dropped_call_is_carried_to_its_end
    without_leases_only_trust_counts
}

async fn write(database: &Database, term: &Term, host: &'static str) -> Result<(), WriteError> {
    database.fenced(term, async move |tx: &mut Tx| tx.save_cursor("v1", host, 1).await).await
}

async fn a_write_under_the_leases_term_commits(fixture: Fixture) {
    let term = fixture.term().await;
    write(&fixture.database, &term, "host").await.unwrap();
    assert_eq!(cursor(&fixture.database, "v1", "host").await, Some(1));
}

async fn a_write_under_any_other_term_is_refused_and_leaves_no_trace(fixture: Fixture) {
    let id = fixture.acquire().await.term;
    let old = TermId { epoch: Epoch(id.epoch.0 - 1), ..id.clone() };
    let strange = TermId { holder: Incarnation::new(), ..id.clone() };
    let unknown = TermId { name: "other".parse().unwrap(), ..id.clone() };
    for wrong in [old, strange, unknown] {
        let refused = write(&fixture.database, &Term::new(wrong.clone(), trust()), "host").await;
        assert!(matches!(&refused, Err(WriteError::Stale(id)) if *id == wrong), "{refused:?}");
    }
    fixture.leases.release(&id, Release::Free).await.unwrap();
    let refused = write(&fixture.database, &Term::new(id, trust()), "host").await;
    assert!(matches!(refused, Err(WriteError::Stale(_))), "{refused:?}");
    assert_eq!(cursor(&fixture.database, "v1", "host").await, None);
}

async fn a_write_of_a_dead_holder_is_refused(fixture: Fixture) {
    let term = fixture.term().await;
    assert!(fixture.leases.declare_dead(term.id().holder, 0).await.unwrap());
    let refused = write(&fixture.database, &term, "host").await;
    assert!(matches!(refused, Err(WriteError::Stale(_))), "{refused:?}");
    assert_eq!(cursor(&fixture.database, "v1", "host").await, None);
}

async fn an_untrusted_term_does_not_reach_the_database(fixture: Fixture) {
    let id = fixture.acquire().await.term;
    let untrusted = Term::new(id, Trust::none(Clock::boottime()));
    let refused = write(&fixture.database, &untrusted, "host").await;
    assert!(matches!(refused, Err(WriteError::Untrusted(_))), "{refused:?}");
    assert_eq!(cursor(&fixture.database, "v1", "host").await, None);
}

async fn what_fails_inside_is_rolled_back(fixture: Fixture) {
    let term = fixture.term().await;
    let failed = fixture.database.fenced(&term, async |tx: &mut Tx| {
        tx.save_cursor("v1", "host", 1).await?;
        Err::<(), _>(WriteError::Database("no".into()))
    });
    assert!(matches!(failed.await, Err(WriteError::Database(_))));
    assert_eq!(cursor(&fixture.database, "v1", "host").await, None);
    write(&fixture.database, &term, "host").await.unwrap();
}

/// A full disk, as both databases report it: SQLite has ended the transaction by itself by then.
async fn what_the_database_refuses_is_told_and_nothing_is_half_written(fixture: Fixture) {
    let term = fixture.term().await;
    let full = match fixture.database.backend() {
        Backend::Postgres => {
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE 'disk is full' USING ERRCODE = 'disk_full'; END $$;
             CREATE TRIGGER full_disk BEFORE INSERT ON tags EXECUTE FUNCTION fail()"
        }
        Backend::Sqlite => {
            "CREATE TRIGGER full_disk BEFORE INSERT ON tags BEGIN SELECT RAISE(ROLLBACK, 'disk is full'); END"
        }
    };
    fixture.execute(full).await;
    let work = async |tx: &mut Tx| {
        tx.save_cursor("v1", "host", 1).await?;
        tx.apply(&[present("did:plc:user", "t", 1, tag("app", "latest", 1))]).await
    };
    for _ in 0..3 {
        let failed = fixture.database.fenced(&term, work).await.unwrap_err();
        assert!(matches!(&failed, WriteError::Database(why) if why.contains("disk is full")), "{failed}");
    }
    assert_eq!(cursor(&fixture.database, "v1", "host").await, None);
    assert!(fixture.database.known_dids().await.unwrap().is_empty());
    let on = if fixture.database.backend() == Backend::Postgres { " ON tags" } else { "" };
    fixture.execute(&format!("DROP TRIGGER full_disk{on}")).await;
    fixture.database.fenced(&term, work).await.unwrap();
    assert_eq!(fixture.lines("SELECT tag AS line FROM tags").await, ["latest"]);
}

async fn a_dropped_call_is_carried_to_its_end(fixture: Fixture) {
    let term = fixture.term().await;
    let (database, (go, gone), (begun, begins)) =
        (fixture.database.clone(), oneshot::channel::<()>(), oneshot::channel::<()>());
    let call = tokio::spawn(async move {
        let work = async move |tx: &mut Tx| {
            tx.save_cursor("v1", "first", 1).await?;
            begun.send(()).unwrap();
            gone.await.unwrap();
            tx.save_cursor("v1", "second", 1).await
        };
        database.fenced(&term, work).await
    });
    begins.await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    go.send(()).unwrap();
    eventually("the dropped transaction is committed", WITHIN, async || {
        let both =
            (cursor(&fixture.database, "v1", "first").await, cursor(&fixture.database, "v1", "second").await);
        if both == (Some(1), Some(1)) { Ok(()) } else { Err(both) }
    })
    .await;
}

async fn without_leases_only_trust_counts(fixture: Fixture) {
    let options = Options { fencing: Fencing::Unleased, ..fixture.options.clone() };
    let unleased = Database::open(&options).await.unwrap();
    let id = TermId { name: name(), holder: Incarnation::new(), epoch: Epoch(1) };
    write(&unleased, &Term::new(id.clone(), trust()), "host").await.unwrap();
    let refused = write(&unleased, &Term::new(id, Trust::none(Clock::boottime())), "other").await;
    assert!(matches!(refused, Err(WriteError::Untrusted(_))), "{refused:?}");
    assert_eq!(cursor(&unleased, "v1", "host").await, Some(1));
    assert_eq!(cursor(&unleased, "v1", "other").await, None);
}

/// SQLite has no row locks: a claim is kept out because a fenced transaction is the one writer from its first statement.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_becomes_the_writer_of_the_file_during_a_fenced_transaction() {
    let fixture = Fixture::sqlite().await;
    let (term, options) = (fixture.term().await, fixture.options.clone());
    let work = async move |tx: &mut Tx| {
        // Nothing is written yet: only the fence was asked.
        let refused = raw_writer(&options).unwrap_err();
        assert!(refused.contains("locked"), "{refused}");
        tx.save_cursor("v1", "host", 1).await
    };
    fixture.database.fenced(&term, work).await.unwrap();
    raw_writer(&fixture.options).unwrap();
}

/// Becomes the writer of the file, without waiting for it, and lets go at once.
fn raw_writer(options: &Options) -> Result<(), String> {
    let mut connection = SqliteConnection::establish(options.url.strip_prefix("sqlite://").unwrap()).unwrap();
    connection.batch_execute("BEGIN IMMEDIATE; ROLLBACK").map_err(|error| error.to_string())
}

/// On SQLite a transaction is the one writer, so that nothing can come between.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_for_the_dead_holders_open_transaction() {
    let fixture = Fixture::postgres().await;
    let term = fixture.term().await;
    let rival = registration();
    fixture.leases.register(&rival, &[]).await.unwrap();
    let (database, old, (go, gone), (begun, begins)) =
        (fixture.database.clone(), term.clone(), oneshot::channel::<()>(), oneshot::channel::<()>());
    let writing = tokio::spawn(async move {
        let work = async move |tx: &mut Tx| {
            begun.send(()).unwrap();
            gone.await.unwrap();
            tx.save_cursor("v1", "host", 1).await
        };
        database.fenced(&old, work).await
    });
    begins.await.unwrap();
    assert!(fixture.leases.declare_dead(term.id().holder, 0).await.unwrap());
    let leases = fixture.leases.clone();
    let claim = tokio::spawn(async move { leases.claim(&ask(rival.incarnation)).await });
    eventually("the claim waits for the row", WITHIN, async || {
        let waiting = "SELECT query AS line FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting = fixture.lines(waiting).await;
        if waiting.iter().any(|query| query.contains("UPDATE lease ")) { Ok(()) } else { Err(waiting) }
    })
    .await;
    assert!(!claim.is_finished());
    go.send(()).unwrap();
    writing.await.unwrap().unwrap();
    let claim = claim.await.unwrap().unwrap().expect("the holder is dead");
    assert!(claim.term.epoch > term.id().epoch);
    let refused = write(&fixture.database, &term, "later").await;
    assert!(matches!(refused, Err(WriteError::Stale(_))), "{refused:?}");
}

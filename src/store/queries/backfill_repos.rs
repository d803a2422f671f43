//! `backfill_repo`: what is known of each repository that a run has found, and when it has to be read next.

use std::time::Duration;

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};

use super::chunked;
use super::leases::micros;
use crate::atproto::Did;
use crate::store::backfill::{Gone, RepoOutcome};
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// DID, run, rev, forced, microseconds since it was last listed, failures, microseconds since it was first said to be
/// gone, whether it has an account in the index, and since when that account's identity is due.
#[rustfmt::skip]
pub(in crate::store) type DueRow =
    (String, i64, Option<String>, bool, Option<i64>, i64, Option<i64>, bool, Option<i64>);

/// State, forced, failures, last error.
pub(in crate::store) type RepoRow = (String, bool, i64, Option<String>);

/// At most `limit` that are due, the longest due first.
pub(in crate::store) async fn due(session: &mut Session, limit: i64) -> QueryResult<Vec<DueRow>> {
    let select = Statement::new(
        "SELECT r.did, r.run, r.rev, r.forced, {now_us} - r.listed_at, r.failures, {now_us} - r.gone_at,
             u.did IS NOT NULL, u.identity_due_at
         FROM backfill_repo r LEFT JOIN users u ON u.did = r.did
         WHERE r.next_at <= {now_us} ORDER BY r.next_at LIMIT ?",
    );
    type Row = (
        Text,
        BigInt,
        Nullable<Text>,
        Bool,
        Nullable<BigInt>,
        BigInt,
        Nullable<BigInt>,
        Bool,
        Nullable<BigInt>,
    );
    session.load::<Row, DueRow>(select.bind(limit)).await
}

/// One repository.
pub(in crate::store) async fn of(session: &mut Session, did: &str) -> QueryResult<Option<RepoRow>> {
    let select =
        Statement::new("SELECT state, forced, failures, last_error FROM backfill_repo WHERE did = ?");
    session.first::<(Text, Bool, BigInt, Nullable<Text>), RepoRow>(select.bind(did)).await
}

/// How many repositories of a run are in which state.
pub(in crate::store) async fn count(session: &mut Session, run: i64) -> QueryResult<Vec<(String, i64)>> {
    let select = Statement::new("SELECT state, COUNT(*) FROM backfill_repo WHERE run = ? GROUP BY state");
    session.load::<(Text, BigInt), _>(select.bind(run)).await
}

/// Whether any repository of the run still waits for its turn.
pub(in crate::store) async fn is_waiting(session: &mut Session, run: i64) -> QueryResult<bool> {
    let select = Statement::new("SELECT did FROM backfill_repo WHERE run = ? AND state = 'waiting' LIMIT 1");
    Ok(session.first::<Text, String>(select.bind(run)).await?.is_some())
}

/// Makes repositories due that a run has found. What this run has found already stays as it is.
pub(in crate::store) async fn find(
    session: &mut Session,
    run: i64,
    forced: bool,
    dids: &[Did],
) -> QueryResult<()> {
    for chunk in chunked(dids, |did| row![did.as_str(), run, forced]) {
        let upsert = Statement::new(
            "WITH found (did, run, forced) AS ({rows})
             INSERT INTO backfill_repo (did, run, state, forced, next_at, found_at)
             SELECT did, run, 'waiting', forced, {now_us}, {now_us} FROM found WHERE TRUE
             ON CONFLICT (did) DO UPDATE SET run = excluded.run, state = 'waiting', next_at = excluded.next_at,
                 found_at = excluded.found_at, forced = (backfill_repo.forced OR excluded.forced)
             WHERE backfill_repo.run < excluded.run",
        );
        session.execute(upsert.rows(chunk)).await?;
    }
    Ok(())
}

/// Makes repositories due that somebody wants to be read again, whatever is known of them, before all others.
pub(in crate::store) async fn force(session: &mut Session, dids: &[Did]) -> QueryResult<()> {
    for chunk in chunked(dids, |did| row![did.as_str()]) {
        let upsert = Statement::new(
            "WITH wanted (did) AS ({rows})
             INSERT INTO backfill_repo (did, run, state, forced, next_at, found_at)
             SELECT did, 0, 'waiting', TRUE, 0, {now_us} FROM wanted WHERE TRUE
             ON CONFLICT (did) DO UPDATE SET state = 'waiting', forced = TRUE, next_at = excluded.next_at,
                 found_at = excluded.found_at",
        );
        session.execute(upsert.rows(chunk)).await?;
    }
    Ok(())
}

/// What came of reading a repository.
pub(in crate::store) async fn set_outcome(
    session: &mut Session,
    did: &Did,
    outcome: &RepoOutcome,
) -> QueryResult<()> {
    let rev = match &outcome.rev {
        Some(Some(rev)) => ("?", Some(rev.as_str())),
        Some(None) => ("NULL", None),
        None => ("rev", None),
    };
    let gone_at = match outcome.gone {
        Gone::AsBefore => "gone_at",
        Gone::Seen => "COALESCE(gone_at, {now_us})",
        Gone::Not => "NULL",
    };
    let listed_at = if outcome.is_listed { "{now_us}" } else { "listed_at" };
    let text = format!(
        "UPDATE backfill_repo SET state = ?, failures = ?, last_error = ?, next_at = {{now_us}} + ?, forced = FALSE,
             rev = {}, gone_at = {gone_at}, listed_at = {listed_at}
         WHERE did = ?",
        rev.0
    );
    let update = Statement::new(&text)
        .bind(outcome.state.name())
        .bind(i64::from(outcome.failures))
        .bind(outcome.error.as_deref())
        .bind(outcome.next_in.map(|wait: Duration| micros(wait)));
    let update = if rev.1.is_some() { update.bind(rev.1) } else { update };
    session.execute(update.bind(did.as_str())).await?;
    Ok(())
}

/// Forgets a repository.
pub(in crate::store) async fn delete(session: &mut Session, did: &Did) -> QueryResult<()> {
    let delete = Statement::new("DELETE FROM backfill_repo WHERE did = ?");
    session.execute(delete.bind(did.as_str())).await?;
    Ok(())
}

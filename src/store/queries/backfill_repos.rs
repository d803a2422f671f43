//! `backfill_repo`: what is known of each repository that a run has found, and when it has to be read next.

use std::time::Duration;

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};

use super::chunked;
use super::leases::micros;
use crate::atproto::{Did, Rev};
use crate::store::backfill::{Gone, RepoOutcome, RepoRead};
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// DID, run, rev, forced, microseconds since it was last listed, failures, microseconds since it was first said to be
/// gone, whether it has an account in the index, since when that account's identity is due, and its PDS if nothing speaks
/// against it.
#[rustfmt::skip]
pub(in crate::store) type DueRow =
    (String, i64, Option<String>, bool, Option<i64>, i64, Option<i64>, bool, Option<i64>, Option<String>);

/// State, forced, failures, last error.
pub(in crate::store) type RepoRow = (String, bool, i64, Option<String>);

/// At most `limit` that are due, the longest due first.
pub(in crate::store) async fn due(session: &mut Session, limit: i64) -> QueryResult<Vec<DueRow>> {
    let select = Statement::new(
        "SELECT r.did, r.run, r.rev, r.forced, {now_us} - r.listed_at, r.failures, {now_us} - r.gone_at,
             u.did IS NOT NULL, u.identity_due_at,
             CASE WHEN u.active AND u.identity_due_at IS NULL AND r.gone_at IS NULL THEN u.pds END
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
        Nullable<Text>,
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
        session.execute(upsert.each(chunk)).await?;
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
        session.execute(upsert.each(chunk)).await?;
    }
    Ok(())
}

/// What came of reading repositories.
pub(in crate::store) async fn set_outcomes(session: &mut Session, reads: &[RepoRead]) -> QueryResult<()> {
    for chunk in chunked(reads, |read| {
        let RepoOutcome { state, rev, is_listed, failures, error, next_in, gone } = &read.outcome;
        let (next_in, gone) = (next_in.map(|wait: Duration| micros(wait)), gone_word(*gone));
        let (tells_rev, rev) = (rev.is_some(), rev.as_ref().and_then(|rev| rev.as_ref().map(Rev::as_str)));
        let failures = i64::from(*failures);
        row![read.did.as_str(), state.name(), failures, error, next_in, tells_rev, rev, gone, *is_listed]
    }) {
        let update = Statement::new(
            "WITH tried (did, state, failures, error, next_in, tells_rev, rev, gone, is_listed) AS ({rows})
             UPDATE backfill_repo SET state = tried.state, failures = tried.failures, last_error = tried.error,
                 next_at = {now_us} + tried.next_in, forced = FALSE,
                 rev = CASE WHEN tried.tells_rev THEN tried.rev ELSE backfill_repo.rev END,
                 gone_at = CASE tried.gone WHEN 'seen' THEN COALESCE(backfill_repo.gone_at, {now_us})
                     WHEN 'not' THEN NULL ELSE backfill_repo.gone_at END,
                 listed_at = CASE WHEN tried.is_listed THEN {now_us} ELSE backfill_repo.listed_at END
             FROM tried WHERE backfill_repo.did = tried.did",
        );
        session.execute(update.each(chunk)).await?;
    }
    Ok(())
}

fn gone_word(gone: Gone) -> &'static str {
    match gone {
        Gone::AsBefore => "as before",
        Gone::Seen => "seen",
        Gone::Not => "not",
    }
}

/// Forgets a repository.
pub(in crate::store) async fn delete(session: &mut Session, did: &Did) -> QueryResult<()> {
    let delete = Statement::new("DELETE FROM backfill_repo WHERE did = ?");
    session.execute(delete.bind(did.as_str())).await?;
    Ok(())
}

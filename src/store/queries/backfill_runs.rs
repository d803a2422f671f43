//! `backfill_run` and `backfill_list`: the runs, and the lists that the latest one reads.

use std::time::Duration;

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};

use super::chunked;
use super::leases::micros;
use crate::store::backfill::RunTotals;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// Id, reason, forced, its start in microseconds, how many have passed since, whether it has ended.
pub(in crate::store) type RunRow = (i64, String, bool, i64, i64, bool);

/// Id, end in microseconds, records, changed, missed, requests.
pub(in crate::store) type ReportRow = (i64, Option<i64>, i64, i64, i64, i64);

/// Run, source, collection, cursor, failures.
pub(in crate::store) type ListRow = (i64, String, String, Option<String>, i64);

/// The latest run.
pub(in crate::store) async fn latest(session: &mut Session) -> QueryResult<Option<RunRow>> {
    let select = Statement::new(
        "SELECT id, reason, forced, started_at, {now_us} - started_at, ended_at IS NOT NULL
         FROM backfill_run ORDER BY id DESC LIMIT 1",
    );
    session.first::<(BigInt, Text, Bool, BigInt, BigInt, Bool), RunRow>(select).await
}

/// The latest run, for people.
pub(in crate::store) async fn report(session: &mut Session) -> QueryResult<Option<ReportRow>> {
    let select = Statement::new(
        "SELECT id, ended_at, records, changed, missed, requests FROM backfill_run ORDER BY id DESC LIMIT 1",
    );
    session.first::<(BigInt, Nullable<BigInt>, BigInt, BigInt, BigInt, BigInt), ReportRow>(select).await
}

/// Begins the run `id`, and gives up those before it that have not ended.
pub(in crate::store) async fn begin(
    session: &mut Session,
    id: i64,
    reason: &str,
    forced: bool,
) -> QueryResult<()> {
    let give_up = "UPDATE backfill_run SET ended_at = {now_us}, given_up = TRUE WHERE ended_at IS NULL";
    session.execute(Statement::new(give_up)).await?;
    let insert = Statement::new(
        "INSERT INTO backfill_run (id, reason, forced, started_at) VALUES (?, ?, ?, {now_us})",
    );
    session.execute(insert.bind(id).bind(reason).bind(forced)).await?;
    Ok(())
}

/// The run has ended.
pub(in crate::store) async fn end(session: &mut Session, id: i64) -> QueryResult<()> {
    let update =
        Statement::new("UPDATE backfill_run SET ended_at = {now_us} WHERE id = ? AND ended_at IS NULL");
    session.execute(update.bind(id)).await?;
    Ok(())
}

/// Adds to what a run has done, while it lasts.
pub(in crate::store) async fn add(session: &mut Session, id: i64, more: &RunTotals) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE backfill_run SET records = records + ?, changed = changed + ?, missed = missed + ?,
             requests = requests + ?
         WHERE id = ? AND ended_at IS NULL",
    );
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let update = update.bind(count(more.records)).bind(count(more.changed)).bind(count(more.missed));
    session.execute(update.bind(count(more.requests)).bind(id)).await?;
    Ok(())
}

/// Puts these lists (source, collection) in the place of the earlier run's, to be read in their order.
pub(in crate::store) async fn set_lists(
    session: &mut Session,
    run: i64,
    lists: &[(String, &'static str)],
) -> QueryResult<()> {
    session.execute(Statement::new("DELETE FROM backfill_list")).await?;
    let numbered: Vec<_> = (0..).zip(lists).collect();
    for chunk in chunked(&numbered, |(place, (source, collection))| row![source, *collection, *place, run]) {
        let insert = Statement::new(
            "WITH new (source, collection, place, run) AS ({rows})
             INSERT INTO backfill_list (source, collection, place, run, state, next_at)
             SELECT source, collection, place, run, 'waiting', {now_us} FROM new",
        );
        session.execute(insert.rows(chunk)).await?;
    }
    Ok(())
}

/// The first list that is due.
pub(in crate::store) async fn due_list(session: &mut Session) -> QueryResult<Option<ListRow>> {
    let select = Statement::new(
        "SELECT run, source, collection, cursor, failures FROM backfill_list
         WHERE next_at <= {now_us} ORDER BY place LIMIT 1",
    );
    session.first::<(BigInt, Text, Text, Nullable<Text>, BigInt), ListRow>(select).await
}

/// How many lists no attempt has been made at.
pub(in crate::store) async fn waiting_lists(session: &mut Session) -> QueryResult<i64> {
    let select = Statement::new("SELECT COUNT(*) FROM backfill_list WHERE state = 'waiting'");
    Ok(session.first::<BigInt, i64>(select).await?.unwrap_or(0))
}

/// The list is read up to `cursor`; none: to its end.
pub(in crate::store) async fn turn(
    session: &mut Session,
    source: &str,
    collection: &str,
    cursor: Option<&str>,
) -> QueryResult<()> {
    let update = match cursor {
        Some(_) => "UPDATE backfill_list SET cursor = ?, failures = 0 WHERE source = ? AND collection = ?",
        None => {
            "UPDATE backfill_list SET cursor = ?, failures = 0, last_error = NULL, state = 'read', next_at = NULL
             WHERE source = ? AND collection = ?"
        }
    };
    session.execute(Statement::new(update).bind(cursor).bind(source).bind(collection)).await?;
    Ok(())
}

/// The list could not be read on. It is tried again after `wait`, if at all.
pub(in crate::store) async fn fail(
    session: &mut Session,
    source: &str,
    collection: &str,
    error: &str,
    wait: Option<Duration>,
) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE backfill_list SET state = 'failed', failures = failures + 1, last_error = ?, next_at = {now_us} + ?
         WHERE source = ? AND collection = ?",
    );
    session.execute(update.bind(error).bind(wait.map(micros)).bind(source).bind(collection)).await?;
    Ok(())
}

/// What waits at the same source is put off as well.
pub(in crate::store) async fn put_off_source(
    session: &mut Session,
    source: &str,
    error: &str,
    wait: Duration,
) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE backfill_list SET state = 'failed', failures = failures + 1, last_error = ?, next_at = {now_us} + ?
         WHERE source = ? AND next_at <= {now_us}",
    );
    session.execute(update.bind(error).bind(micros(wait)).bind(source)).await?;
    Ok(())
}

/// Holds that manifests name, from beyond `cursor` on.
pub(in crate::store) async fn holds_beyond(
    session: &mut Session,
    cursor: &str,
    limit: i64,
) -> QueryResult<Vec<String>> {
    // From one to the next through the index: manifests are many, holds are few.
    let select = Statement::new(
        "WITH RECURSIVE found (hold) AS (
             SELECT MIN(hold_did) FROM manifests WHERE hold_did > ?
             UNION ALL
             SELECT (SELECT MIN(m.hold_did) FROM manifests m WHERE m.hold_did > found.hold)
             FROM found WHERE found.hold IS NOT NULL)
         SELECT hold FROM found WHERE hold IS NOT NULL LIMIT ?",
    );
    session.load::<Text, String>(select.bind(cursor).bind(limit)).await
}

/// Accounts, from beyond `cursor` on.
pub(in crate::store) async fn users_beyond(
    session: &mut Session,
    cursor: &str,
    limit: i64,
) -> QueryResult<Vec<String>> {
    let select = Statement::new("SELECT did FROM users WHERE did > ? ORDER BY did LIMIT ?");
    session.load::<Text, String>(select.bind(cursor).bind(limit)).await
}

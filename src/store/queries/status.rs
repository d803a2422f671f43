//! What people want to know at a glance: instances, streams, the latest backfill, the wishes for one and labels, each with its age
//! by the database's clock.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};

use crate::store::session::Session;
use crate::store::statement::Statement;

/// Incarnation, label, host, pid, state, admin address, registered at, microseconds since the last renewal.
pub(in crate::store) type InstanceRow = (String, String, String, i64, String, Option<String>, i64, i64);

/// Wire, host, position (time), number, microseconds since that time, saved at, microseconds since then.
pub(in crate::store) type StreamRow = (String, String, i64, Option<i64>, i64, i64, i64);

/// Reason, forced, started at, ended at, given up.
pub(in crate::store) type RunRow = (String, bool, i64, Option<i64>, bool);

/// How many wishes wait, how many of them are about every repository (0 or 1), microseconds since the oldest.
pub(in crate::store) type WishRow = (i64, i64, Option<i64>);

/// The labeler in effect, whether its labels are verified, number, era, saved at, microseconds since then.
pub(in crate::store) type LabelerRow = (String, bool, i64, i64, i64, i64);

/// Every instance that is not dead.
pub(in crate::store) async fn instances(session: &mut Session) -> QueryResult<Vec<InstanceRow>> {
    let select = Statement::new(
        "SELECT incarnation, label, host, pid, state, admin_address, registered_at, {now_us} - renewed_at
         FROM lease_instance WHERE state <> 'dead' ORDER BY label, incarnation",
    );
    session
        .load::<(Text, Text, Text, BigInt, Text, Nullable<Text>, BigInt, BigInt), InstanceRow>(select)
        .await
}

/// The time by the database's clock, and the newest in the history of the leases.
pub(in crate::store) async fn clocks(session: &mut Session) -> QueryResult<(i64, Option<i64>)> {
    let select = Statement::new("SELECT {now_us}, (SELECT MAX(at) FROM lease_event)");
    let rows = session.load::<(BigInt, Nullable<BigInt>), (i64, Option<i64>)>(select).await?;
    rows.into_iter().next().ok_or(diesel::result::Error::NotFound)
}

/// Every position, the one that moved last first.
pub(in crate::store) async fn streams(session: &mut Session) -> QueryResult<Vec<StreamRow>> {
    let select = Statement::new(
        "SELECT wire, host, time_us, seq, {now_us} - time_us, saved_at, {now_us} - saved_at
         FROM stream_cursor ORDER BY saved_at DESC, wire, host",
    );
    session.load::<(Text, Text, BigInt, Nullable<BigInt>, BigInt, BigInt, BigInt), StreamRow>(select).await
}

/// A backfill.
pub(in crate::store) async fn run(session: &mut Session, id: i64) -> QueryResult<Option<RunRow>> {
    let select = Statement::new(
        "SELECT reason, forced, started_at, ended_at, given_up FROM backfill_run WHERE id = ?",
    );
    session.first::<(Text, Bool, BigInt, Nullable<BigInt>, Bool), RunRow>(select.bind(id)).await
}

/// The wishes to have repositories read again.
pub(in crate::store) async fn wishes(session: &mut Session) -> QueryResult<Option<WishRow>> {
    let select = Statement::new(
        "SELECT COUNT(*), COUNT(CASE WHEN did = ? THEN 1 END), {now_us} - MIN(asked_at) FROM backfill_request",
    );
    session
        .first::<(BigInt, BigInt, Nullable<BigInt>), WishRow>(select.bind(super::backfill_requests::EVERY))
        .await
}

/// The labeler that is in effect.
pub(in crate::store) async fn labeler(session: &mut Session) -> QueryResult<Option<LabelerRow>> {
    let select = Statement::new(
        "SELECT src, verify, seq, era, saved_at, {now_us} - saved_at FROM labeler_cursor WHERE in_effect",
    );
    session.first::<(Text, Bool, BigInt, BigInt, BigInt, BigInt), LabelerRow>(select).await
}

/// Of the labeler in effect: its labels that are in effect, and those that are not verified.
pub(in crate::store) async fn labels(session: &mut Session) -> QueryResult<Option<(i64, i64)>> {
    let select = Statement::new(
        "SELECT (SELECT COUNT(*) FROM labels_in_effect),
             (SELECT COUNT(*) FROM labels l JOIN labeler_cursor c ON c.src = l.src WHERE c.in_effect AND NOT l.verified)",
    );
    session.first::<(BigInt, BigInt), (i64, i64)>(select).await
}

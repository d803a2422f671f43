//! `stream_cursor`: up to where each server's stream is in the index.

use diesel::QueryResult;
use diesel::sql_types::BigInt;

use crate::store::session::Session;
use crate::store::statement::Statement;

/// The position, in the server's own microseconds.
pub(in crate::store) async fn get(session: &mut Session, wire: &str, host: &str) -> QueryResult<Option<i64>> {
    let select = Statement::new("SELECT time_us FROM stream_cursor WHERE wire = ? AND host = ?");
    session.first::<BigInt, i64>(select.bind(wire).bind(host)).await
}

/// Moves the position forward; never back.
pub(in crate::store) async fn advance(
    session: &mut Session,
    wire: &str,
    host: &str,
    time_us: i64,
) -> QueryResult<()> {
    let upsert = Statement::new(
        "INSERT INTO stream_cursor (wire, host, time_us, saved_at) VALUES (?, ?, ?, {now_us})
         ON CONFLICT (wire, host) DO UPDATE SET time_us = excluded.time_us, saved_at = excluded.saved_at
         WHERE stream_cursor.time_us < excluded.time_us",
    );
    session.execute(upsert.bind(wire).bind(host).bind(time_us)).await?;
    Ok(())
}

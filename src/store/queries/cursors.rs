//! `stream_cursor`: up to where each server's stream is in the index.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Text};

use crate::store::session::Session;
use crate::store::statement::Statement;

/// Every server's position on this wire, in its own microseconds.
pub(in crate::store) async fn all(session: &mut Session, wire: &str) -> QueryResult<Vec<(String, i64)>> {
    let select = Statement::new("SELECT host, time_us FROM stream_cursor WHERE wire = ?");
    session.load::<(Text, BigInt), (String, i64)>(select.bind(wire)).await
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

//! `stream_cursor`: up to where each server's stream is in the index.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::store::session::Session;
use crate::store::statement::Statement;

/// Wire, host, time in microseconds, and number where the wire has one.
pub(in crate::store) type Row = (String, String, i64, Option<i64>);

/// Every server's position.
pub(in crate::store) async fn all(session: &mut Session) -> QueryResult<Vec<Row>> {
    let select = Statement::new("SELECT wire, host, time_us, seq FROM stream_cursor");
    session.load::<(Text, Text, BigInt, Nullable<BigInt>), Row>(select).await
}

/// Moves the position forward; never back. Where there is a number it alone decides: times need not rise with it.
pub(in crate::store) async fn advance(
    session: &mut Session,
    wire: &str,
    host: &str,
    time_us: i64,
    seq: Option<i64>,
) -> QueryResult<()> {
    let upsert = Statement::new(
        "INSERT INTO stream_cursor (wire, host, time_us, seq, saved_at) VALUES (?, ?, ?, ?, {now_us})
         ON CONFLICT (wire, host) DO UPDATE SET
             time_us = CASE WHEN stream_cursor.time_us < excluded.time_us
                 THEN excluded.time_us ELSE stream_cursor.time_us END,
             seq = excluded.seq,
             saved_at = excluded.saved_at
         WHERE CASE WHEN excluded.seq IS NULL
             THEN stream_cursor.time_us < excluded.time_us
             ELSE COALESCE(stream_cursor.seq, -1) < excluded.seq END",
    );
    session.execute(upsert.bind(wire).bind(host).bind(time_us).bind(seq)).await?;
    Ok(())
}

/// Forgets a number that its host does not know any more; the time stays.
pub(in crate::store) async fn forget_seq(session: &mut Session, wire: &str, host: &str) -> QueryResult<()> {
    let update = Statement::new("UPDATE stream_cursor SET seq = NULL WHERE wire = ? AND host = ?");
    session.execute(update.bind(wire).bind(host)).await?;
    Ok(())
}

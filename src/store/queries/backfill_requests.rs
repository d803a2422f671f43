//! `backfill_request`: what has to be read again from its repository.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Text};

use crate::store::session::Session;
use crate::store::statement::Statement;

/// Stands for every repository.
pub(in crate::store) const EVERY: &str = "*";

/// Whose, why, and since when.
pub(in crate::store) type Row = (String, String, i64);

/// So many are read at once. The rest is read once these are done.
const READ_AT_ONCE: i64 = 1_000;

/// The longest due first; the one about every repository is always among them.
pub(in crate::store) async fn all(session: &mut Session) -> QueryResult<Vec<Row>> {
    let select = Statement::new(
        "SELECT did, reason, asked_at FROM (
             SELECT did, reason, asked_at FROM backfill_request
             ORDER BY CASE WHEN did = ? THEN 0 ELSE 1 END, asked_at, did LIMIT ?) first
         ORDER BY asked_at, did",
    );
    session.load::<(Text, Text, BigInt), Row>(select.bind(EVERY).bind(READ_AT_ONCE)).await
}

/// Asks. A wish that stands already is newer from now on, so that a reading which began before it does not end it.
pub(in crate::store) async fn ask(session: &mut Session, did: &str, reason: &str) -> QueryResult<()> {
    let upsert = Statement::new(
        "INSERT INTO backfill_request (did, reason, asked_at) VALUES (?, ?, {now_us})
         ON CONFLICT (did) DO UPDATE SET
             reason = excluded.reason,
             asked_at = CASE WHEN backfill_request.asked_at < excluded.asked_at
                 THEN excluded.asked_at ELSE backfill_request.asked_at + 1 END",
    );
    session.execute(upsert.bind(did).bind(reason)).await?;
    Ok(())
}

/// The wish about one repository, or every one: since when it stands, if it does.
pub(in crate::store) async fn asked_at(session: &mut Session, did: &str) -> QueryResult<Option<i64>> {
    let select = Statement::new("SELECT asked_at FROM backfill_request WHERE did = ?");
    session.first::<BigInt, i64>(select.bind(did)).await
}

/// Takes out a wish that is fulfilled, unless it was repeated since. Whether it was there.
pub(in crate::store) async fn take_out(session: &mut Session, did: &str, asked_at: i64) -> QueryResult<bool> {
    let delete = Statement::new("DELETE FROM backfill_request WHERE did = ? AND asked_at = ?");
    Ok(session.execute(delete.bind(did).bind(asked_at)).await? > 0)
}

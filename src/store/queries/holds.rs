//! Which holds there are, by `captains`. Those that manifests name are read in `backfill_runs`.

use diesel::QueryResult;
use diesel::sql_types::Text;

use crate::store::session::Session;
use crate::store::statement::Statement;

/// The first `limit` holds that have a captain.
pub(in crate::store) async fn with_captain(session: &mut Session, limit: i64) -> QueryResult<Vec<String>> {
    // The condition is always true. It lets SQLite walk the primary key's index and stop at the limit.
    let select =
        Statement::new("SELECT hold_did FROM captains WHERE hold_did > '' ORDER BY hold_did LIMIT ?");
    session.load::<Text, String>(select.bind(limit)).await
}

//! Every statement, a file per table or small family, a function per statement.

pub(super) mod cursors;
pub(super) mod fence;
pub(super) mod hold_records;
pub(super) mod lease_instances;
pub(super) mod lease_list;
pub(super) mod leases;
pub(super) mod manifests;
pub(super) mod records;
pub(super) mod repository_stats;
pub(super) mod user_records;
pub(super) mod users;

use super::statement::Value;

/// Values per statement. SQLite takes 32,766, PostgreSQL 65,535; at half of it the statements only become more.
const VALUES_MAX: usize = 30_000;

/// The rows of a statement as the right side of `(a, b) IN`. SQLite finds such keys by an index only in a plain SELECT:
/// for a list of rows alone it reads the whole table.
const GIVEN: &str = "(SELECT * FROM (VALUES {rows}) AS given)";

/// A record's key in its table: the repository's DID, and the rkey.
pub(super) type Key<'a> = (&'a str, &'a str);

/// The rows of `items`, in lists that fit into a statement.
fn chunked<T, const N: usize>(
    items: &[T],
    row: impl Fn(&T) -> [Value; N],
) -> impl Iterator<Item = Vec<[Value; N]>> {
    items.chunks(VALUES_MAX / N).map(move |chunk| chunk.iter().map(&row).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use diesel::connection::SimpleConnection;
    use diesel::sql_types::Text;
    use diesel::{Connection, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

    use super::GIVEN;

    #[derive(QueryableByName)]
    struct Step {
        #[diesel(sql_type = Text)]
        detail: String,
    }

    #[test]
    fn given_keys_are_found_by_an_index_on_sqlite() {
        let mut file = SqliteConnection::establish(":memory:").unwrap();
        file.batch_execute(include_str!("../../migrations/2026-01-01-000002_index/up.sql")).unwrap();
        let given = GIVEN.replace("{rows}", "('a', 'b'), ('c', 'd')");
        for table in ["manifests", "tags", "stars", "repo_pages", "profiles"] {
            let plan = format!("EXPLAIN QUERY PLAN DELETE FROM {table} WHERE (did, rkey) IN {given}");
            let steps = sql_query(plan).load::<Step>(&mut file).unwrap();
            assert!(steps.iter().any(|step| step.detail.starts_with(&format!("SEARCH {table} "))), "{table}");
        }
    }
}

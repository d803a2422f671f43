//! `repository_stats`: the sums over the counts of holds.
//!
//! A count counts while its author is a known hold (has a captain) that hosts the repository (a manifest in it names
//! the hold). So a sum depends on three tables, whose rows come in any order and from several writers.

use diesel::QueryResult;
use diesel::sql_types::Text;

use super::chunked;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// Which of the counts `s` count.
const COUNTED: &str = "EXISTS (SELECT 1 FROM captains c WHERE c.hold_did = s.hold_did)
    AND EXISTS (SELECT 1 FROM manifests m
                WHERE m.did = s.owner_did AND m.repository = s.repository AND m.hold_did = s.hold_did)";

/// Makes the sums of these repositories (owner, name; sorted, each once) right, whatever they are now.
///
/// Right under READ COMMITTED, too: a writer changes its rows, then takes the lock of each repository that they touch,
/// and only then reads. The sum's own row is the lock. Of two writers that touch one repository the second waits here
/// until the first has committed, and then reads with a snapshot that shows the first one's rows. What decides about a
/// count (its row and its captain) is of one author, and writers of one author wait for each other before they start.
pub(in crate::store) async fn recompute(
    session: &mut Session,
    repositories: &[(String, String)],
) -> QueryResult<()> {
    lock(session, repositories).await?;
    for chunk in chunked(repositories, |(did, repository)| row![did, repository]) {
        let upsert = format!(
            "WITH touched (did, repository) AS ({{rows}})
             INSERT INTO repository_stats (did, repository, pull_count, push_count, last_pull, last_push, updated_at)
             SELECT s.owner_did, s.repository, CAST(SUM(s.pull_count) AS BIGINT), CAST(SUM(s.push_count) AS BIGINT),
                 MAX(s.last_pull), MAX(s.last_push), MAX(s.updated_at)
             FROM touched t
             JOIN hold_repository_stats s ON s.owner_did = t.did AND s.repository = t.repository
             WHERE {COUNTED}
             GROUP BY s.owner_did, s.repository
             ON CONFLICT (did, repository) DO UPDATE SET
                 pull_count = excluded.pull_count, push_count = excluded.push_count,
                 last_pull = excluded.last_pull, last_push = excluded.last_push, updated_at = excluded.updated_at"
        );
        session.execute(Statement::new(&upsert).each(chunk.clone())).await?;
        let delete = format!(
            "WITH touched (did, repository) AS ({{rows}})
             DELETE FROM repository_stats WHERE (did, repository) IN (SELECT did, repository FROM touched)
             AND NOT EXISTS (SELECT 1 FROM hold_repository_stats s
                 WHERE s.owner_did = repository_stats.did AND s.repository = repository_stats.repository AND {COUNTED})"
        );
        session.execute(Statement::new(&delete).each(chunk)).await?;
    }
    Ok(())
}

/// The names of an owner's repositories that there are sums of.
pub(in crate::store) async fn of_owner(session: &mut Session, owner: &str) -> QueryResult<Vec<String>> {
    let select = Statement::new("SELECT repository FROM repository_stats WHERE did = ?");
    session.load::<Text, String>(select.bind(owner)).await
}

/// Locks the sums in their order, those that do not exist included: they are made for it. On SQLite there is no other
/// writer.
async fn lock(session: &mut Session, repositories: &[(String, String)]) -> QueryResult<()> {
    if !session.has_other_writers() {
        return Ok(());
    }
    for chunk in chunked(repositories, |(did, repository)| row![did, repository, 0, 0, 0]) {
        let upsert = Statement::new(
            "INSERT INTO repository_stats (did, repository, pull_count, push_count, updated_at) {rows}
             ON CONFLICT (did, repository) DO UPDATE SET updated_at = repository_stats.updated_at",
        );
        session.execute(upsert.rows(chunk)).await?;
    }
    Ok(())
}

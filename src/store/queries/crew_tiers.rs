//! `crew_tier_sync`: what each managed hold is to know of each user, and what it does know.
//!
//! A hold is told again whenever what it is to know changes, also if it becomes what the hold was told before: an answer
//! that got lost may have been to something else.

use std::time::Duration;

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::chunked;
use super::leases::micros;
use crate::atproto::Did;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// User, rank, failures, revision of the crew record.
pub(in crate::store) type DueRow = (String, i64, i64, Option<String>);

/// User and hold.
pub(in crate::store) type Pair<'a> = (&'a str, &'a str);

/// The newest revision of the user's crew record at the hold, of a row `s`. It is only ever compared for being the same, so the
/// database's own order of texts will do.
///
/// No join: SQLite would begin with all crew records of the hold, for every row.
const CREW_REV: &str = "(SELECT MAX((SELECT r.rev FROM records r
        WHERE r.did = c.hold_did AND r.collection = 'io.atcr.hold.crew' AND r.rkey = c.rkey))
    FROM crew c WHERE c.member_did = s.user_did AND c.hold_did = s.hold_did)";

/// What follows `WITH wanted (user_did, of_rank) AS …`, and takes the hold's DID. Only what differs is written. Who waits
/// for a crew record goes on waiting.
const PLAN: &str = "
    INSERT INTO crew_tier_sync (user_did, hold_did, desired_rank, next_attempt)
    SELECT p.user_did, p.hold_did, p.of_rank, {now_us} FROM (
        SELECT w.user_did, t.hold_did, CASE WHEN w.of_rank < t.last THEN w.of_rank ELSE t.last END AS of_rank
        FROM wanted w
        CROSS JOIN (SELECT hold_did, MAX(rank) AS last FROM hold_tiers WHERE hold_did = ? GROUP BY hold_did) t
    ) p
    LEFT JOIN crew_tier_sync s ON s.user_did = p.user_did AND s.hold_did = p.hold_did
    WHERE s.desired_rank <> p.of_rank OR (s.user_did IS NULL AND p.of_rank > 0)
    ON CONFLICT (user_did, hold_did) DO UPDATE SET
        desired_rank = excluded.desired_rank, failures = 0, error = NULL,
        next_attempt = CASE WHEN crew_tier_sync.awaits_crew THEN NULL ELSE excluded.next_attempt END";

/// Plans the ranks of these users at a hold.
pub(in crate::store) async fn plan_users(
    session: &mut Session,
    hold: &str,
    users: &[(Did, u32)],
) -> QueryResult<()> {
    for chunk in chunked(users, |(user, rank)| row![user.as_str(), i64::from(*rank)]) {
        let plan = Statement::new(&format!("WITH wanted (user_did, of_rank) AS ({{rows}}) {PLAN}"));
        session.execute(plan.rows(chunk).bind(hold)).await?;
    }
    Ok(())
}

/// Plans the ranks of all users at a hold.
pub(in crate::store) async fn plan_all(session: &mut Session, hold: &str) -> QueryResult<()> {
    let wanted = "WITH wanted (user_did, of_rank) AS (SELECT user_did, tier_rank FROM billing_subscriptions)";
    session.execute(Statement::new(&format!("{wanted} {PLAN}")).bind(hold)).await?;
    Ok(())
}

/// Makes those due whose crew record says another tier than the hold called it, and is not the one that was known then: a
/// member who left and came back has the hold's own tier again.
pub(in crate::store) async fn repeat_lost(session: &mut Session, hold: &str) -> QueryResult<()> {
    let update = Statement::new(&format!(
        "UPDATE crew_tier_sync SET next_attempt = {{now_us}} WHERE hold_did = ? AND user_did IN (
             SELECT s.user_did FROM crew m
             JOIN crew_tier_sync s ON s.user_did = m.member_did AND s.hold_did = m.hold_did
             WHERE m.hold_did = ? AND s.next_attempt IS NULL AND NOT s.awaits_crew
                 AND COALESCE(m.tier, '') <> s.tier_name AND {CREW_REV} <> COALESCE(s.crew_rev, ''))"
    ));
    session.execute(update.bind(hold).bind(hold)).await?;
    Ok(())
}

/// At most `limit` users that the hold has to be told of, the longest due first.
pub(in crate::store) async fn due(session: &mut Session, hold: &str, limit: i64) -> QueryResult<Vec<DueRow>> {
    let select = Statement::new(&format!(
        "SELECT s.user_did, s.desired_rank, s.failures, {CREW_REV} FROM crew_tier_sync s
         WHERE s.hold_did = ? AND s.next_attempt IS NOT NULL AND s.next_attempt <= {{now_us}}
         ORDER BY s.next_attempt LIMIT ?"
    ));
    session.load::<(Text, BigInt, BigInt, Nullable<Text>), DueRow>(select.bind(hold).bind(limit)).await
}

/// At most `limit` users who wait for a crew record at the hold, and have another one than when it was told of them.
pub(in crate::store) async fn joined(
    session: &mut Session,
    hold: &str,
    limit: i64,
) -> QueryResult<Vec<String>> {
    let select = Statement::new(&format!(
        "SELECT s.user_did FROM crew_tier_sync s
         WHERE s.hold_did = ? AND s.awaits_crew AND {CREW_REV} <> COALESCE(s.crew_rev, '') LIMIT ?"
    ));
    session.load::<Text, String>(select.bind(hold).bind(limit)).await
}

/// Makes these due.
pub(in crate::store) async fn make_due(session: &mut Session, hold: &str, users: &[Did]) -> QueryResult<()> {
    for chunk in chunked(users, |user| row![user.as_str()]) {
        let update = Statement::new(
            "WITH due (user_did) AS ({rows})
             UPDATE crew_tier_sync SET awaits_crew = FALSE, failures = 0, next_attempt = {now_us}
             WHERE hold_did = ? AND user_did IN (SELECT user_did FROM due)",
        );
        session.execute(update.rows(chunk).bind(hold)).await?;
    }
    Ok(())
}

/// The hold knows this rank.
pub(in crate::store) async fn applied(
    session: &mut Session,
    (user, hold): Pair<'_>,
    rank: i64,
    name: &str,
    crew_rev: Option<&str>,
) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE crew_tier_sync SET applied_rank = ?, tier_name = ?, crew_rev = ?, awaits_crew = FALSE, failures = 0,
             error = NULL, last_attempt = {now_us},
             next_attempt = CASE WHEN desired_rank = ? THEN NULL ELSE next_attempt END
         WHERE user_did = ? AND hold_did = ?",
    );
    let update = update.bind(rank).bind(name).bind(crew_rev).bind(rank);
    session.execute(update.bind(user).bind(hold)).await?;
    Ok(())
}

/// The user is not of the hold's crew.
pub(in crate::store) async fn not_crew(
    session: &mut Session,
    (user, hold): Pair<'_>,
    crew_rev: Option<&str>,
) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE crew_tier_sync SET applied_rank = NULL, tier_name = NULL, crew_rev = ?, awaits_crew = TRUE,
             failures = 0, error = NULL, last_attempt = {now_us}, next_attempt = NULL
         WHERE user_did = ? AND hold_did = ?",
    );
    session.execute(update.bind(crew_rev).bind(user).bind(hold)).await?;
    Ok(())
}

/// The hold is told again after `wait`.
pub(in crate::store) async fn failed(
    session: &mut Session,
    (user, hold): Pair<'_>,
    error: &str,
    wait: Duration,
) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE crew_tier_sync SET failures = failures + 1, error = ?, last_attempt = {now_us},
             next_attempt = {now_us} + ?
         WHERE user_did = ? AND hold_did = ?",
    );
    session.execute(update.bind(error).bind(micros(wait)).bind(user).bind(hold)).await?;
    Ok(())
}

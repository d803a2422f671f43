//! `webhook_deliveries` again: what is due, and what came of it.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};

use super::labels::is_hidden;
use super::{chunked, leases::micros};
use crate::outbox::{Attempted, Withheld};
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// Webhooks that one statement asks about. SQLite puts at most 500 selects together.
const WEBHOOKS_PER_STATEMENT: usize = 100;

/// Number, webhook, trigger, repository, digest, tag, event, payload, attempts, put in, asked for, given up, and whether
/// what it is about is taken down.
pub(in crate::store) type DueRow =
    (String, i64, String, String, String, String, String, Option<String>, i64, i64, i64, Option<i64>, bool);

/// Of each webhook that has any waiting, how long until the first is due (microseconds).
///
/// It goes from webhook to webhook in the index, and reads one row of each, however many wait.
pub(in crate::store) async fn heads(session: &mut Session) -> QueryResult<Vec<(i64, i64)>> {
    let select = Statement::new(
        "WITH RECURSIVE head (webhook_id) AS (
             SELECT MIN(webhook_id) FROM webhook_deliveries WHERE status = 'pending'
             UNION ALL
             SELECT (SELECT MIN(d.webhook_id) FROM webhook_deliveries d
                     WHERE d.status = 'pending' AND d.webhook_id > head.webhook_id)
             FROM head WHERE head.webhook_id IS NOT NULL)
         SELECT head.webhook_id, (SELECT MIN(d.next_attempt_at) FROM webhook_deliveries d
             WHERE d.status = 'pending' AND d.webhook_id = head.webhook_id) - {now_us}
         FROM head WHERE head.webhook_id IS NOT NULL",
    );
    session.load::<(BigInt, BigInt), _>(select).await
}

/// What is due of these webhooks, of each at most so many, the longest due first.
pub(in crate::store) async fn due(
    session: &mut Session,
    webhooks: &[i64],
    per_webhook: i64,
) -> QueryResult<Vec<DueRow>> {
    let hidden = is_hidden("w.user_did", "d.repository", "d.digest", "NULL");
    // Not a join: SQLite would read every label in effect for it.
    let tag_hidden = "EXISTS (SELECT 1 FROM tags g
             WHERE g.did = w.user_did AND g.repository = d.repository AND g.tag = d.tag AND EXISTS (
                 SELECT 1 FROM taken_down h WHERE h.did = g.did AND h.tag_rkey = g.rkey))";
    let one = format!(
        "SELECT * FROM (
             SELECT d.id, d.webhook_id, d.trigger, d.repository, d.digest, d.tag, d.event, d.payload, d.attempt,
                 d.created_at, d.asked_at, d.give_up_at, (NOT u.active) OR {hidden} OR {tag_hidden} AS hidden
             FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id JOIN users u ON u.did = w.user_did
             WHERE d.webhook_id = ? AND d.status = 'pending' AND d.next_attempt_at <= {{now_us}}
             ORDER BY d.next_attempt_at, d.id LIMIT ?) of_one"
    );
    let mut rows = Vec::new();
    for some in webhooks.chunks(WEBHOOKS_PER_STATEMENT) {
        let mut select = Statement::new(&vec![one.as_str(); some.len()].join(" UNION ALL "));
        for webhook in some {
            select = select.bind(*webhook).bind(per_webhook);
        }
        type Row = (
            Text,
            BigInt,
            Text,
            Text,
            Text,
            Text,
            Text,
            Nullable<Text>,
            BigInt,
            BigInt,
            BigInt,
            Nullable<BigInt>,
            Bool,
        );
        rows.extend(session.load::<Row, DueRow>(select).await?);
    }
    Ok(rows)
}

/// Stores what has been made ready: number, tag that it was made with, payload, when it is given up. Returns those that
/// still had that tag.
pub(in crate::store) async fn set_ready(
    session: &mut Session,
    ready: &[(String, String, String, i64)],
) -> QueryResult<Vec<String>> {
    let mut set = Vec::new();
    for chunk in chunked(ready, |(id, tag, payload, give_up_at)| row![id, tag, payload, *give_up_at]) {
        let update = Statement::new(
            "WITH ready (id, tag, payload, give_up_at) AS ({rows})
             UPDATE webhook_deliveries SET payload = ready.payload, give_up_at = ready.give_up_at
             FROM ready WHERE webhook_deliveries.id = ready.id AND webhook_deliveries.tag = ready.tag
                 AND webhook_deliveries.status = 'pending'
             RETURNING webhook_deliveries.id",
        );
        set.extend(session.load::<Text, String>(update.rows(chunk)).await?);
    }
    Ok(set)
}

/// Notes that these go out no more, and why.
pub(in crate::store) async fn withhold(
    session: &mut Session,
    ids: &[String],
    reason: Withheld,
) -> QueryResult<()> {
    for chunk in chunked(ids, |id| row![id]) {
        let update = Statement::new(
            "UPDATE webhook_deliveries SET status = 'withheld', reason = ?, next_attempt_at = NULL,
                 finished_at = {now_us}
             WHERE status = 'pending' AND id IN ({rows})",
        );
        session.execute(update.bind(reason.as_str()).rows(chunk)).await?;
    }
    Ok(())
}

/// The same for all that one webhook has waiting.
pub(in crate::store) async fn withhold_all(
    session: &mut Session,
    webhook: i64,
    reason: Withheld,
) -> QueryResult<usize> {
    let update = Statement::new(
        "UPDATE webhook_deliveries SET status = 'withheld', reason = ?, next_attempt_at = NULL, finished_at = {now_us}
         WHERE status = 'pending' AND webhook_id = ?",
    );
    session.execute(update.bind(reason.as_str()).bind(webhook)).await
}

/// Notes what came of an attempt. Its webhook, and how it stands then; none: it was not waiting.
pub(in crate::store) async fn attempted(
    session: &mut Session,
    id: &str,
    result: &Attempted,
) -> QueryResult<Option<(i64, String)>> {
    let set = "attempt = attempt + 1, response_code = ?, last_error = ?";
    let update = match result {
        Attempted::Delivered { code } => Statement::new(&format!(
            "UPDATE webhook_deliveries SET {set}, status = 'delivered', next_attempt_at = NULL,
                     finished_at = {{now_us}}
                 WHERE id = ? AND status = 'pending' RETURNING webhook_id, status"
        ))
        .bind(Some(i64::from(*code)))
        .bind(None::<String>),
        Attempted::Failed { code, error } => Statement::new(&format!(
            "UPDATE webhook_deliveries SET {set}, status = 'failed', next_attempt_at = NULL,
                     finished_at = {{now_us}}
                 WHERE id = ? AND status = 'pending' RETURNING webhook_id, status"
        ))
        .bind(code.map(i64::from))
        .bind(error),
        Attempted::Retry { code, error, after } => {
            let after = micros(*after);
            let past = "give_up_at < {now_us} + ?";
            Statement::new(&format!(
                "UPDATE webhook_deliveries SET {set},
                     status = CASE WHEN {past} THEN 'failed' ELSE 'pending' END,
                     next_attempt_at = CASE WHEN {past} THEN NULL ELSE {{now_us}} + ? END,
                     finished_at = CASE WHEN {past} THEN {{now_us}} ELSE NULL END
                 WHERE id = ? AND status = 'pending' RETURNING webhook_id, status"
            ))
            .bind(code.map(i64::from))
            .bind(error)
            .bind(after)
            .bind(after)
            .bind(after)
            .bind(after)
        }
    };
    session.first::<(BigInt, Text), _>(update.bind(id)).await
}

/// Makes one due again that has not been taken out, under its own number. Its webhook; none: there is none of that number.
pub(in crate::store) async fn redeliver(session: &mut Session, id: &str) -> QueryResult<Option<i64>> {
    let update = Statement::new(
        "UPDATE webhook_deliveries SET status = 'pending', reason = NULL, attempt = 0, next_attempt_at = {now_us},
             give_up_at = NULL, asked_at = {now_us}, finished_at = NULL, response_code = NULL, last_error = NULL
         WHERE id = ? RETURNING webhook_id",
    );
    session.first::<BigInt, i64>(update.bind(id)).await
}

/// How one stands: webhook, status, reason, attempts, answer, error.
pub(in crate::store) type StandingRow =
    (i64, String, Option<String>, i64, Option<i64>, Option<String>, Option<i64>);

/// How one stands, and whether its webhook is disabled since when.
pub(in crate::store) async fn standing(session: &mut Session, id: &str) -> QueryResult<Option<StandingRow>> {
    let select = Statement::new(
        "SELECT d.webhook_id, d.status, d.reason, d.attempt, d.response_code, d.last_error, w.disabled_at
         FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id WHERE d.id = ?",
    );
    type Row = (BigInt, Text, Nullable<Text>, BigInt, Nullable<BigInt>, Nullable<Text>, Nullable<BigInt>);
    session.first::<Row, StandingRow>(select.bind(id)).await
}

/// How many wait, and for how long the oldest has been due (microseconds; below zero: not yet).
pub(in crate::store) async fn waiting(session: &mut Session) -> QueryResult<(i64, Option<i64>)> {
    let select = Statement::new(
        "SELECT COUNT(*), {now_us} - MIN(next_attempt_at) FROM webhook_deliveries WHERE status = 'pending'",
    );
    Ok(session.first::<(BigInt, Nullable<BigInt>), _>(select).await?.unwrap_or_default())
}

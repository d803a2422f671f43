//! `webhooks`: where users want to be told, and how the endpoints fare.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::chunked;
use crate::atproto::Did;
use crate::outbox::Attempted;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// Number, user, address, secret, since when it is disabled, and its place among the user's enabled ones, by age.
pub(in crate::store) type EndpointRow = (i64, String, String, Option<String>, Option<i64>, i64);

/// As an operator sees it: number, user, handle, address, triggers, created, disabled, its reason, last attempt, its
/// status and error, failing since, dropped, and how many deliveries wait.
pub(in crate::store) type ViewRow = (
    i64,
    String,
    String,
    String,
    i64,
    i64,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    i64,
    i64,
);

/// The enabled webhooks of these users: number, user, triggers.
pub(in crate::store) async fn enabled_of(
    session: &mut Session,
    users: &[&Did],
) -> QueryResult<Vec<(i64, String, i64)>> {
    let mut hooks = Vec::new();
    for chunk in chunked(users, |did| row![did.as_str()]) {
        let select = Statement::new(
            "SELECT id, user_did, triggers FROM webhooks WHERE user_did IN ({rows}) AND disabled_at IS NULL",
        );
        hooks.extend(session.load::<(BigInt, Text, BigInt), _>(select.rows(chunk)).await?);
    }
    hooks.sort();
    Ok(hooks)
}

/// Where these webhooks lead.
pub(in crate::store) async fn endpoints(session: &mut Session, ids: &[i64]) -> QueryResult<Vec<EndpointRow>> {
    let mut endpoints = Vec::new();
    for chunk in chunked(ids, |id| row![*id]) {
        let select = Statement::new(
            "SELECT w.id, w.user_did, w.url, w.secret, w.disabled_at,
                 (SELECT COUNT(*) FROM webhooks o
                  WHERE o.user_did = w.user_did AND o.disabled_at IS NULL AND o.id < w.id)
             FROM webhooks w WHERE w.id IN ({rows})",
        );
        let select = select.rows(chunk);
        let rows = session
            .load::<(BigInt, Text, Text, Nullable<Text>, Nullable<BigInt>, BigInt), EndpointRow>(select);
        endpoints.extend(rows.await?);
    }
    Ok(endpoints)
}

/// How many webhooks a user has, disabled ones included.
pub(in crate::store) async fn count_of(session: &mut Session, user: &str) -> QueryResult<i64> {
    let select = Statement::new("SELECT COUNT(*) FROM webhooks WHERE user_did = ?");
    Ok(session.first::<BigInt, i64>(select.bind(user)).await?.unwrap_or(0))
}

/// Inserts one, and returns its number.
pub(in crate::store) async fn insert(
    session: &mut Session,
    user: &str,
    url: &str,
    secret: Option<&str>,
    triggers: i64,
) -> QueryResult<Option<i64>> {
    let insert = Statement::new(
        "INSERT INTO webhooks (id, user_did, url, secret, triggers, created_at, updated_at)
         VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM webhooks), ?, ?, ?, ?, {now_us}, {now_us}) RETURNING id",
    );
    session.first::<BigInt, i64>(insert.bind(user).bind(url).bind(secret).bind(triggers)).await
}

/// Those of one user, or all, in the order of their numbers.
pub(in crate::store) async fn list(session: &mut Session, user: Option<&str>) -> QueryResult<Vec<ViewRow>> {
    let of = if user.is_some() { "WHERE w.user_did = ?" } else { "" };
    let mut select = Statement::new(&format!(
        "SELECT w.id, w.user_did, u.handle, w.url, w.triggers, w.created_at, w.disabled_at, w.disabled_reason, w.last_at,
             w.last_status, w.last_error, w.failing_since, w.dropped,
             (SELECT COUNT(*) FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.status = 'pending')
         FROM webhooks w JOIN users u ON u.did = w.user_did {of} ORDER BY w.id"
    ));
    if let Some(user) = user {
        select = select.bind(user);
    }
    type Row = (
        BigInt,
        Text,
        Text,
        Text,
        BigInt,
        BigInt,
        Nullable<BigInt>,
        Nullable<Text>,
        Nullable<BigInt>,
        Nullable<BigInt>,
        Nullable<Text>,
        Nullable<BigInt>,
        BigInt,
        BigInt,
    );
    session.load::<Row, ViewRow>(select).await
}

/// Deletes one, with its deliveries. Whether it was there.
pub(in crate::store) async fn delete(session: &mut Session, id: i64) -> QueryResult<bool> {
    let delete = Statement::new("DELETE FROM webhooks WHERE id = ?");
    Ok(session.execute(delete.bind(id)).await? == 1)
}

/// Disables one, unless it is already. Whether it was there.
pub(in crate::store) async fn disable(session: &mut Session, id: i64, reason: &str) -> QueryResult<bool> {
    let update = Statement::new(
        "UPDATE webhooks SET disabled_reason = CASE WHEN disabled_at IS NULL THEN ? ELSE disabled_reason END,
             disabled_at = COALESCE(disabled_at, {now_us}), updated_at = {now_us} WHERE id = ?",
    );
    Ok(session.execute(update.bind(reason).bind(id)).await? == 1)
}

/// Enables one, and forgets its failures. Whether it was there.
pub(in crate::store) async fn enable(session: &mut Session, id: i64) -> QueryResult<bool> {
    let update = Statement::new(
        "UPDATE webhooks SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, updated_at = {now_us}
         WHERE id = ?",
    );
    Ok(session.execute(update.bind(id)).await? == 1)
}

/// Notes how an attempt went.
pub(in crate::store) async fn attempted(
    session: &mut Session,
    id: i64,
    result: &Attempted,
) -> QueryResult<()> {
    let (code, error) = match result {
        Attempted::Delivered { code } => (Some(*code), None),
        Attempted::Retry { code, error, .. } | Attempted::Failed { code, error } => (*code, Some(error)),
    };
    let failing_since = if error.is_some() { "COALESCE(failing_since, {now_us})" } else { "NULL" };
    let update = Statement::new(&format!(
        "UPDATE webhooks SET last_at = {{now_us}}, last_status = ?, last_error = ?, failing_since = {failing_since}
         WHERE id = ?"
    ));
    session.execute(update.bind(code.map(i64::from)).bind(error.cloned()).bind(id)).await?;
    Ok(())
}

/// Disables one that has failed for so long (microseconds). Whether it is disabled by that.
pub(in crate::store) async fn disable_failing(
    session: &mut Session,
    id: i64,
    reason: &str,
    after: i64,
) -> QueryResult<bool> {
    let update = Statement::new(
        "UPDATE webhooks SET disabled_at = {now_us}, disabled_reason = ?
         WHERE id = ? AND disabled_at IS NULL AND failing_since <= {now_us} - ?",
    );
    Ok(session.execute(update.bind(reason).bind(id).bind(after)).await? == 1)
}

/// Counts deliveries that were dropped.
pub(in crate::store) async fn dropped(session: &mut Session, id: i64, count: i64) -> QueryResult<()> {
    let update = Statement::new("UPDATE webhooks SET dropped = dropped + ? WHERE id = ?");
    session.execute(update.bind(count).bind(id)).await?;
    Ok(())
}

/// How many there are, and how many of them are disabled.
pub(in crate::store) async fn counts(session: &mut Session) -> QueryResult<(i64, i64)> {
    let select = Statement::new("SELECT COUNT(*), COUNT(disabled_at) FROM webhooks");
    Ok(session.first::<(BigInt, BigInt), _>(select).await?.unwrap_or_default())
}

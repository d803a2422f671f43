//! `billing_subscriptions` and `billing_past_due`: what users pay for.
//!
//! Whoever has no row pays nothing, and has rank 0.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::chunked;
use crate::atproto::Did;
use crate::store::billing::Subscriber;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// User, customer, subscription, status, rank, end of the period.
pub(in crate::store) type Row = (String, String, String, String, i64, Option<i64>);

/// The time by the database's clock.
pub(in crate::store) async fn now(session: &mut Session) -> QueryResult<i64> {
    let now = session.first::<BigInt, i64>(Statement::new("SELECT {now_us}")).await?;
    Ok(now.unwrap_or_default())
}

/// The ranks of those of these users who have a subscription; the others pay nothing.
pub(in crate::store) async fn ranks(
    session: &mut Session,
    users: &[String],
) -> QueryResult<Vec<(String, i64)>> {
    let mut ranks = Vec::new();
    for chunk in chunked(users, |user| row![user]) {
        let select = Statement::new(
            "WITH asked (did) AS ({rows})
             SELECT user_did, tier_rank FROM billing_subscriptions WHERE user_did IN (SELECT did FROM asked)",
        );
        ranks.extend(session.load::<(Text, BigInt), _>(select.rows(chunk)).await?);
    }
    Ok(ranks)
}

/// At most `limit` beyond `user`, without those whose subscription is known to be over.
pub(in crate::store) async fn current(
    session: &mut Session,
    user: &str,
    limit: i64,
) -> QueryResult<Vec<Row>> {
    let select = Statement::new(
        "SELECT user_did, customer_id, subscription_id, status, tier_rank, current_period_end
         FROM billing_subscriptions
         WHERE user_did{bytes} > ? AND (tier_rank > 0 OR status NOT IN ('canceled', 'incomplete_expired', 'gone'))
         ORDER BY user_did{bytes} LIMIT ?",
    );
    session
        .load::<(Text, Text, Text, Text, BigInt, Nullable<BigInt>), Row>(select.bind(user).bind(limit))
        .await
}

/// Stores rows, but for those that were changed after `as_of`. A row that would stay the same is not written.
pub(in crate::store) async fn upsert(
    session: &mut Session,
    subscribers: &[Subscriber],
    as_of: i64,
) -> QueryResult<usize> {
    let mut changed = 0;
    for chunk in chunked(subscribers, |s| {
        let end = s.period_end.map(|end| end.0);
        row![s.user.as_str(), &s.customer, &s.subscription, &s.status, i64::from(s.rank), end]
    }) {
        let upsert = Statement::new(
            "WITH new (user_did, customer, subscription, status, of_rank, period_end) AS ({rows})
             INSERT INTO billing_subscriptions AS b
                 (user_did, customer_id, subscription_id, status, tier_rank, current_period_end, updated_at)
             SELECT user_did, customer, subscription, status, of_rank, period_end, {now_us} FROM new WHERE TRUE
             ON CONFLICT (user_did) DO UPDATE SET
                 customer_id = excluded.customer_id, subscription_id = excluded.subscription_id,
                 status = excluded.status, tier_rank = excluded.tier_rank,
                 current_period_end = excluded.current_period_end, updated_at = excluded.updated_at
             WHERE b.updated_at <= ? AND (
                 b.customer_id <> excluded.customer_id OR b.subscription_id <> excluded.subscription_id
                 OR b.status <> excluded.status OR b.tier_rank <> excluded.tier_rank
                 OR COALESCE(b.current_period_end, -1) <> COALESCE(excluded.current_period_end, -1))",
        );
        changed += session.execute(upsert.rows(chunk).bind(as_of)).await?;
    }
    Ok(changed)
}

/// At most `limit` users whose rank is not the planned one, with that rank.
pub(in crate::store) async fn unplanned(
    session: &mut Session,
    limit: i64,
) -> QueryResult<Vec<(String, i64)>> {
    let select = Statement::new(
        "SELECT user_did, tier_rank FROM billing_subscriptions
         WHERE planned_rank IS NULL OR planned_rank <> tier_rank LIMIT ?",
    );
    session.load::<(Text, BigInt), (String, i64)>(select.bind(limit)).await
}

/// These ranks are planned. A rank that has become another since stays unplanned.
pub(in crate::store) async fn set_planned(session: &mut Session, users: &[(Did, u32)]) -> QueryResult<()> {
    for chunk in chunked(users, |(user, rank)| row![user.as_str(), i64::from(*rank)]) {
        let update = Statement::new(
            "WITH planned (user_did, of_rank) AS ({rows})
             UPDATE billing_subscriptions SET planned_rank =
                 (SELECT p.of_rank FROM planned p WHERE p.user_did = billing_subscriptions.user_did)
             WHERE user_did IN (SELECT user_did FROM planned)",
        );
        session.execute(update.rows(chunk)).await?;
    }
    Ok(())
}

/// The subscriptions whose payment is late, and for how long (microseconds).
pub(in crate::store) async fn past_due(session: &mut Session) -> QueryResult<Vec<(String, i64)>> {
    let select = Statement::new("SELECT subscription_id, {now_us} - since FROM billing_past_due");
    session.load::<(Text, BigInt), (String, i64)>(select).await
}

/// The payments of these are late from now on.
pub(in crate::store) async fn begin_past_due(session: &mut Session, ids: &[&str]) -> QueryResult<()> {
    for chunk in chunked(ids, |id| row![*id]) {
        let insert = Statement::new(
            "WITH late (id) AS ({rows})
             INSERT INTO billing_past_due (subscription_id, since) SELECT id, {now_us} FROM late WHERE TRUE
             ON CONFLICT (subscription_id) DO NOTHING",
        );
        session.execute(insert.rows(chunk)).await?;
    }
    Ok(())
}

/// The payments of these are not late any more.
pub(in crate::store) async fn end_past_due(session: &mut Session, ids: &[&str]) -> QueryResult<()> {
    for chunk in chunked(ids, |id| row![*id]) {
        let delete = Statement::new("DELETE FROM billing_past_due WHERE subscription_id IN ({rows})");
        session.execute(delete.rows(chunk)).await?;
    }
    Ok(())
}

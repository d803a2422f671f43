//! `webhook_deliveries`: the outbox. What is due and what came of it is in `due_deliveries`; here is what is put in.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Text};

use super::chunked;
use crate::outbox::fold::{Completion, Open, Put};
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// How long a push waits for its tag, whose record comes after the manifest's (microseconds). At half, a slow registry
/// makes two deliveries of one push; at double, every push without a tag is late by as much.
const TAG_WITHIN_US: i64 = 2_000_000;

/// Pushes of these manifests that still wait for their tag, the oldest first.
pub(in crate::store) async fn open(
    session: &mut Session,
    webhooks_and_digests: &[(i64, &str)],
) -> QueryResult<Vec<Open>> {
    let mut open = Vec::new();
    for chunk in chunked(webhooks_and_digests, |(webhook, digest)| row![*webhook, *digest]) {
        let select = Statement::new(
            "WITH asked (webhook_id, digest) AS ({rows})
             SELECT d.created_at, d.id, d.webhook_id, d.repository, d.digest, d.dedupe_key
             FROM asked a JOIN webhook_deliveries d ON d.webhook_id = a.webhook_id AND d.digest = a.digest
             WHERE d.status = 'pending' AND d.payload IS NULL AND d.trigger = 'push' AND d.tag = ''",
        );
        type Row = (i64, String, i64, String, String, String);
        let select = select.rows(chunk);
        open.extend(session.load::<(BigInt, Text, BigInt, Text, Text, Text), Row>(select).await?);
    }
    open.sort();
    let read = |(_, id, webhook, repository, digest, dedupe_key)| Open {
        id,
        webhook,
        repository,
        digest,
        dedupe_key,
    };
    Ok(open.into_iter().map(read).collect())
}

/// Puts in what is not there; which triggers that were, and of which webhooks. They become due in the order of `puts`.
pub(in crate::store) async fn insert(
    session: &mut Session,
    puts: &[&Put],
) -> QueryResult<Vec<(i64, String)>> {
    let mut inserted = Vec::new();
    let numbered: Vec<_> = (0_i64..).zip(puts).collect();
    for chunk in chunked(&numbered, |(place, put)| {
        let wanted = &put.wanted;
        let event = serde_json::to_string(&wanted.event).expect("texts and numbers are JSON");
        row![
            new_id(),
            put.webhook,
            wanted.trigger.as_str(),
            &wanted.dedupe_key,
            &wanted.repository,
            &wanted.digest,
            &wanted.tag,
            event,
            *place,
            place + if put.waits { TAG_WITHIN_US } else { 0 },
        ]
    }) {
        let insert = Statement::new(
            "WITH new (id, webhook_id, trigger, dedupe_key, repository, digest, tag, event, place, ahead)
                 AS ({rows})
             INSERT INTO webhook_deliveries (id, webhook_id, trigger, dedupe_key, repository, digest, tag, event, status,
                 next_attempt_at, created_at, asked_at)
             SELECT id, webhook_id, trigger, dedupe_key, repository, digest, tag, event, 'pending', {now_us} + ahead,
                 {now_us} + place, {now_us} + place FROM new WHERE TRUE
             ON CONFLICT (webhook_id, dedupe_key) DO NOTHING RETURNING webhook_id, trigger",
        );
        inserted.extend(session.load::<(BigInt, Text), (i64, String)>(insert.rows(chunk)).await?);
    }
    Ok(inserted)
}

/// Gives open pushes their tags, so that they are due at once. Returns those that are not open any more.
///
/// One whose push has been made before with that very tag is taken out: it would be the same delivery again.
pub(in crate::store) async fn complete<'a>(
    session: &mut Session,
    completions: &'a [Completion],
) -> QueryResult<Vec<&'a Completion>> {
    let mut missed = Vec::new();
    for completion in completions {
        let Completion { id, tag, dedupe_key, .. } = completion;
        let update = Statement::new(
            "UPDATE webhook_deliveries SET tag = ?, dedupe_key = ?, next_attempt_at = {now_us}
             WHERE id = ? AND status = 'pending' AND payload IS NULL AND NOT EXISTS (
                 SELECT 1 FROM webhook_deliveries o
                 WHERE o.webhook_id = webhook_deliveries.webhook_id AND o.dedupe_key = ?)",
        );
        if session.execute(update.bind(tag).bind(dedupe_key).bind(id).bind(dedupe_key)).await? == 1 {
            continue;
        }
        let delete = Statement::new(
            "DELETE FROM webhook_deliveries WHERE id = ? AND status = 'pending' AND payload IS NULL",
        );
        if session.execute(delete.bind(id)).await? == 0 {
            missed.push(completion);
        }
    }
    Ok(missed)
}

/// Puts in a test that is due at once.
pub(in crate::store) async fn insert_test(session: &mut Session, webhook: i64, id: &str) -> QueryResult<()> {
    let insert = Statement::new(
        "INSERT INTO webhook_deliveries (id, webhook_id, trigger, dedupe_key, repository, digest, tag, event, status,
             next_attempt_at, created_at, asked_at)
         SELECT ?, ?, 'test', ?, '', '', '', '{\"kind\":\"test\",\"at\":' || {now_us} || '}', 'pending',
             {now_us}, {now_us}, {now_us}",
    );
    session.execute(insert.bind(id).bind(webhook).bind(format!("test:{id}"))).await?;
    Ok(())
}

/// Fails the oldest of those that wait, of webhooks that have more than so many of them; how many of which webhook.
pub(in crate::store) async fn drop_over(
    session: &mut Session,
    webhooks: &[i64],
    limit: i64,
) -> QueryResult<Vec<(i64, i64)>> {
    let mut over = Vec::new();
    for chunk in chunked(webhooks, |webhook| row![*webhook]) {
        let select = Statement::new(
            "SELECT webhook_id, COUNT(*) - ? FROM webhook_deliveries
             WHERE status = 'pending' AND webhook_id IN ({rows}) GROUP BY webhook_id HAVING COUNT(*) > ?",
        );
        let select = select.bind(limit).rows(chunk).bind(limit);
        over.extend(session.load::<(BigInt, BigInt), (i64, i64)>(select).await?);
    }
    for (webhook, count) in &over {
        let update = Statement::new(
            "UPDATE webhook_deliveries SET status = 'failed', last_error = 'too many deliveries were waiting',
                 next_attempt_at = NULL, finished_at = {now_us}
             WHERE id IN (SELECT id FROM webhook_deliveries WHERE webhook_id = ? AND status = 'pending'
                          ORDER BY created_at, id LIMIT ?)",
        );
        session.execute(update.bind(*webhook).bind(*count)).await?;
    }
    Ok(over)
}

/// `whd_` and 26 base32 characters: 128 random bits, so that no two are ever the same.
pub(in crate::store) fn new_id() -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bits: u128 = rand::random();
    let digit = |place: u32| char::from(DIGITS[((bits >> (5 * place)) & 31) as usize]);
    std::iter::once("whd_".to_owned()).chain((0..26).map(|place| digit(place).to_string())).collect()
}

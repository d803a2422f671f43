//! `labels`, `labeler_cursor` and the view `taken_down`: what the labeler says, up to where it was heard, and what follows.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool};

use super::chunked;
use crate::store::labels::{About, LabelRow};
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// A condition for other statements: whether what these SQL expressions name is taken down; `NULL` for what there is
/// none of, or is not asked for. It counts at the moment of the statement.
///
/// The view behind it finds the labels of one account by index: a look-up, where nothing is taken down.
pub(in crate::store) fn is_hidden(did: &str, repository: &str, digest: &str, tag_rkey: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM taken_down t WHERE t.did = {did} AND (t.subject = 'account'
             OR t.repository = {repository} OR t.digest = {digest} OR t.tag_rkey = {tag_rkey}))"
    )
}

/// Whether the account, the repository, the manifest or the tag is taken down.
pub(in crate::store) async fn is_taken_down(
    session: &mut Session,
    did: &str,
    repository: Option<&str>,
    digest: Option<&str>,
    tag_rkey: Option<&str>,
) -> QueryResult<bool> {
    let condition = is_hidden("?", "?", "?", "?");
    let select = Statement::new(&format!("SELECT {condition}"));
    let select = select.bind(did).bind(repository).bind(digest).bind(tag_rkey);
    Ok(session.first::<Bool, bool>(select).await?.unwrap_or(false))
}

/// How many subjects are taken down now.
pub(in crate::store) async fn count_takedowns(session: &mut Session) -> QueryResult<i64> {
    let select = Statement::new("SELECT COUNT(DISTINCT uri) FROM taken_down");
    Ok(session.first::<BigInt, i64>(select).await?.unwrap_or_default())
}

/// Puts a labeler into effect, in the place of any other, and tells up to where it was heard: number and era.
///
/// It is heard from its beginning again if its labels were not verified so far and shall be, or if it has another key now
/// and some labels were not good under the one before: they may be under this one.
pub(in crate::store) async fn follow(
    session: &mut Session,
    src: &str,
    verify: bool,
    key: Option<&str>,
) -> QueryResult<(i64, i64)> {
    let others = Statement::new("UPDATE labeler_cursor SET in_effect = FALSE WHERE in_effect AND src <> ?");
    session.execute(others.bind(src)).await?;
    let upsert = Statement::new(
        "INSERT INTO labeler_cursor (src, in_effect, verify, key, saved_at) VALUES (?, TRUE, ?, ?, {now_us})
         ON CONFLICT (src) DO UPDATE SET
             seq = CASE WHEN (excluded.verify AND NOT labeler_cursor.verify)
                     OR (COALESCE(excluded.key, '') <> COALESCE(labeler_cursor.key, '')
                         AND EXISTS (SELECT 1 FROM labels WHERE labels.src = excluded.src AND NOT labels.verified))
                 THEN 0 ELSE labeler_cursor.seq END,
             in_effect = TRUE, verify = excluded.verify, key = excluded.key, saved_at = excluded.saved_at
         RETURNING seq, era",
    );
    let position = session.first::<(BigInt, BigInt), _>(upsert.bind(src).bind(verify).bind(key)).await?;
    Ok(position.unwrap_or_default())
}

/// Notes up to which number a labeler was heard; never back.
pub(in crate::store) async fn advance(session: &mut Session, src: &str, seq: i64) -> QueryResult<()> {
    let update =
        Statement::new("UPDATE labeler_cursor SET seq = ?, saved_at = {now_us} WHERE src = ? AND seq < ?");
    session.execute(update.bind(seq).bind(src).bind(seq)).await?;
    Ok(())
}

/// Hears a labeler from its beginning again, as its numbers have begun anew.
pub(in crate::store) async fn restart(session: &mut Session, src: &str) -> QueryResult<()> {
    let update =
        Statement::new("UPDATE labeler_cursor SET seq = 0, era = era + 1, saved_at = {now_us} WHERE src = ?");
    session.execute(update.bind(src)).await?;
    Ok(())
}

/// Stores labels where they are the latest word on their subject and value; how many were. `labels` has each subject and
/// value once.
///
/// The latest is the one with the greatest time; of two with the same time, the one that comes later in the stream, where a
/// later era comes after an earlier one, and what a query found before both. With `verify` any verified one comes after all
/// that are not: nobody who cannot sign can end what the labeler has signed.
pub(in crate::store) async fn store(
    session: &mut Session,
    src: &str,
    era: i64,
    verify: bool,
    labels: &[LabelRow],
) -> QueryResult<usize> {
    let row = |label: &LabelRow| {
        let about = label.about.as_ref().map(About::stored);
        row![
            src,
            &label.uri,
            &label.val,
            &label.cid,
            label.neg,
            label.cts.0,
            label.exp.map(|exp| exp.0),
            label.seq.map(|_| era),
            label.seq,
            label.verified,
            about.map(|(subject, ..)| subject),
            about.map(|(_, did, _)| did),
            about.and_then(|(.., name)| name),
        ]
    };
    let rank = |of: &str| {
        let verified = if verify { format!("{of}.verified") } else { "TRUE".to_owned() };
        format!("({verified}, {of}.cts, COALESCE({of}.era, -1), COALESCE({of}.seq, -1))")
    };
    let text = format!(
        "WITH said (src, uri, val, cid, neg, cts, exp, era, seq, verified, subject, did, name) AS ({{rows}})
         INSERT INTO labels (src, uri, val, cid, neg, cts, exp, era, seq, verified, subject, did, name,
             changed_at, ended_at)
         SELECT src, uri, val, cid, neg, cts, exp, era, seq, verified, subject, did, name,
             {{now_us}}, CASE WHEN neg THEN {{now_us}} ELSE exp END
         FROM said
         WHERE TRUE
         ON CONFLICT (src, uri, val) DO UPDATE SET cid = excluded.cid, neg = excluded.neg, cts = excluded.cts,
             exp = excluded.exp, era = excluded.era, seq = excluded.seq, verified = excluded.verified,
             changed_at = excluded.changed_at, ended_at = excluded.ended_at
         WHERE {} > {}",
        rank("excluded"),
        rank("labels")
    );
    let mut changed = 0;
    for chunk in chunked(labels, row) {
        changed += session.execute(Statement::new(&text).rows(chunk)).await?;
    }
    Ok(changed)
}

//! `records`: the latest known revision of every record ever seen.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::chunked;
use crate::atproto::{Change, Collection, Did, State};
use crate::store::backfill::Whole;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// A record's key: DID, collection, rkey.
pub(in crate::store) type RecordKey = (String, String, String);

/// What is known of a record: DID, collection, rkey, rev, cid, state.
pub(in crate::store) type Version = (String, String, String, String, Option<String>, String);

/// A record that a listing lacks: DID, collection, rkey.
type Lacking = RecordKey;

/// Which of what is known a change gives way to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Unless {
    /// What is known is as new, or newer.
    AsNew,
    /// It is newer.
    Newer,
}

/// Those of the keys that are known, in no order.
pub(in crate::store) async fn known(session: &mut Session, of: &[&Change]) -> QueryResult<Vec<RecordKey>> {
    let mut known = Vec::new();
    for chunk in chunked(of, |c| row![c.did.as_str(), c.collection.nsid(), c.rkey.as_str()]) {
        let select = Statement::new(
            "WITH asked (did, collection, rkey) AS ({rows})
             SELECT did, collection, rkey FROM records
             WHERE (did, collection, rkey) IN (SELECT did, collection, rkey FROM asked)",
        );
        known.extend(session.load::<(Text, Text, Text), _>(select.each(chunk)).await?);
    }
    Ok(known)
}

/// How many records of one collection are known of an author.
pub(in crate::store) async fn count(
    session: &mut Session,
    did: &str,
    collection: Collection,
) -> QueryResult<usize> {
    let select = Statement::new("SELECT COUNT(*) FROM records WHERE did = ? AND collection = ?");
    let count = session.first::<BigInt, i64>(select.bind(did).bind(collection.nsid())).await?;
    Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0))
}

/// Stores the changes, but for those that give way to what is known, and returns the keys. One per key in `changes`.
pub(in crate::store) async fn upsert(
    session: &mut Session,
    changes: &[&Change],
    unless: Unless,
) -> QueryResult<Vec<RecordKey>> {
    let older = match unless {
        Unless::AsNew => "<",
        Unless::Newer => "<=",
    };
    let mut changed = Vec::new();
    for chunk in chunked(changes, |c| {
        let (rev, state) = (c.rev.as_str(), state(&c.state));
        row![c.did.as_str(), c.collection.nsid(), c.rkey.as_str(), rev, &c.cid, state]
    }) {
        let upsert = format!(
            "WITH new (did, collection, rkey, rev, cid, state) AS ({{rows}})
             INSERT INTO records (did, collection, rkey, rev, cid, state, changed_at)
             SELECT did, collection, rkey, rev, cid, state, {{now_us}} FROM new WHERE TRUE
             ON CONFLICT (did, collection, rkey) DO UPDATE SET
                 rev = excluded.rev, cid = excluded.cid, state = excluded.state, changed_at = excluded.changed_at
             WHERE records.rev{{bytes}} {older} excluded.rev
             RETURNING did, collection, rkey"
        );
        let upsert = Statement::new(&upsert).each(chunk);
        changed.extend(session.load::<(Text, Text, Text), _>(upsert).await?);
    }
    Ok(changed)
}

/// What is known of these records, in no order.
pub(in crate::store) async fn versions(session: &mut Session, of: &[&Change]) -> QueryResult<Vec<Version>> {
    let mut versions = Vec::new();
    for chunk in chunked(of, |c| row![c.did.as_str(), c.collection.nsid(), c.rkey.as_str()]) {
        let select = Statement::new(
            "WITH asked (did, collection, rkey) AS ({rows})
             SELECT did, collection, rkey, rev, cid, state FROM records
             WHERE (did, collection, rkey) IN (SELECT did, collection, rkey FROM asked)",
        );
        let rows =
            session.load::<(Text, Text, Text, Text, Nullable<Text>, Text), Version>(select.each(chunk));
        versions.extend(rows.await?);
    }
    Ok(versions)
}

/// These records are as they were at these revisions still: what is older than that and comes later is old news.
pub(in crate::store) async fn confirm(session: &mut Session, same: &[&Change]) -> QueryResult<()> {
    for chunk in chunked(same, |c| row![c.did.as_str(), c.collection.nsid(), c.rkey.as_str(), c.rev.as_str()])
    {
        let update = Statement::new(
            "WITH same (did, collection, rkey, rev) AS ({rows})
             UPDATE records SET rev = same.rev FROM same
             WHERE records.did = same.did AND records.collection = same.collection AND records.rkey = same.rkey
                 AND records.rev{bytes} < same.rev",
        );
        session.execute(update.each(chunk)).await?;
    }
    Ok(())
}

/// Records that are there, in collections that were read whole, and have not been seen at the listing's revision or later.
pub(in crate::store) async fn older_than(
    session: &mut Session,
    wholes: &[Whole],
    limit: usize,
) -> QueryResult<Vec<Lacking>> {
    let collections: Vec<_> = wholes
        .iter()
        .flat_map(|whole| whole.collections.iter().map(move |collection| (whole, collection)))
        .collect();
    let mut lacking = Vec::new();
    for chunk in chunked(&collections, |(whole, collection)| {
        row![whole.did.as_str(), collection.nsid(), whole.rev.as_str()]
    }) {
        let left = i64::try_from(limit - lacking.len()).unwrap_or(i64::MAX);
        let select = Statement::new(
            "WITH whole (did, collection, rev) AS ({rows})
             SELECT records.did, records.collection, records.rkey
             FROM whole CROSS JOIN records
             WHERE records.did = whole.did AND records.collection = whole.collection
                 AND records.state <> 'absent' AND records.rev{bytes} < whole.rev LIMIT ?",
        );
        lacking.extend(session.load::<(Text, Text, Text), _>(select.rows(chunk).bind(left)).await?);
    }
    Ok(lacking)
}

/// Forgets records of one repository, tombstones included: collection and rkey of each.
pub(in crate::store) async fn forget(
    session: &mut Session,
    did: &Did,
    limit: i64,
) -> QueryResult<Vec<(String, String)>> {
    let delete = Statement::new(
        "DELETE FROM records WHERE did = ? AND (collection, rkey) IN (
             SELECT collection, rkey FROM records WHERE did = ? LIMIT ?) RETURNING collection, rkey",
    );
    session.load::<(Text, Text), _>(delete.bind(did.as_str()).bind(did.as_str()).bind(limit)).await
}

/// The word for a state.
pub(in crate::store) fn state(state: &State) -> &'static str {
    match state {
        State::Present(_) => "present",
        State::Absent => "absent",
        State::Unreadable => "unreadable",
    }
}

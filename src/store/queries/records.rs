//! `records`: the latest known revision of every record ever seen.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Text};

use super::chunked;
use crate::atproto::{Change, Collection, State};
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// A record's key: DID, collection, rkey.
pub(in crate::store) type RecordKey = (String, String, String);

/// Those of the keys that are known, in no order.
pub(in crate::store) async fn known(session: &mut Session, of: &[&Change]) -> QueryResult<Vec<RecordKey>> {
    let mut known = Vec::new();
    for chunk in chunked(of, |c| row![c.did.as_str(), c.collection.nsid(), c.rkey.as_str()]) {
        let select = Statement::new(
            "WITH asked (did, collection, rkey) AS (VALUES {rows})
             SELECT did, collection, rkey FROM records
             WHERE (did, collection, rkey) IN (SELECT did, collection, rkey FROM asked)",
        );
        known.extend(session.load::<(Text, Text, Text), _>(select.rows(&chunk)).await?);
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

/// Stores the changes that are newer than what is known, and returns the keys of those. One per key in `changes`.
pub(in crate::store) async fn upsert_newer(
    session: &mut Session,
    changes: &[&Change],
) -> QueryResult<Vec<RecordKey>> {
    let mut changed = Vec::new();
    for chunk in chunked(changes, |c| {
        let (rev, state) = (c.rev.as_str(), state(&c.state));
        row![c.did.as_str(), c.collection.nsid(), c.rkey.as_str(), rev, &c.cid, state]
    }) {
        let upsert = Statement::new(
            "WITH new (did, collection, rkey, rev, cid, state) AS (VALUES {rows})
             INSERT INTO records (did, collection, rkey, rev, cid, state, changed_at)
             SELECT did, collection, rkey, rev, cid, state, {now_us} FROM new WHERE TRUE
             ON CONFLICT (did, collection, rkey) DO UPDATE SET
                 rev = excluded.rev, cid = excluded.cid, state = excluded.state, changed_at = excluded.changed_at
             WHERE records.rev{bytes} < excluded.rev
             RETURNING did, collection, rkey",
        );
        changed.extend(session.load::<(Text, Text, Text), _>(upsert.rows(&chunk)).await?);
    }
    Ok(changed)
}

fn state(state: &State) -> &'static str {
    match state {
        State::Present(_) => "present",
        State::Absent => "absent",
        State::Unreadable => "unreadable",
    }
}

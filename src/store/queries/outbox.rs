//! What the outbox asks of the index: what was known before a batch, what is known after it, and what is around an event.

use std::collections::{HashMap, HashSet};

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::chunked;
use super::records::RecordKey;
use crate::atproto::records::{Scan, Tag};
use crate::atproto::{Change, Did, Rev};
use crate::outbox::Counts;
use crate::outbox::fold::ManifestKey;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// The revisions of those records that are known.
pub(in crate::store) async fn revs(
    session: &mut Session,
    of: &[&Change],
) -> QueryResult<HashMap<RecordKey, Rev>> {
    let mut revs = HashMap::new();
    for chunk in chunked(of, |c| row![c.did.as_str(), c.collection.nsid(), c.rkey.as_str()]) {
        let select = Statement::new(
            "WITH asked (did, collection, rkey) AS ({rows})
             SELECT did, collection, rkey, rev FROM records
             WHERE (did, collection, rkey) IN (SELECT did, collection, rkey FROM asked)",
        );
        type Row = (String, String, String, String);
        let rows: Vec<Row> = session.load::<(Text, Text, Text, Text), Row>(select.rows(chunk)).await?;
        // What cannot be read is older than everything.
        let known = |(did, nsid, rkey, rev): Row| Some(((did, nsid, rkey), Rev::parse(&rev).ok()?));
        revs.extend(rows.into_iter().filter_map(known));
    }
    Ok(revs)
}

/// The manifests that these tags' rows name now, by repository and key.
pub(in crate::store) async fn tags(
    session: &mut Session,
    of: &[&Change],
) -> QueryResult<HashMap<(String, String), String>> {
    let mut tags = HashMap::new();
    for chunk in chunked(of, |c| row![c.did.as_str(), c.rkey.as_str()]) {
        let select = Statement::new(
            "WITH asked (did, rkey) AS ({rows})
             SELECT did, rkey, digest FROM tags WHERE (did, rkey) IN (SELECT did, rkey FROM asked)",
        );
        type Row = (String, String, String);
        let rows = session.load::<(Text, Text, Text), Row>(select.rows(chunk)).await?;
        tags.extend(rows.into_iter().map(|(did, rkey, digest)| ((did, rkey), digest)));
    }
    Ok(tags)
}

/// The latest scan that each hold has of each of these manifests.
pub(in crate::store) async fn scans(
    session: &mut Session,
    of: &[(&Did, &Scan)],
) -> QueryResult<HashMap<(String, String), Counts>> {
    let mut scans = HashMap::new();
    for chunk in chunked(of, |(hold, scan)| row![hold.as_str(), &scan.manifest_digest]) {
        let select = Statement::new(
            "WITH asked (hold, digest) AS ({rows})
             SELECT s.scanned_at, s.hold_did, s.manifest_digest, s.critical, s.high, s.medium, s.low, s.total
             FROM scans s WHERE (s.manifest_digest, s.hold_did) IN (SELECT digest, hold FROM asked)",
        );
        type Row = (i64, String, String, i64, i64, i64, i64, i64);
        type Types = (BigInt, Text, Text, BigInt, BigInt, BigInt, BigInt, BigInt);
        let mut rows: Vec<Row> = session.load::<Types, Row>(select.rows(chunk)).await?;
        rows.sort();
        scans.extend(rows.into_iter().map(|(_, hold, digest, critical, high, medium, low, total)| {
            ((hold, digest), Counts { critical, high, medium, low, total })
        }));
    }
    Ok(scans)
}

/// The manifests that these tags name: key, media type and hold.
pub(in crate::store) async fn manifests(
    session: &mut Session,
    of: &[(&Did, &Tag)],
) -> QueryResult<HashMap<ManifestKey, (String, String, Option<String>)>> {
    let mut manifests = HashMap::new();
    for chunk in chunked(of, |(did, tag)| row![did.as_str(), &tag.repository, &tag.digest]) {
        let select = Statement::new(
            "WITH asked (did, repository, digest) AS ({rows})
             SELECT m.did, m.repository, m.digest, m.rkey, m.media_type, m.hold_did FROM manifests m
             WHERE (m.digest, m.did, m.repository) IN (SELECT digest, did, repository FROM asked)",
        );
        type Row = (String, String, String, String, String, Option<String>);
        type Types = (Text, Text, Text, Text, Text, Nullable<Text>);
        let rows: Vec<Row> = session.load::<Types, Row>(select.rows(chunk)).await?;
        manifests.extend(rows.into_iter().map(|(did, repository, digest, rkey, media_type, hold)| {
            ((did, repository, digest), (rkey, media_type, hold))
        }));
    }
    Ok(manifests)
}

/// Those holds, owners and repositories where the hold is known and hosts the repository: as counts count.
pub(in crate::store) async fn trusted(
    session: &mut Session,
    of: &[(&Did, &Scan)],
) -> QueryResult<HashSet<(String, String, String)>> {
    let mut trusted = HashSet::new();
    for chunk in chunked(of, |(hold, scan)| row![hold.as_str(), scan.owner.as_str(), &scan.repository]) {
        let select = Statement::new(
            "WITH asked (hold, owner, repository) AS ({rows})
             SELECT DISTINCT a.hold, a.owner, a.repository FROM asked a
             WHERE EXISTS (SELECT 1 FROM captains c WHERE c.hold_did = a.hold)
             AND EXISTS (SELECT 1 FROM manifests m
                         WHERE m.did = a.owner AND m.repository = a.repository AND m.hold_did = a.hold)",
        );
        trusted.extend(session.load::<(Text, Text, Text), _>(select.rows(chunk)).await?);
    }
    Ok(trusted)
}

/// What an event is about: its delivery, the user, the repository, the manifest, and the hold.
pub(in crate::store) type About = (String, String, String, String, Option<String>);

/// What is around it: its delivery, the user's handle, the hold's address, stars, pulls, and the manifest's newest tag.
pub(in crate::store) type AroundRow = (String, String, Option<String>, i64, i64, Option<String>);

/// What is around these events now.
pub(in crate::store) async fn around(session: &mut Session, of: &[About]) -> QueryResult<Vec<AroundRow>> {
    let mut around = Vec::new();
    for chunk in chunked(of, |(id, user, repository, digest, hold)| row![id, user, repository, digest, hold])
    {
        let select = Statement::new(
            "WITH asked (id, did, repository, digest, hold) AS ({rows})
             SELECT a.id, u.handle, (SELECT h.pds FROM users h WHERE h.did = a.hold),
                 (SELECT COUNT(*) FROM stars s WHERE s.owner_did = a.did AND s.repository = a.repository),
                 COALESCE((SELECT n.pull_count FROM repository_stats n
                           WHERE n.did = a.did AND n.repository = a.repository), 0),
                 (SELECT t.tag FROM tags t WHERE t.did = a.did AND t.repository = a.repository AND t.digest = a.digest
                  ORDER BY t.created_at DESC, t.tag LIMIT 1)
             FROM asked a JOIN users u ON u.did = a.did",
        );
        type Types = (Text, Text, Nullable<Text>, BigInt, BigInt, Nullable<Text>);
        around.extend(session.load::<Types, AroundRow>(select.rows(chunk)).await?);
    }
    Ok(around)
}

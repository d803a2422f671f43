//! A listing of a repository beside what is known of it.
//!
//! A listing tells no revisions but one, from before its first page: it shows each record as it was at that revision or
//! later. So it goes before what is known from that revision or an earlier one, and gives way to what is known from a
//! later one, a deletion included: that came by the stream, or will. What is the same in both is not written again, only
//! confirmed: its revision rises, so that what happened in between and comes late is known for old news. Then whatever is
//! known from an earlier revision was not listed, and is gone.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::backfill::{Changed, ListedPart, Merged, Whole};
use super::queries::records::{Unless, Version, state};
use super::session::Session;
use super::{IdentityDue, WriteError, apply, queries};
use crate::atproto::{Change, Collection, Did, State};

/// Records that one transaction brings or deletes at most: as many as one of the stream's. At half, a large repository
/// takes twice the commits; at double, others who write wait for it.
pub const MERGE_ROWS_MAX: usize = 500;

/// Merges parts of listings.
pub(super) async fn merge(session: &mut Session, parts: &[&ListedPart]) -> Result<Merged, WriteError> {
    let records: Vec<&Change> = parts.iter().flat_map(|part| &part.records).collect();
    assert!(records.len() <= MERGE_ROWS_MAX, "a part of a listing is bounded");
    let mut merged = Merged { changed: vec![Changed::new(); parts.len()], ..Merged::default() };
    if records.is_empty() {
        return Ok(merged);
    }
    let authors: BTreeSet<&Did> = records.iter().map(|change| &change.did).collect();
    let authors: Vec<Did> = authors.into_iter().cloned().collect();
    let new = queries::users::insert_missing(session, &authors).await?;
    // Those without a record too: what they lack is deleted next, and locks are taken in one order.
    queries::users::lock(session, &parts.iter().map(|part| part.did.clone()).collect::<Vec<_>>()).await?;
    let strangers: HashSet<String> = new.iter().map(|(did, _)| did.clone()).collect();
    let of_others = apply::of_known_authors(&records, &strangers);
    let versions = queries::records::versions(session, &of_others).await?;
    let known = Known::of(&versions);
    let mut sorted = Sorted::default();
    for (part, changed) in parts.iter().zip(&mut merged.changed) {
        *changed = sorted.take(part, &known);
    }
    queries::records::confirm(session, &sorted.confirmed).await?;
    let stored = apply::store(session, sorted.stored, &known.keys(), Unless::Newer).await?;
    merged.over_limit = stored.applied.over_limit;
    let due =
        |(did, due_at): (String, i64)| Ok(IdentityDue { did: super::stored_did(&did)?, due_at, failures: 0 });
    let due: Result<_, super::ReadError> = new.into_iter().map(due).collect();
    merged.identities_due = due.map_err(|error| WriteError::Database(error.to_string()))?;
    Ok(merged)
}

/// Deletes what whole listings do not have, [`MERGE_ROWS_MAX`] records at most.
pub(super) async fn delete_unlisted(
    session: &mut Session,
    wholes: &[Whole],
) -> Result<Vec<Changed>, WriteError> {
    let mut deleted = vec![Changed::new(); wholes.len()];
    let dids: Vec<Did> = wholes.iter().map(|whole| whole.did.clone()).collect();
    queries::users::lock(session, &dids).await?;
    let lacking = queries::records::older_than(session, wholes, MERGE_ROWS_MAX).await?;
    if lacking.is_empty() {
        return Ok(deleted);
    }
    let places: HashMap<&str, usize> = (0..).zip(&dids).map(|(place, did)| (did.as_str(), place)).collect();
    let mut changes = Vec::with_capacity(lacking.len());
    for (did, nsid, rkey) in &lacking {
        let wrong = || WriteError::Database(format!("a stored record key {did:?} {nsid:?} {rkey:?}"));
        let place = *places.get(did.as_str()).ok_or_else(wrong)?;
        let (collection, rkey) =
            (Collection::from_nsid(nsid).ok_or_else(wrong)?, rkey.parse().map_err(|_| wrong())?);
        let Whole { did, rev, .. } = &wholes[place];
        changes.push(Change {
            did: did.clone(),
            collection,
            rkey,
            rev: *rev,
            cid: None,
            state: State::Absent,
        });
        *deleted[place].entry(collection).or_default() += 1;
    }
    let known = changes.iter().map(apply::key).collect();
    apply::store(session, changes.iter().collect(), &known, Unless::AsNew).await?;
    Ok(deleted)
}

/// What is known of records, by their keys.
struct Known<'a>(HashMap<(&'a str, &'a str, &'a str), &'a Version>);

impl<'a> Known<'a> {
    fn of(versions: &'a [Version]) -> Self {
        Self(versions.iter().map(|v| ((v.0.as_str(), v.1.as_str(), v.2.as_str()), v)).collect())
    }

    fn keys(&self) -> apply::Keys<'a> {
        self.0.keys().copied().collect()
    }
}

/// What has to be done about each record of the parts.
#[derive(Debug, Default, PartialEq)]
struct Sorted<'a> {
    /// Nothing, but to note that it is still so.
    confirmed: Vec<&'a Change>,
    /// Its rows are written.
    stored: Vec<&'a Change>,
}

impl<'a> Sorted<'a> {
    /// Sorts one part, and tells how many of its records are not what was known. Pure.
    fn take(&mut self, part: &'a ListedPart, known: &Known<'_>) -> Changed {
        let mut changed = Changed::new();
        for change in &part.records {
            let key = (change.did.as_str(), change.collection.nsid(), change.rkey.as_str());
            let same = match known.0.get(&key) {
                Some((_, _, _, rev, _, _)) if rev.as_str() > part.rev.as_str() => continue,
                Some((_, _, _, _, cid, known)) => {
                    change.cid.is_some() && *cid == change.cid && known.as_str() == state(&change.state)
                }
                None => false,
            };
            if same && !part.forced {
                self.confirmed.push(change);
                continue;
            }
            self.stored.push(change);
            if !same {
                *changed.entry(change.collection).or_default() += 1;
            }
        }
        changed
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::atproto::Rev;

    const REVS: [&str; 3] = ["3aaaaaaaaaaa2", "3bbbbbbbbbbb2", "3ccccccccccc2"];

    fn listed(cid: Option<&str>, state: State) -> ListedPart {
        let (did, rev) = (Did::parse("did:plc:me").unwrap(), Rev::parse(REVS[1]).unwrap());
        let collection = Collection::Tag;
        let rkey = "t".parse().unwrap();
        let change = Change { did: did.clone(), collection, rkey, rev, cid: cid.map(str::to_owned), state };
        ListedPart { did, rev, records: vec![change], forced: false }
    }

    /// Confirmed, stored, changed.
    fn counts(part: &ListedPart, known: &[(&str, Option<&str>, &str)]) -> (usize, usize, usize) {
        let version = |(rev, cid, state): &(&str, Option<&str>, &str)| {
            let [did, nsid, rkey] = ["did:plc:me", "io.atcr.tag", "t"].map(str::to_owned);
            (did, nsid, rkey, (*rev).to_owned(), cid.map(str::to_owned), (*state).to_owned())
        };
        let known: Vec<_> = known.iter().map(version).collect();
        let mut sorted = Sorted::default();
        let changed = sorted.take(part, &Known::of(&known));
        (sorted.confirmed.len(), sorted.stored.len(), changed.values().sum())
    }

    #[test]
    fn a_listed_record_gives_way_to_what_is_known_from_a_later_revision_alone() {
        let part = listed(Some("cid-new"), State::Unreadable);
        for known in ["present", "absent", "unreadable"] {
            assert_eq!(counts(&part, &[(REVS[2], None, known)]), (0, 0, 0), "{known}");
            assert_eq!(counts(&part, &[(REVS[1], None, known)]), (0, 1, 1), "{known}");
            assert_eq!(counts(&part, &[(REVS[0], None, known)]), (0, 1, 1), "{known}");
        }
        assert_eq!(counts(&part, &[]), (0, 1, 1));
    }

    #[test]
    fn a_record_that_is_the_same_is_confirmed_and_not_written_unless_it_is_asked_for() {
        let mut part = listed(Some("cid"), State::Unreadable);
        for rev in [REVS[0], REVS[1]] {
            assert_eq!(counts(&part, &[(rev, Some("cid"), "unreadable")]), (1, 0, 0));
        }
        // A newer version of the program may read what an older one could not.
        assert_eq!(counts(&part, &[(REVS[0], Some("cid"), "present")]), (0, 1, 1));
        assert_eq!(counts(&part, &[(REVS[0], Some("other"), "unreadable")]), (0, 1, 1));
        part.forced = true;
        assert_eq!(counts(&part, &[(REVS[0], Some("cid"), "unreadable")]), (0, 1, 0));
        // Without a content address nobody knows.
        assert_eq!(counts(&listed(None, State::Unreadable), &[(REVS[0], None, "unreadable")]), (0, 1, 1));
    }
}

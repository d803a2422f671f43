//! A listing of a repository beside what is known of it.
//!
//! A listing tells no revisions but one, from before its first page: it shows each record as it was at that revision or
//! later. So it goes before what is known from that revision or an earlier one, and gives way to what is known from a
//! later one, a deletion included: that came by the stream, or will. What is the same in both is not written again, only
//! confirmed: its revision rises, so that what happened in between and comes late is known for old news. Then whatever is
//! known from an earlier revision was not listed, and is gone.

use std::collections::{BTreeMap, HashMap};

use super::backfill::{ListedPart, Merged};
use super::queries::records::{Unless, Version, state};
use super::session::Session;
use super::{IdentityDue, WriteError, apply, queries};
use crate::atproto::{Change, Collection, Did, Rev, State};

/// Records that one transaction brings or deletes at most: as many as one of the stream's. At half, a large repository
/// takes twice the commits; at double, others who write wait for it.
pub const MERGE_ROWS_MAX: usize = 500;

/// Merges a part of a listing.
pub(super) async fn merge(session: &mut Session, part: &ListedPart) -> Result<Merged, WriteError> {
    assert!(part.records.len() <= MERGE_ROWS_MAX, "a part of a listing is bounded");
    if part.records.is_empty() {
        return Ok(Merged::default());
    }
    let author = std::slice::from_ref(&part.did);
    let is_new = !queries::users::insert_missing(session, author).await?.is_empty();
    queries::users::lock(session, author).await?;
    let known = queries::records::versions(session, &part.did, &part.records).await?;
    let sorted = Sorted::of(part, &known);
    queries::records::confirm(session, &part.did, part.rev, &sorted.confirmed).await?;
    let applied = apply::store(session, sorted.stored, Unless::Newer).await?.applied;

    let mut merged = Merged { changed: sorted.changed, over_limit: applied.over_limit, ..Merged::default() };
    if is_new && let Some(due_at) = queries::users::due_at(session, &part.did).await? {
        merged.identity_due = Some(IdentityDue { did: part.did.clone(), due_at, failures: 0 });
    }
    Ok(merged)
}

/// Deletes what whole listings of these collections do not have, [`MERGE_ROWS_MAX`] records at most; how many of each.
pub(super) async fn delete_unlisted(
    session: &mut Session,
    did: &Did,
    collections: &[Collection],
    rev: Rev,
) -> Result<BTreeMap<Collection, usize>, WriteError> {
    if collections.is_empty() {
        return Ok(BTreeMap::new());
    }
    queries::users::lock(session, std::slice::from_ref(did)).await?;
    let limit = i64::try_from(MERGE_ROWS_MAX).unwrap_or(i64::MAX);
    let keys = queries::records::older_than(session, did, collections, rev, limit).await?;
    let absent = |(nsid, rkey): &(String, String)| {
        let wrong = || WriteError::Database(format!("a stored record key {nsid:?} {rkey:?}"));
        let (collection, rkey) =
            (Collection::from_nsid(nsid).ok_or_else(wrong)?, rkey.parse().map_err(|_| wrong())?);
        Ok(Change { did: did.clone(), collection, rkey, rev, cid: None, state: State::Absent })
    };
    let changes = keys.iter().map(absent).collect::<Result<Vec<_>, WriteError>>()?;
    if changes.is_empty() {
        return Ok(BTreeMap::new());
    }
    Ok(apply::store(session, changes.iter().collect(), Unless::AsNew).await?.applied.changed)
}

/// What has to be done about each record of a part.
#[derive(Debug, Default, PartialEq)]
struct Sorted<'a> {
    /// Nothing, but to note that it is still so.
    confirmed: Vec<&'a Change>,
    /// Its rows are written.
    stored: Vec<&'a Change>,
    /// Of those, how many are not what was known.
    changed: BTreeMap<Collection, usize>,
}

impl<'a> Sorted<'a> {
    /// Pure. The records are of one repository, each once.
    fn of(part: &'a ListedPart, known: &[Version]) -> Self {
        let known: HashMap<_, _> = known
            .iter()
            .map(|(nsid, rkey, rev, cid, state)| ((nsid.as_str(), rkey.as_str()), (rev, cid, state)))
            .collect();
        let mut sorted = Self::default();
        for change in &part.records {
            let same = match known.get(&(change.collection.nsid(), change.rkey.as_str())) {
                Some((rev, _, _)) if rev.as_str() > part.rev.as_str() => continue,
                Some((_, cid, known)) => {
                    change.cid.is_some() && **cid == change.cid && known.as_str() == state(&change.state)
                }
                None => false,
            };
            if same && !part.forced {
                sorted.confirmed.push(change);
                continue;
            }
            sorted.stored.push(change);
            if !same {
                *sorted.changed.entry(change.collection).or_default() += 1;
            }
        }
        sorted
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
            let (nsid, cid) = ("io.atcr.tag".to_owned(), cid.map(str::to_owned));
            (nsid, "t".to_owned(), (*rev).to_owned(), cid, (*state).to_owned())
        };
        let known: Vec<_> = known.iter().map(version).collect();
        let sorted = Sorted::of(part, &known);
        (sorted.confirmed.len(), sorted.stored.len(), sorted.changed.values().sum())
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

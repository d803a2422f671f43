//! From what repositories say to the rows of the index, in one transaction.
//!
//! Each row of a record's own table is a function of that record's latest version alone, so rows are replaced, never
//! merged, and the order of arrival cannot show.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::WriteError;
use super::outlook::Outlook;
use super::queries::records::Unless;
use super::queries::{self, Key, hold_records, manifests, user_records};
use super::session::Session;
use crate::atproto::{Change, Collection, Did, Record, Rkey, State};
use crate::outbox::Trigger;

/// Rows of `records` per author in each collection that anybody can fill with entries about others. A hold of more
/// repositories than this is not known; at double, a forger costs twice the space.
const RECORDS_PER_AUTHOR_MAX: usize = 10_000;

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Records that changed, by collection; a revision that makes no difference to the rows included.
    pub changed: BTreeMap<Collection, usize>,
    /// Changes that were known, or older than what is known, or followed by a newer one in the batch.
    pub unchanged: usize,
    /// Changes that were dropped because their author has too many records.
    pub over_limit: usize,
    /// Authors that got a row now. Their identities are due.
    pub new_users: Vec<Did>,
    /// Deliveries that were put into the outbox, by trigger.
    pub put: BTreeMap<Trigger, usize>,
    /// Deliveries that were failed for them, as too many were waiting.
    pub dropped: usize,
}

/// What became of changes, and which of them it were whose rows are new.
pub(super) struct Stored<'a> {
    pub(super) applied: Applied,
    pub(super) written: Vec<&'a Change>,
}

/// The steps, in the order in which they lock: authors, records, sums, deliveries.
pub(super) async fn apply(session: &mut Session, changes: &[Change]) -> Result<Applied, WriteError> {
    let latest = latest(changes);
    let authors: Vec<Did> =
        latest.iter().map(|c| &c.did).collect::<BTreeSet<_>>().into_iter().cloned().collect();
    let new = queries::users::insert_missing(session, &authors).await?;
    queries::users::lock(session, &authors).await?;
    let new: HashSet<String> = new.into_iter().map(|(did, _)| did).collect();

    let outlook = Outlook::before(session, changes).await?;
    let known = queries::records::known(session, &of_known_authors(&latest, &new)).await?;
    let known: Keys<'_> = known.iter().map(|(did, nsid, rkey)| (&**did, &**nsid, &**rkey)).collect();
    let Stored { mut applied, written } = store(session, latest, &known, Unless::AsNew).await?;
    if let Some(outlook) = outlook {
        let written = written
            .into_iter()
            .map(key)
            .map(|(did, nsid, rkey)| (did.into(), nsid.into(), rkey.into()))
            .collect();
        (applied.put, applied.dropped) = outlook.put(session, changes, written).await?;
    }
    applied.unchanged = changes.len() - applied.changed.values().sum::<usize>() - applied.over_limit;
    applied.new_users = authors.into_iter().filter(|did| new.contains(did.as_str())).collect();
    Ok(applied)
}

/// Who has a row only now has no records.
pub(super) fn of_known_authors<'a>(changes: &[&'a Change], new: &HashSet<String>) -> Vec<&'a Change> {
    changes.iter().copied().filter(|change| !new.contains(change.did.as_str())).collect()
}

/// Records and sums. The authors have rows, which are locked; one change per record, and `known` has those of them that are
/// known. New users are not told.
///
/// Nothing is put into the outbox: that is for what the stream brings alone.
pub(super) async fn store<'a>(
    session: &mut Session,
    changes: Vec<&'a Change>,
    known: &Keys<'_>,
    unless: Unless,
) -> Result<Stored<'a>, WriteError> {
    let count = changes.len();
    let (within, over_limit) = within_limit(session, changes, known).await?;
    let changed = queries::records::upsert(session, &within, unless).await?;
    let changed: Keys<'_> = changed.iter().map(|(did, nsid, rkey)| (&**did, &**nsid, &**rkey)).collect();
    let changed: Vec<&Change> = within.into_iter().filter(|c| changed.contains(&key(c))).collect();
    let touched = replace_rows(session, &changed, known).await?;
    queries::repository_stats::recompute(session, &Vec::from_iter(touched)).await?;

    let unchanged = count - changed.len() - over_limit;
    let mut applied = Applied { over_limit, unchanged, ..Applied::default() };
    for change in &changed {
        *applied.changed.entry(change.collection).or_default() += 1;
    }
    Ok(Stored { applied, written: changed })
}

/// Makes the index forget so many records of a repository, as if it had never seen them. True: there are more.
pub(super) async fn forget(session: &mut Session, did: &Did, limit: u32) -> Result<bool, WriteError> {
    queries::users::lock(session, std::slice::from_ref(did)).await?;
    let gone = queries::records::forget(session, did, limit.into()).await?;
    let mut touched = BTreeSet::new();
    for collection in Collection::ALL {
        let of = gone.iter().filter(|(nsid, _)| nsid == collection.nsid());
        let keys: Vec<Key<'_>> = of.map(|(_, rkey)| (did.as_str(), rkey.as_str())).collect();
        if !keys.is_empty() {
            touched.extend(delete_rows(session, collection, &keys).await?);
        }
    }
    queries::repository_stats::recompute(session, &Vec::from_iter(touched)).await?;
    Ok(gone.len() >= limit as usize)
}

/// Of each record the change with the greatest revision, of equal ones the first, by key.
fn latest(changes: &[Change]) -> Vec<&Change> {
    let mut latest: BTreeMap<(&Did, Collection, &Rkey), &Change> = BTreeMap::new();
    for change in changes {
        let kept = latest.entry((&change.did, change.collection, &change.rkey)).or_insert(change);
        if kept.rev < change.rev {
            *kept = change;
        }
    }
    latest.into_values().collect()
}

/// Drops records that would exceed [`RECORDS_PER_AUTHOR_MAX`]; known ones may always change. Returns how many.
async fn within_limit<'a>(
    session: &mut Session,
    changes: Vec<&'a Change>,
    known: &Keys<'_>,
) -> Result<(Vec<&'a Change>, usize), WriteError> {
    let is_limited = |c: &&&Change| matches!(c.collection, Collection::Stats | Collection::Scan);
    let mut room: BTreeMap<(&Did, Collection), usize> = BTreeMap::new();
    let mut over = HashSet::new();
    for change in changes.iter().filter(is_limited).filter(|c| !known.contains(&key(c))) {
        let room = match room.entry((&change.did, change.collection)) {
            Entry::Occupied(counted) => counted.into_mut(),
            Entry::Vacant(uncounted) => {
                let count = queries::records::count(session, change.did.as_str(), change.collection).await?;
                uncounted.insert(RECORDS_PER_AUTHOR_MAX.saturating_sub(count))
            }
        };
        if *room == 0 {
            over.insert(key(change));
        }
        *room = room.saturating_sub(1);
    }
    let within = changes.iter().copied().filter(|c| !over.contains(&key(c))).collect();
    Ok((within, over.len()))
}

/// Keys of records: DID, collection, rkey.
pub(super) type Keys<'a> = HashSet<(&'a str, &'a str, &'a str)>;

pub(super) fn key(change: &Change) -> (&str, &str, &str) {
    (change.did.as_str(), change.collection.nsid(), change.rkey.as_str())
}

/// Puts the rows of the changed records in the place of the old ones, which only a known record can have. Returns the
/// repositories (owner, name) whose sums may have changed by that.
async fn replace_rows(
    session: &mut Session,
    changed: &[&Change],
    known: &Keys<'_>,
) -> Result<BTreeSet<(String, String)>, WriteError> {
    let mut touched = BTreeSet::new();
    for collection in Collection::ALL {
        let changed: Vec<&Change> = changed.iter().copied().filter(|c| c.collection == collection).collect();
        if changed.is_empty() {
            continue;
        }
        // Of a hold there may be counts before its captain is known: they begin to count.
        let has_old = |c: &&Change| collection == Collection::Captain || known.contains(&key(c));
        let old: Vec<&Change> = changed.iter().copied().filter(has_old).collect();
        if !old.is_empty() {
            let keys: Vec<Key<'_>> = old.iter().map(|c| (c.did.as_str(), c.rkey.as_str())).collect();
            touched.extend(delete_rows(session, collection, &keys).await?);
        }
        let rows = Rows::of(&changed);
        touched.extend(rows.repositories());
        rows.insert(session).await?;
    }
    Ok(touched)
}

async fn delete_rows(
    session: &mut Session,
    collection: Collection,
    keys: &[Key<'_>],
) -> Result<Vec<(String, String)>, WriteError> {
    let mut touched = Vec::new();
    match collection {
        Collection::Manifest => touched = manifests::delete(session, keys).await?,
        Collection::Tag => user_records::delete(session, "tags", keys).await?,
        Collection::Page => user_records::delete(session, "repo_pages", keys).await?,
        Collection::Profile => user_records::delete(session, "profiles", keys).await?,
        Collection::Star => user_records::delete(session, "stars", keys).await?,
        Collection::Captain => {
            touched = hold_records::counted_by(session, keys).await?;
            hold_records::delete_captains(session, keys).await?;
        }
        Collection::Crew => hold_records::delete(session, "crew", keys).await?,
        Collection::Stats => touched = hold_records::delete_stats(session, keys).await?,
        Collection::Scan => hold_records::delete(session, "scans", keys).await?,
    }
    Ok(touched)
}

macro_rules! rows {
    ($($field:ident: $record:ident => $insert:path,)*) => {
        /// The records that are there, by table.
        #[derive(Default)]
        struct Rows<'a> {
            $($field: Vec<(Key<'a>, &'a crate::atproto::records::$record)>,)*
        }

        impl<'a> Rows<'a> {
            fn of(changes: &[&'a Change]) -> Self {
                let mut rows = Self::default();
                for change in changes {
                    let key = (change.did.as_str(), change.rkey.as_str());
                    if let State::Present(record) = &change.state {
                        match &**record {
                            $(Record::$record(record) => rows.$field.push((key, record)),)*
                        }
                    }
                }
                rows
            }

            async fn insert(&self, session: &mut Session) -> Result<(), WriteError> {
                $($insert(session, &self.$field).await?;)*
                Ok(())
            }
        }
    };
}

rows! {
    manifests: Manifest => manifests::insert,
    tags: Tag => user_records::insert_tags,
    pages: Page => user_records::insert_pages,
    profiles: Profile => user_records::insert_profiles,
    stars: Star => user_records::insert_stars,
    captains: Captain => hold_records::insert_captains,
    crew: Crew => hold_records::insert_crew,
    stats: Stats => hold_records::insert_stats,
    scans: Scan => hold_records::insert_scans,
}

impl Rows<'_> {
    /// The repositories (owner, name) whose sums these rows may change. Those of captains are known by their counts.
    fn repositories(&self) -> impl Iterator<Item = (String, String)> {
        let hosted = self.manifests.iter().map(|((did, _), m)| (did.to_string(), m.repository.clone()));
        let counted = self.stats.iter().map(|(_, s)| (s.owner.to_string(), s.repository.clone()));
        hosted.chain(counted)
    }
}

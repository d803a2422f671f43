//! Identities for those who may use an answer that is a little old: what a status page shows, whom a hold belongs to, with
//! which key a label was signed. Owns how old an answer may be. The stream's look-ups and the backfill ask afresh instead.
//!
//! A failure for now never takes the place of an answer: the older one is given, with its age. A failure that is certain
//! (no such account, deleted, no document) does.

mod entry;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Identity, IdentityError, Resolver};
use crate::atproto::did::Did;
use entry::Entry;

/// Accounts that are remembered, at some 500 bytes each.
const ENTRIES_MAX: usize = 10_000;
/// How many of the longest unused go when that is reached: a look over all of them is worth it once in so many.
const FORGET_AT_ONCE: usize = ENTRIES_MAX / 10;

/// Finds out who somebody is.
#[async_trait]
pub trait LookUp: Send + Sync {
    /// Asks now.
    async fn look_up(&self, did: &Did) -> Result<Identity, IdentityError>;
}

#[async_trait]
impl LookUp for Resolver {
    async fn look_up(&self, did: &Did) -> Result<Identity, IdentityError> {
        self.resolve(did).await
    }
}

/// An answer, and how long ago it was true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// As it was found.
    pub identity: Arc<Identity>,
    /// Since then. Below an hour unless the account's source is out of order, and never above a day.
    pub age: Duration,
}

/// Remembers identities. Cheap to clone.
#[derive(Clone)]
pub struct IdentityCache {
    look_up: Arc<dyn LookUp>,
    entries: Arc<Mutex<HashMap<Did, Entry>>>,
}

impl IdentityCache {
    /// Remembers nobody yet. Limits per host are those of the client behind `look_up`.
    pub fn new(look_up: impl LookUp + 'static) -> Self {
        Self { look_up: Arc::new(look_up), entries: Arc::default() }
    }

    /// Who `did` is, by an answer that is not too old, or by asking. However many ask at once about one account, its source
    /// is asked once. Cancel-safe: if the one that asks gives up, the next one asks.
    pub async fn get(&self, did: &Did) -> Result<Known, IdentityError> {
        let asking = {
            let now = Instant::now();
            let mut entries = self.lock();
            if let Some(entry) = entries.get_mut(did)
                && let Some(at_hand) = entry.at_hand(now)
            {
                return at_hand;
            }
            if !entries.contains_key(did) {
                make_room(&mut entries);
            }
            entries.entry(did.clone()).or_insert_with(|| Entry::new(now)).asking()
        };
        let _turn = asking.lock().await;
        // Whoever had the turn before may have found it out.
        let edition = {
            let mut entries = self.lock();
            match entries.get_mut(did).map(|entry| (entry.at_hand(Instant::now()), entry.edition())) {
                Some((Some(at_hand), _)) => return at_hand,
                found => found.map(|(_, edition)| edition),
            }
        };
        let found = self.look_up.look_up(did).await;
        let now = Instant::now();
        let mut entries = self.lock();
        match entries.get_mut(did) {
            Some(entry) => entry.found(found, edition, now),
            // It was forgotten to make room; the answer is good for whoever asked.
            None => Entry::new(now).found(found, None, now),
        }
    }

    /// Something about `did` may have changed (an identity event): the next one who wants to know asks. Until that succeeds, the
    /// older answer stands in. A look-up that is under way counts as older.
    pub fn forget(&self, did: &Did) {
        if let Some(entry) = self.lock().get_mut(did) {
            entry.expire();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Did, Entry>> {
        // Nothing in the map can be half done.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the longest unused, but for those that are being asked about.
fn make_room(entries: &mut HashMap<Did, Entry>) {
    if entries.len() < ENTRIES_MAX {
        return;
    }
    let mut idle: Vec<(Instant, Did)> = entries
        .iter()
        .filter(|(_, entry)| entry.is_idle())
        .map(|(did, entry)| (entry.used_at(), did.clone()))
        .collect();
    idle.sort_unstable();
    idle.iter().take(FORGET_AT_ONCE).for_each(|(_, did)| drop(entries.remove(did)));
}

#[cfg(test)]
mod tests;

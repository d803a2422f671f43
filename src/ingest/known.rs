//! Which accounts have a row: the sieve that keeps the whole network's account and identity events away from the
//! database (jetstream-legacy#38, statusphere-example-app#66).

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// The accounts with a row, as keyed 64-bit hashes: 8 bytes each instead of a text. Two DIDs of one hash cost a write
/// that matches no row, nothing more. It may lag behind: what another writer adds is seen at the next reload, and what
/// an event said before that, the backfill asks for.
#[derive(Debug, Default)]
pub struct Known {
    hashes: HashSet<u64>,
    key: RandomState,
}

impl Known {
    /// Forgets all and takes these.
    pub fn reload<'a>(&mut self, dids: impl Iterator<Item = &'a str>) {
        self.hashes.clear();
        self.extend(dids);
    }

    /// Takes these too.
    pub fn extend<'a>(&mut self, dids: impl Iterator<Item = &'a str>) {
        self.hashes.extend(dids.map(|did| self.key.hash_one(did)));
    }

    /// Whether the account has a row.
    pub fn contains(&self, did: &str) -> bool {
        self.hashes.contains(&self.key.hash_one(did))
    }
}

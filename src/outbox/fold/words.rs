//! What is known and what is asked, as the folding takes and gives it.

use std::collections::{HashMap, HashSet};

use crate::atproto::{Did, Rev};
use crate::outbox::event::{Counts, Wanted};

/// A record's key: its repository, collection and key.
pub type RecordKey = (String, String, String);

/// A manifest's place: whose, which repository, which digest.
pub type ManifestKey = (String, String, String);

/// A webhook that is enabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Which.
    pub id: i64,
    /// Whose.
    pub user: Did,
    /// Its bits.
    pub triggers: i64,
}

/// What the index knew before the batch, of the records in it.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The revisions of records.
    pub revs: HashMap<RecordKey, Rev>,
    /// The manifest that a tag's record named, by repository and key.
    pub tags: HashMap<(String, String), String>,
    /// The latest scans, by hold and digest.
    pub scans: HashMap<(String, String), Counts>,
    /// The manifests that the batch's tags name: key, media type and hold.
    pub manifests: HashMap<ManifestKey, (String, String, Option<String>)>,
}

/// What the index knows after it.
#[derive(Clone, Debug, Default)]
pub struct After {
    /// Records whose rows the batch changed.
    pub written: HashSet<RecordKey>,
    /// Holds, owners and repositories where the hold is known and hosts the repository.
    pub trusted: HashSet<(String, String, String)>,
}

/// A push that waits for its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The delivery.
    pub id: String,
    /// Whose.
    pub webhook: i64,
    /// What it is of.
    pub repository: String,
    /// The manifest.
    pub digest: String,
    /// Its key so far, without the tag.
    pub dedupe_key: String,
}

/// A delivery to be put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Whose.
    pub webhook: i64,
    /// What.
    pub wanted: Wanted,
    /// Whether it waits for its tag.
    pub waits: bool,
}

/// An open push that got its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The delivery.
    pub id: String,
    /// Its tag.
    pub tag: String,
    /// Its key from now on.
    pub dedupe_key: String,
    /// What is put in if it went out in the meantime.
    pub instead: Put,
}

/// What a batch asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// In the order of the events.
    pub puts: Vec<Put>,
    /// As above.
    pub completions: Vec<Completion>,
}

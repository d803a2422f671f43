//! What happened, as it is put into the outbox: what the payload cannot find out later.

use serde::{Deserialize, Serialize};

use crate::atproto::records::Scan;
use crate::atproto::{Change, Did};

/// Something that webhooks are told of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// A manifest was stored, or a tag came to one.
    Push(Push),
    /// A manifest was scanned.
    Scan(Scanned),
    /// Somebody asked for a test.
    Test {
        /// When (microseconds).
        at: i64,
    },
}

/// A push. Its tag is beside it, as it may come later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the manifest's")]
pub struct Push {
    /// When, as the record says (microseconds).
    pub at: i64,
    pub media_type: String,
    pub hold: Option<String>,
}

/// A scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the scan's")]
pub struct Scanned {
    /// When, as the record says (microseconds).
    pub at: i64,
    pub hold: String,
    pub scanner_version: String,
    pub counts: Counts,
    /// Those of the scan before, if there was one.
    pub previous: Option<Counts>,
}

/// Vulnerabilities by severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Counts {
    pub critical: i64,
    pub high: i64,
    pub medium: i64,
    pub low: i64,
    pub total: i64,
}

impl Counts {
    /// Those of a record.
    pub fn of(scan: &Scan) -> Self {
        let Scan { critical, high, medium, low, total, .. } = *scan;
        Self { critical, high, medium, low, total }
    }
}

/// One delivery that an event asks for, of every webhook of `user` that has the trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose webhooks.
    pub user: Did,
    /// Which of them.
    pub trigger: super::Trigger,
    /// What makes it the same delivery if it is asked for again.
    pub dedupe_key: String,
    /// What it is about.
    pub repository: String,
    /// The manifest.
    pub digest: String,
    /// Its tag; empty: none, or none yet.
    pub tag: String,
    /// What happened.
    pub event: Event,
}

/// The key of a push. `cid` is that of the record that made it one.
pub fn push_key(uri: &str, cid: &str, tag: &str) -> String {
    format!("push:{uri}:{cid}:{tag}")
}

/// The content address of a change, or what stands for it where the source tells none.
pub fn cid_of(change: &Change) -> &str {
    change.cid.as_deref().unwrap_or(change.rev.as_str())
}

/// Where a change's record is.
pub fn uri_of(change: &Change) -> String {
    format!("at://{}/{}/{}", change.did, change.collection.nsid(), change.rkey)
}

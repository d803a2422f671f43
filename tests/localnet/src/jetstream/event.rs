//! The v1 envelope, which the log keeps; `v2` makes the other one of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event, without its author and time.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// A change of one record.
    Commit {
        /// The body.
        commit: Commit,
    },
    /// "Resolve this DID anew."
    Identity {
        /// The body.
        identity: Identity,
    },
    /// The account came, went or was hidden.
    Account {
        /// The body.
        account: Account,
    },
    /// "Read this repository anew." The first wire does not carry it.
    Sync {
        /// The body.
        sync: Sync,
    },
}

/// Which of them an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Commit,
    Identity,
    Account,
    Sync,
    #[serde(other)]
    Other,
}

impl Event {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Commit { .. } => Kind::Commit,
            Self::Identity { .. } => Kind::Identity,
            Self::Account { .. } => Kind::Account,
            Self::Sync { .. } => Kind::Sync,
        }
    }
}

/// Body of a commit event; `record` and `cid` are absent on delete.
#[derive(Clone, Debug, Serialize)]
pub struct Commit {
    /// TID of the repository's commit.
    pub rev: String,
    /// `create`, `update` or `delete`.
    pub operation: &'static str,
    /// NSID.
    pub collection: String,
    /// Record key.
    pub rkey: String,
    /// The record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Value>,
    /// Its CID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cid: Option<String>,
}

/// Body of an identity event.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    /// The account.
    pub did: String,
    /// Often absent, also in production.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The relay's sequence number.
    pub seq: u64,
    /// RFC 3339.
    pub time: String,
}

/// Body of an account event.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// What consumers decide by.
    pub active: bool,
    /// The account.
    pub did: String,
    /// The relay's sequence number.
    pub seq: u64,
    /// `deleted`, `deactivated`, `takendown`, `suspended`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// RFC 3339.
    pub time: String,
}

/// Body of a sync event.
#[derive(Clone, Debug, Serialize)]
pub struct Sync {
    /// The commit as a CAR, `{"$bytes": base64}`; what is in it matters to no consumer of Jetstream.
    pub blocks: Value,
    /// The account.
    pub did: String,
    /// The revision that the repository is at.
    pub rev: String,
    /// The relay's sequence number.
    pub seq: u64,
    /// RFC 3339.
    pub time: String,
}

#[derive(Serialize)]
pub(super) struct Line<'a> {
    pub(super) did: &'a str,
    pub(super) time_us: i64,
    #[serde(flatten)]
    pub(super) event: &'a Event,
}

/// The part of a line that filters look at.
#[derive(Deserialize)]
pub(super) struct Outline {
    pub(super) did: String,
    pub(super) time_us: i64,
    pub(super) kind: Kind,
    pub(super) commit: Option<CommitOutline>,
}

#[derive(Deserialize)]
pub(super) struct CommitOutline {
    pub(super) collection: String,
}

//! What a backfill reads and leaves in the database: runs, the lists that name repositories, repositories, and wishes.

mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{IdentityDue, IdentityFound, ReadError};
use crate::atproto::{Change, Collection, Did, Micros, Rev};

/// The reason of a wish that an operator uttered.
pub const BY_OPERATOR: &str = "operator";

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackfillRun {
    /// Which one; they are numbered.
    pub id: i64,
    /// Why: a word.
    pub reason: String,
    /// Whether every record is written anew.
    pub forced: bool,
    /// When it began (microseconds).
    pub started_at: i64,
    /// Whether it is over, by its end or by its age.
    pub is_over: bool,
}

/// What a run is to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlan {
    /// Why: a word.
    pub reason: String,
    /// Whether every record is written anew.
    pub forced: bool,
    /// What is read, in this order.
    pub lists: Vec<ListName>,
    /// Repositories that no list needs to name.
    pub seeds: Vec<Did>,
}

/// A list that names repositories.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListName {
    /// The accounts of the index.
    Users,
    /// The holds that manifests name.
    Holds,
    /// A relay's list of a collection.
    Relay {
        /// Its address in the settings.
        url: String,
        /// Which collection.
        collection: Collection,
    },
}

impl fmt::Display for ListName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Users => f.write_str("accounts of the index"),
            Self::Holds => f.write_str("holds that manifests name"),
            Self::Relay { url, collection } => write!(f, "{} at {url}", collection.nsid()),
        }
    }
}

/// A list that has to be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueList {
    /// For which run.
    pub run: i64,
    /// Which one.
    pub name: ListName,
    /// From where; none: from the beginning.
    pub cursor: Option<String>,
    /// How many attempts have failed in a row.
    pub failures: u32,
}

/// A repository that has to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRepo {
    /// Whose.
    pub did: Did,
    /// Which run found it last; 0: none.
    pub run: i64,
    /// At which the index last saw it whole.
    pub rev: Option<Rev>,
    /// Whether every record is written anew.
    pub forced: bool,
    /// Whether it has to be listed even if its revision is the known one.
    pub is_listing_due: bool,
    /// How many attempts have failed in a row.
    pub failures: u32,
    /// How long ago its PDS first said that the account is deleted.
    pub gone_for: Option<Duration>,
    /// Whether the account has a row in the index.
    pub is_known: bool,
    /// The account's look-up, if one is due.
    pub identity_due: Option<IdentityDue>,
    /// Where it was when it was last resolved. None if anything speaks against that: a look-up is due, or the account is
    /// not shown.
    pub pds: Option<String>,
}

/// A part of a listing, of at most [`super::MERGE_ROWS_MAX`] records.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedPart {
    /// Whose.
    pub did: Did,
    /// Of the repository before its first page.
    pub rev: Rev,
    /// All of this repository and at this revision, each once.
    pub records: Vec<Change>,
    /// Whether records are written that are known to be the same.
    pub forced: bool,
}

/// What was read to its end of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Whose.
    pub did: Did,
    /// Of the repository before its first page.
    pub rev: Rev,
    /// Collections that were read to their end.
    pub collections: Vec<Collection>,
}

/// Records that were not what was known, by collection.
pub type Changed = BTreeMap<Collection, usize>;

/// What became of parts of listings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// What changed by each part, in their order.
    pub changed: Vec<Changed>,
    /// Records that were dropped because their author has too many.
    pub over_limit: usize,
    /// The look-ups that became due because the accounts are new.
    pub identities_due: Vec<IdentityDue>,
}

/// How a repository is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepoState {
    /// It waits for its turn.
    Waiting,
    /// The index has what it says.
    Read,
    /// There is none.
    Gone,
    /// It could not be read, or not whole.
    Failed,
}

impl RepoState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Read => "read",
            Self::Gone => "gone",
            Self::Failed => "failed",
        }
    }
}

/// What is known of an account's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Nothing new.
    AsBefore,
    /// Its own PDS says that it is deleted. The first time counts.
    Seen,
    /// Its own PDS says that it is not.
    Not,
}

/// What came of reading a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoOutcome {
    /// How it is now.
    pub state: RepoState,
    /// At which the index has seen it whole; `Some(None)`: that is not known any more; `None`: as before.
    pub rev: Option<Option<Rev>>,
    /// Whether it was listed whole.
    pub is_listed: bool,
    /// How many attempts have failed in a row.
    pub failures: u32,
    /// Why it failed.
    pub error: Option<String>,
    /// When it has to be read next, if before the next run.
    pub next_in: Option<Duration>,
    /// What is known of its deletion.
    pub gone: Gone,
}

/// What came of reading a repository, and what it says of its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoRead {
    /// Whose.
    pub did: Did,
    /// When its reading began.
    pub at: Micros,
    /// Whether its own PDS serves it, and the word for why not. An account that has no row is left out, and so is what is
    /// known already.
    pub standing: Option<(bool, Option<String>)>,
    /// Who the account is. Stored as [`super::Tx::set_identity`] does; nothing is written if it is known.
    pub identity: Option<IdentityFound>,
    /// The look-up that is no longer due with that.
    pub identity_due: Option<IdentityDue>,
    /// How the repository is now.
    pub outcome: RepoOutcome,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Which one.
    pub id: i64,
    /// Whether it has ended.
    pub is_ended: bool,
    /// Repositories that it has found.
    pub found: u64,
    /// Those that wait for their turn.
    pub waiting: u64,
    /// Those that could not be read; they are tried again.
    pub failed: u64,
    /// Lists that have not been tried.
    pub lists: u64,
    /// What it has done.
    pub totals: RunTotals,
}

/// What a run has done, or a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTotals {
    /// Records that were read.
    pub records: u64,
    /// Records that were not what was known.
    pub changed: u64,
    /// Of those, what the stream should have brought.
    pub missed: u64,
    /// Requests to PDSes.
    pub requests: u64,
}

/// A repository, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoReport {
    /// A word of [`RepoState`].
    pub state: String,
    /// Whether a wish about it was taken up.
    pub is_taken_up: bool,
    /// How many attempts have failed in a row.
    pub failures: u32,
    /// Why it failed.
    pub error: Option<String>,
}

impl ListName {
    /// Where it is, and the collection: how it is stored.
    pub(super) fn stored(&self) -> (String, &'static str) {
        match self {
            Self::Users => ("users".to_owned(), ""),
            Self::Holds => ("holds".to_owned(), ""),
            Self::Relay { url, collection } => (url.clone(), collection.nsid()),
        }
    }

    fn read(source: String, collection: &str) -> Result<Self, ReadError> {
        match (source.as_str(), Collection::from_nsid(collection)) {
            ("users", None) => Ok(Self::Users),
            ("holds", None) => Ok(Self::Holds),
            (_, Some(collection)) => Ok(Self::Relay { url: source, collection }),
            _ => Err(ReadError(format!("a stored list of repositories {source:?} of {collection:?}"))),
        }
    }
}

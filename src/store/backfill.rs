//! What a backfill reads and leaves in the database: runs, the lists that name repositories, repositories, and wishes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::queries::{backfill_repos, backfill_requests, backfill_runs};
use super::session::Session;
use super::{Database, IdentityDue, ReadError, SqlLeases, stored_did};
use crate::atproto::{Change, Collection, Did, Micros, Rev};

/// How old a run may become. One that has not ended by then is given up, as what it began with is no longer so.
const RUN_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long a repository's revision alone decides that it is unchanged. Then it is listed again all the same: whatever
/// went wrong once is put right within a day.
const LIST_AFTER: Duration = Duration::from_secs(24 * 3600);

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

/// What became of a part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Records that were not what was known, by collection.
    pub changed: BTreeMap<Collection, usize>,
    /// Records that were dropped because their author has too many.
    pub over_limit: usize,
    /// The look-up that became due because the account is new.
    pub identity_due: Option<IdentityDue>,
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

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Which one.
    pub id: i64,
    /// When it began.
    pub started_at: i64,
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
    /// Records that were read.
    pub records: u64,
    /// Records that were not what was known.
    pub changed: u64,
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

impl Database {
    /// The latest run.
    pub async fn backfill_run(&self) -> Result<Option<BackfillRun>, ReadError> {
        let row = backfill_runs::latest(&mut self.session().await?).await?;
        Ok(row.map(|(id, reason, forced, started_at, age, ended)| {
            let is_over = ended || since(age) > RUN_AGE_MAX;
            BackfillRun { id, reason, forced, started_at, is_over }
        }))
    }

    /// How far the latest run is.
    pub async fn backfill_report(&self) -> Result<Option<RunReport>, ReadError> {
        let session = &mut self.session().await?;
        let Some((id, started_at, ended_at, records, changed, requests)) =
            backfill_runs::report(session).await?
        else {
            return Ok(None);
        };
        let states = backfill_repos::count(session, id).await?;
        let of = |state: RepoState| states.iter().filter(|(name, _)| name == state.name()).map(|(_, n)| *n).sum();
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(Some(RunReport {
            id,
            started_at,
            is_ended: ended_at.is_some(),
            found: states.iter().map(|(_, n)| count(*n)).sum(),
            waiting: count(of(RepoState::Waiting)),
            failed: count(of(RepoState::Failed)),
            lists: count(backfill_runs::waiting_lists(session).await?),
            records: count(records),
            changed: count(changed),
            requests: count(requests),
        }))
    }

    /// What is known of one repository.
    pub async fn backfill_repo(&self, did: &Did) -> Result<Option<RepoReport>, ReadError> {
        let row = backfill_repos::of(&mut self.session().await?, did.as_str()).await?;
        Ok(row.map(|(state, is_taken_up, failures, error)| {
            let failures = u32::try_from(failures).unwrap_or(u32::MAX);
            RepoReport { state, is_taken_up, failures, error }
        }))
    }

    /// The first list that has to be read on.
    pub async fn due_list(&self) -> Result<Option<DueList>, ReadError> {
        let row = backfill_runs::due_list(&mut self.session().await?).await?;
        row.map(|(run, source, collection, cursor, failures)| {
            let failures = u32::try_from(failures).unwrap_or(u32::MAX);
            Ok(DueList { run, name: ListName::read(source, &collection)?, cursor, failures })
        })
        .transpose()
    }

    /// At most `limit` repositories that have to be read, the longest due first.
    pub async fn due_repos(&self, limit: usize) -> Result<Vec<DueRepo>, ReadError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = backfill_repos::due(&mut self.session().await?, limit).await?;
        rows.into_iter().map(due_repo).collect()
    }

    /// Whether the run has nothing left that has not been tried once.
    pub async fn is_run_done(&self, run: i64) -> Result<bool, ReadError> {
        let session = &mut self.session().await?;
        Ok(backfill_runs::waiting_lists(session).await? == 0 && !backfill_repos::is_waiting(session, run).await?)
    }

    /// At most `limit` repositories that the index itself names, beyond `cursor`. Relays' lists are not here.
    pub async fn named_repos(
        &self,
        list: &ListName,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Did>, ReadError> {
        let (session, cursor) = (&mut self.session().await?, cursor.unwrap_or_default());
        let texts = match list {
            ListName::Users => backfill_runs::users_beyond(session, cursor, limit.into()).await?,
            ListName::Holds => backfill_runs::holds_beyond(session, cursor, limit.into()).await?,
            ListName::Relay { .. } => Vec::new(),
        };
        texts.iter().map(|text| stored_did(text)).collect()
    }

    /// Since when a wish stands, if it does; `None`: about every repository.
    pub async fn backfill_asked_at(&self, did: Option<&Did>) -> Result<Option<Micros>, ReadError> {
        let did = did.map_or(backfill_requests::EVERY, Did::as_str);
        Ok(backfill_requests::asked_at(&mut self.session().await?, did).await?.map(Micros))
    }
}

impl SqlLeases {
    /// An operator's wish to have a repository read again; `None`: every one. It waits for whoever runs the backfill.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn ask_backfill(&self, did: Option<&Did>) -> Result<(), leased_actors::lease::StoreError> {
        let did = did.map_or(backfill_requests::EVERY, Did::as_str).to_owned();
        let wish = async move |session: &mut Session| {
            backfill_requests::ask(session, &did, BY_OPERATOR).await?;
            Ok(true)
        };
        self.wish("ask for a backfill".to_owned(), wish).await.map(|_| ())
    }
}

fn due_repo(row: backfill_repos::DueRow) -> Result<DueRepo, ReadError> {
    let (did, run, rev, forced, listed, failures, gone, is_known, identity_due_at) = row;
    let did = stored_did(&did)?;
    let rev = match rev {
        Some(text) => Some(Rev::parse(&text).map_err(|e| ReadError(format!("a stored revision {text:?}: {e}")))?),
        None => None,
    };
    Ok(DueRepo {
        run,
        rev,
        forced,
        is_listing_due: listed.is_none_or(|us| since(us) >= LIST_AFTER),
        failures: u32::try_from(failures).unwrap_or(u32::MAX),
        gone_for: gone.map(since),
        is_known,
        identity_due: identity_due_at.map(|due_at| IdentityDue { did: did.clone(), due_at, failures: 0 }),
        did,
    })
}

fn since(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

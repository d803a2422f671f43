//! What one repository holds: its account resolved afresh, its revision, and every record of the registry's collections.
//! Owns the order of the requests and what their answers mean; knows nothing of what the index has, but for one revision.
//!
//! A listing tells no revisions. The one that `getLatestCommit` told *before* its first page, R0, is given to every record:
//! the pages show the repository at R0 or later. If it changed meanwhile, the change has a revision above R0, and its event
//! is on the stream that was followed before this listing began: whichever of the two is written first, the event wins over
//! the record of the listing, a delete included. Asking for the revision once more after the last page would tell that
//! there was such a change, and nothing that the event does not tell; so it is not asked. What no stream carries is found
//! by the next listing, whose R0 then differs from the one remembered.

mod error;
mod list;
mod page;

pub use error::{FetchError, Shortfall};

use serde::Deserialize;

use super::ask::{AskError, Asker};
use super::pace::{Heard, Pace};
use crate::atproto::guard::{Allowance, Guarded};
use crate::atproto::identity::{Identity, IdentityError, Resolver};
use crate::atproto::xrpc::{self, Query, Refusal};
use crate::atproto::{Change, Collection, Did, Rev};

/// An answer about a repository as a whole has some 200 bytes.
const STATE_LEN_MAX: usize = 64 << 10;
/// The longest word for an account's state that is kept; the protocol's have at most 14 letters.
const STATUS_CHARS_MAX: usize = 64;

/// Reads repositories. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    resolver: Resolver,
    asker: Asker,
}

/// What the index knows of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// At which it last saw it complete.
    pub rev: Rev,
    /// Where it was then, if nothing speaks against its being there still.
    pub pds: Option<String>,
}

/// What a repository says.
#[derive(Debug)]
pub enum Fetched {
    /// Its revision is the one that the caller knows.
    Unchanged {
        /// Resolved just now; none if it was asked where the caller knew it to be.
        identity: Option<Identity>,
        /// The known one.
        rev: Rev,
    },
    /// Its records.
    Listed(Listing),
    /// Its PDS says that the account is not active.
    Inactive {
        /// Resolved just now.
        identity: Identity,
        /// `deactivated`, `takendown`, `suspended`.
        status: String,
    },
    /// Its PDS, or the directory, says that there is none. Not yet a reason to delete: [`Fetcher::status`] decides that.
    Missing {
        /// For people.
        why: &'static str,
    },
}

/// The records of one repository.
#[derive(Debug)]
pub struct Listing {
    /// Resolved just now.
    pub identity: Identity,
    /// From before the first page: the records are the repository's at this revision or later.
    pub rev: Rev,
    /// Each with `rev` as its own. What breaks its lexicon is there as `Unreadable`.
    pub records: Vec<Change>,
    /// Collections whose listing was read to its end without an error: only in these may absent records be deleted.
    pub complete: Vec<Collection>,
    /// Why not every collection is in `complete`; the first reason. `None` if every one is.
    pub shortfall: Option<FetchError>,
    /// Requests that the PDS had to answer.
    pub requests: u32,
    /// Bytes that were read, as JSON.
    pub len: usize,
}

/// What an account's own, freshly resolved PDS says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepoStatus {
    /// It is served.
    Active {
        /// Its revision, if told.
        rev: Option<Rev>,
    },
    /// It is not served, and may come back.
    Inactive(String),
    /// It is gone: the PDS does not have it, or has it as deleted, or the directory has its tombstone.
    Deleted,
}

/// What is known of a repository before its records are read.
enum Latest {
    Rev(Rev),
    Inactive(&'static str),
    Missing(&'static str),
}

/// The PDS of one account, while it is being asked.
struct Visit<'a> {
    asker: &'a Asker,
    did: &'a Did,
    pds: &'a str,
    requests: u32,
}

#[derive(Deserialize)]
struct LatestCommit {
    rev: Rev,
}

#[derive(Deserialize)]
struct Standing {
    active: bool,
    status: Option<String>,
    rev: Option<Rev>,
}

impl Fetcher {
    /// `guarded` asks strangers' PDSes; `resolver` keeps no answers.
    pub fn new(resolver: Resolver, guarded: Guarded, pace: Pace) -> Self {
        Self { resolver, asker: Asker::new(guarded, pace) }
    }

    /// Reads the repository of `did`. An unchanged one costs its PDS one request, and nobody another if it is where the
    /// caller knows it to be: any answer there but the known revision has the account resolved afresh. Cancel-safe: nothing
    /// but requests is under way.
    pub async fn fetch(&self, did: &Did, known: Option<&Known>) -> Result<Fetched, FetchError> {
        let mut asked = None;
        if let Some(Known { rev, pds: Some(pds) }) = known {
            let mut visit = Visit { asker: &self.asker, did, pds, requests: 0 };
            match visit.latest().await {
                Ok(Latest::Rev(found)) if found == *rev => {
                    return Ok(Fetched::Unchanged { identity: None, rev: found });
                }
                latest => asked = Some((visit, latest)),
            }
        }
        let identity = match self.identity(did).await {
            Ok(identity) => identity,
            Err(FetchError::Identity { error: IdentityError::NotFound(_), .. }) => {
                return Ok(Fetched::Missing { why: "its source knows no such account" });
            }
            Err(FetchError::Identity { error: IdentityError::Deleted(_), .. }) => {
                return Ok(Fetched::Missing { why: "the directory has its tombstone" });
            }
            Err(error) => return Err(error),
        };
        let pds = identity.pds.clone().ok_or_else(|| FetchError::NoPds(did.clone()))?;
        let (visit, latest) = match asked {
            Some(asked) if asked.0.pds == pds => asked,
            _ => {
                let mut visit = Visit { asker: &self.asker, did, pds: &pds, requests: 0 };
                let latest = visit.latest().await;
                (visit, latest)
            }
        };
        match latest? {
            Latest::Rev(rev) if known.is_some_and(|known| known.rev == rev) => {
                Ok(Fetched::Unchanged { identity: Some(identity), rev })
            }
            Latest::Rev(rev) => list::list(visit, identity, rev).await,
            Latest::Inactive(status) => Ok(Fetched::Inactive { identity, status: status.to_owned() }),
            Latest::Missing(why) => Ok(Fetched::Missing { why }),
        }
    }

    /// Asks the account's own, freshly resolved PDS about it: the one word by which an account may be deleted. Anything that
    /// is not that word is an error, not a `Deleted`. Cancel-safe.
    pub async fn status(&self, did: &Did) -> Result<RepoStatus, FetchError> {
        let identity = match self.identity(did).await {
            Err(FetchError::Identity { error: IdentityError::Deleted(_), .. }) => {
                return Ok(RepoStatus::Deleted);
            }
            resolved => resolved?,
        };
        let pds = identity.pds.ok_or_else(|| FetchError::NoPds(did.clone()))?;
        let mut visit = Visit { asker: &self.asker, did, pds: &pds, requests: 0 };
        match visit.standing().await {
            Ok(Standing { active: true, rev, .. }) => Ok(RepoStatus::Active { rev }),
            Ok(Standing { status: Some(status), .. }) if status == "deleted" => Ok(RepoStatus::Deleted),
            Ok(Standing { status, .. }) => Ok(RepoStatus::Inactive(plain(status.as_deref()))),
            Err(error) => match refusal(&error) {
                Some(Refusal::RepoNotFound) => Ok(RepoStatus::Deleted),
                Some(refusal) if let Some(status) = inactive(refusal) => {
                    Ok(RepoStatus::Inactive(status.to_owned()))
                }
                _ => Err(error.into()),
            },
        }
    }

    /// Resolves in the pace of the host that has the document. How many requests it has at once is the resolver's client's
    /// business: a handle that is slow to prove itself must not hold a place there.
    async fn identity(&self, did: &Did) -> Result<Identity, FetchError> {
        let (pace, source) = (self.asker.pace(), self.resolver.source_of(did));
        if let Some(host) = &source {
            pace.wait(host).await.map_err(AskError::from)?;
        }
        let resolved = self.resolver.resolve(did).await;
        let Some(host) = source else { return resolved.map_err(|error| FetchError::identity(error, None)) };
        pace.heard(
            &host,
            match &resolved {
                Err(IdentityError::Throttled { allowance, .. }) => Heard::Answer(*allowance),
                Err(IdentityError::Temporary(_)) => Heard::Silence,
                _ => Heard::Answer(Allowance::Unsaid),
            },
        );
        resolved.map_err(|error| FetchError::identity(error, pace.paused_until(&host)))
    }
}

impl Visit<'_> {
    /// The revision. Holds do not serve `getLatestCommit`, but tell it in `getRepoStatus`.
    async fn latest(&mut self) -> Result<Latest, FetchError> {
        let error = match self.ask::<LatestCommit>("com.atproto.sync.getLatestCommit").await {
            Ok(LatestCommit { rev }) => return Ok(Latest::Rev(rev)),
            Err(error) => error,
        };
        if !error.answered().is_some_and(xrpc::XrpcError::is_not_served) {
            return absence(&error).ok_or(error.into());
        }
        match self.standing().await {
            Ok(Standing { active: true, rev: Some(rev), .. }) => Ok(Latest::Rev(rev)),
            Ok(Standing { active: true, rev: None, .. }) => Err(FetchError::NoRevision(self.did.clone())),
            Ok(Standing { status, .. }) => Ok(match status.as_deref() {
                Some("deleted") => Latest::Missing("its PDS says that it was deleted"),
                Some("takendown") => Latest::Inactive("takendown"),
                Some("suspended") => Latest::Inactive("suspended"),
                _ => Latest::Inactive("deactivated"),
            }),
            Err(error) => absence(&error).ok_or(error.into()),
        }
    }

    async fn standing(&mut self) -> Result<Standing, AskError> {
        self.ask("com.atproto.sync.getRepoStatus").await
    }

    async fn ask<T: for<'a> Deserialize<'a>>(&mut self, method: &'static str) -> Result<T, AskError> {
        let parameters = [("did", self.did.as_str())];
        let query = Query {
            base: self.pds,
            method,
            parameters: &parameters,
            body_len_max: STATE_LEN_MAX,
            timeout: None,
        };
        let body = self.asker.ask(&query, &mut self.requests).await?;
        xrpc::read(self.pds, &body).map_err(|error| AskError::Failed { method, error, retry_at: None })
    }
}

fn refusal(error: &AskError) -> Option<Refusal> {
    error.answered().and_then(xrpc::XrpcError::refusal)
}

/// What a refusal says about the repository, if it says anything.
fn absence(error: &AskError) -> Option<Latest> {
    match refusal(error)? {
        Refusal::RepoNotFound => Some(Latest::Missing("its PDS has no such repository")),
        Refusal::RepoUnseen => Some(Latest::Missing("its PDS does not show such a repository")),
        refusal => inactive(refusal).map(Latest::Inactive),
    }
}

fn inactive(refusal: Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::RepoDeactivated => Some("deactivated"),
        Refusal::RepoTakendown => Some("takendown"),
        Refusal::RepoSuspended => Some("suspended"),
        _ => None,
    }
}

/// What may be kept of a word that a stranger sent.
fn plain(status: Option<&str>) -> String {
    status.unwrap_or("inactive").chars().filter(|c| !c.is_control()).take(STATUS_CHARS_MAX).collect()
}

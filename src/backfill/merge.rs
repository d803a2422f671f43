//! One repository: what it says, and what each answer means for the index. Owns how much of a listing is written at once.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::fetch::{FetchError, Fetched, Known, Listing};
use super::finding::{Done, Finding, Listed};
use super::{Desk, FAILURES_MAX, accounts, meters, plain, wait_after};
use crate::atproto::identity::Identity;
use crate::atproto::{Did, Micros};
use crate::store::backfill::{DueRepo, Gone, ListedPart, RepoState};
use crate::store::{BackfillRequest, MERGE_ROWS_MAX, WriteError};

/// Attempts that a host's pause may cost a repository within a run. With it, a host that lets three thousand requests
/// through in five minutes is read up to nine thousand repositories deep before the run ends without the rest.
const PAUSES_IN_RUN: u32 = 3;

/// One reading of one repository.
pub(super) struct Reading {
    pub(super) desk: Desk,
    /// The run that it counts for; 0: none.
    pub(super) run: i64,
    pub(super) repo: DueRepo,
    pub(super) wish: Option<BackfillRequest>,
    /// By this machine's clock, as the stream's times are by its host's.
    pub(super) began: Micros,
}

/// Reads a repository, and leaves in the database what came of it. `place` is given back once it is read.
pub(super) async fn repository(
    desk: Desk,
    run: i64,
    repo: DueRepo,
    wish: Option<BackfillRequest>,
    place: OwnedSemaphorePermit,
) -> Result<(), WriteError> {
    let reading = Reading { desk, run, repo, wish, began: Micros::now() };
    match reading.read_and_write(place).await {
        // What the database refuses of one repository must not be tried for ever. If it refuses everything, this too.
        Err(WriteError::Database(error)) => {
            meters::failed("database");
            tracing::warn!(did = %reading.repo.did, error, "repository not written; it is tried again");
            reading.write_alone(reading.failed(&error, Some(Duration::ZERO))).await
        }
        outcome => outcome,
    }
}

impl Reading {
    async fn read_and_write(&self, place: OwnedSemaphorePermit) -> Result<(), WriteError> {
        let Some(finding) = self.read().await? else { return Ok(()) };
        let requests = finding.done.as_ref().map_or(0, |done| done.totals.requests);
        let tally = self.desk.writer.write(finding, place).await?;
        meters::asked(requests);
        tally.tell(&self.repo.did, &self.desk.missed);
        Ok(())
    }

    /// `None`: everything is written already.
    async fn read(&self) -> Result<Option<Finding>, WriteError> {
        let repo = &self.repo;
        let known = repo.rev.filter(|_| !repo.forced && !repo.is_listing_due);
        let known = known.map(|rev| Known { rev, pds: repo.pds.clone() });
        let done = match self.desk.fetcher.fetch(&repo.did, known.as_ref()).await {
            Ok(Fetched::Unchanged { identity, .. }) => self.unchanged(identity),
            Ok(Fetched::Listed(listing)) => return self.merge(listing).await.map(Some),
            Ok(Fetched::Inactive { identity, status }) => {
                let mut done = self.served(Done::new(RepoState::Read), identity);
                done.standing = Some((false, Some(status)));
                // Once it comes back it is read whole: content may have been purged meanwhile.
                done.outcome.rev = Some(None);
                done
            }
            Ok(Fetched::Missing { why }) => match accounts::missing(self, why).await? {
                Some(done) => done,
                None => return Ok(None),
            },
            Err(error) => self.not_read(&error),
        };
        Ok(Some(self.finding(None, Some(done))))
    }

    /// Where the index knew it to be, it is shown and there already: nothing changes by that.
    fn unchanged(&self, identity: Option<Identity>) -> Done {
        let mut done = Done::new(RepoState::Read);
        match identity {
            Some(identity) => self.served(done, identity),
            None => {
                done.totals.requests = 1;
                done
            }
        }
    }

    /// Its PDS has answered as one does for an account that is there.
    fn served(&self, mut done: Done, identity: Identity) -> Done {
        done.standing = Some((true, None));
        done.identity = Some(identity);
        done.outcome.gone = Gone::Not;
        done.totals.requests += 1;
        done
    }

    /// All but the last part of a large listing is written at once; the last one is to be written with what came of it.
    async fn merge(&self, listing: Listing) -> Result<Finding, WriteError> {
        let Listing { identity, rev, mut records, complete, shortfall, requests, len } = listing;
        let mut done = match &shortfall {
            None => Done::new(RepoState::Read),
            Some(error) => self.not_read(error),
        };
        done.totals.records = records.len() as u64;
        let part = |records, complete| Listed {
            part: ListedPart { did: self.repo.did.clone(), rev, records, forced: self.repo.forced },
            complete,
            was_whole: self.repo.rev.is_some(),
            len,
        };
        let mut identity_due = None;
        while records.len() > MERGE_ROWS_MAX {
            let rest = records.split_off(MERGE_ROWS_MAX);
            let first = part(std::mem::replace(&mut records, rest), Vec::new());
            let tally = self.desk.writer.write_alone(self.finding(Some(first), None)).await?;
            tally.tell(&self.repo.did, &self.desk.missed);
            tally.count_into(&mut done.totals);
            identity_due = identity_due.or(tally.identity_due);
        }
        if shortfall.is_none() {
            done.outcome.rev = Some(Some(rev));
            done.outcome.is_listed = true;
        }
        // One of them is counted as the answer of somebody who is there.
        done.totals.requests = requests.saturating_sub(1).into();
        let mut finding = self.finding(Some(part(records, complete)), Some(self.served(done, identity)));
        finding.identity_due = identity_due.or(finding.identity_due);
        Ok(finding)
    }

    fn finding(&self, listed: Option<Listed>, done: Option<Done>) -> Finding {
        Finding {
            did: self.repo.did.clone(),
            run: self.run,
            wish: self.wish.clone(),
            began: self.began,
            identity_due: self.repo.identity_due.clone(),
            listed,
            done,
        }
    }

    /// It could not be read, or not whole.
    fn not_read(&self, error: &FetchError) -> Done {
        meters::failed(error.kind());
        tracing::debug!(did = %self.repo.did, %error, "repository not read");
        let wait = error.retry_at().map(|at| at.saturating_duration_since(Instant::now()));
        let wait = wait.or_else(|| error.is_temporary().then_some(Duration::ZERO));
        let mut done = self.failed(error, wait);
        let is_paused = error.kind() == "paused";
        if is_paused && self.repo.failures < PAUSES_IN_RUN {
            // Nothing was asked: it keeps its turn until the host may be asked again.
            done.outcome.state = RepoState::Waiting;
            done.outcome.next_in = wait;
        }
        done
    }

    /// It is tried again after the usual wait, or `at_least`; `None`: only in the next run.
    pub(super) fn failed(&self, error: &impl std::fmt::Display, at_least: Option<Duration>) -> Done {
        let failures = self.repo.failures.saturating_add(1);
        let mut done = Done::new(RepoState::Failed);
        done.outcome.failures = failures;
        done.outcome.error = Some(plain(error));
        done.outcome.next_in = at_least
            .filter(|_| failures < FAILURES_MAX)
            .map(|at_least| at_least.clamp(wait_after(self.repo.failures), wait_after(u32::MAX)));
        done
    }

    /// What came of it, without a record, and in a transaction of its own.
    pub(super) async fn write_alone(&self, done: Done) -> Result<(), WriteError> {
        meters::asked(done.totals.requests);
        self.desk.writer.write_alone(self.finding(None, Some(done))).await.map(drop)
    }

    /// Whose it is.
    pub(super) fn did(&self) -> &Did {
        &self.repo.did
    }
}

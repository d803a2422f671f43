//! One repository: what it says, into the database. Owns what each answer means for the index, and how much of a listing
//! is written at once.

use std::time::Duration;

use tokio::time::Instant;

use super::fetch::{FetchError, Fetched, Listing};
use super::{Desk, FAILURES_MAX, accounts, meters, plain, wait_after};
use crate::atproto::identity::Identity;
use crate::atproto::{Collection, Did, Micros, Rev};
use crate::store::backfill::{DueRepo, Gone, ListedPart, RepoOutcome, RepoState, RunTotals};
use crate::store::{BackfillRequest, IdentityDue, IdentityFound, MERGE_ROWS_MAX, WriteError};

/// Attempts that a host's pause may cost a repository within a run. With it, a host that lets three thousand requests
/// through in five minutes is read up to nine thousand repositories deep before the run ends without the rest.
const PAUSES_IN_RUN: u32 = 3;

/// What came of a repository, as far as it is not in its outcome.
pub(super) struct Done {
    pub(super) outcome: RepoOutcome,
    /// Whether it is served, and the word for why not.
    pub(super) standing: Option<(bool, Option<String>)>,
    pub(super) identity: Option<Identity>,
    pub(super) identity_due: Option<IdentityDue>,
    pub(super) totals: RunTotals,
}

impl Done {
    /// It is in this state, and nothing else is known.
    pub(super) fn new(state: RepoState) -> Self {
        let outcome = RepoOutcome {
            state,
            rev: None,
            is_listed: false,
            failures: 0,
            error: None,
            next_in: None,
            gone: Gone::AsBefore,
        };
        let totals = RunTotals::default();
        Self { outcome, standing: None, identity: None, identity_due: None, totals }
    }
}

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

/// Reads a repository, and leaves in the database what came of it.
pub(super) async fn repository(
    desk: Desk,
    run: i64,
    repo: DueRepo,
    wish: Option<BackfillRequest>,
) -> Result<(), WriteError> {
    let reading = Reading { desk, run, repo, wish, began: Micros::now() };
    let done = match reading.read().await {
        // What the database refuses of one repository must not be tried for ever. If it refuses everything, this too.
        Err(WriteError::Database(error)) => {
            meters::failed("database");
            tracing::warn!(did = %reading.repo.did, error, "repository not written; it is tried again");
            reading.failed(&error, Some(Duration::ZERO))
        }
        Err(error) => return Err(error),
        Ok(None) => return Ok(()),
        Ok(Some(done)) => done,
    };
    reading.write(done).await
}

impl Reading {
    /// `None`: everything is written already.
    async fn read(&self) -> Result<Option<Done>, WriteError> {
        let repo = &self.repo;
        let known = repo.rev.as_ref().filter(|_| !repo.forced && !repo.is_listing_due);
        let fetched = self.desk.fetcher.fetch(&repo.did, known).await;
        Ok(Some(match fetched {
            Ok(Fetched::Unchanged { identity, .. }) => self.served(Done::new(RepoState::Read), identity),
            Ok(Fetched::Listed(listing)) => self.merge(listing).await?,
            Ok(Fetched::Inactive { identity, status }) => {
                let mut done = self.served(Done::new(RepoState::Read), identity);
                done.standing = Some((false, Some(status)));
                // Once it comes back it is read whole: content may have been purged meanwhile.
                done.outcome.rev = Some(None);
                done
            }
            Ok(Fetched::Missing { why }) => return accounts::missing(self, why).await,
            Err(error) => self.not_read(&error),
        }))
    }

    /// Its PDS has answered as one does for an account that is there.
    fn served(&self, mut done: Done, identity: Identity) -> Done {
        done.standing = Some((true, None));
        done.identity = Some(identity);
        done.outcome.gone = Gone::Not;
        done.totals.requests += 1;
        done
    }

    async fn merge(&self, listing: Listing) -> Result<Done, WriteError> {
        let Listing { identity, rev, mut records, complete, shortfall, requests } = listing;
        let mut done = match &shortfall {
            None => Done::new(RepoState::Read),
            Some(error) => self.not_read(error),
        };
        done.totals.records = records.len() as u64;
        let is_missed = self.is_missed(rev).await?;
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(MERGE_ROWS_MAX));
            let part = ListedPart {
                did: self.repo.did.clone(),
                rev,
                records: std::mem::replace(&mut records, rest),
                forced: self.repo.forced,
            };
            let work = async move |tx: &mut crate::store::Tx| tx.merge(&part).await;
            let merged = self.desk.database.fenced(&self.desk.term, work).await?;
            for (collection, count) in &merged.changed {
                self.count(&mut done, *collection, *count, is_missed);
            }
            meters::over_limit(merged.over_limit);
            done.identity_due = done.identity_due.or(merged.identity_due);
        }
        self.delete_unlisted(&mut done, complete, rev, is_missed).await?;
        if shortfall.is_none() {
            done.outcome.rev = Some(Some(rev));
            done.outcome.is_listed = true;
        }
        // One of them is counted as the answer of somebody who is there.
        done.totals.requests = requests.saturating_sub(1).into();
        Ok(self.served(done, identity))
    }

    async fn delete_unlisted(
        &self,
        done: &mut Done,
        complete: Vec<Collection>,
        rev: Rev,
        is_missed: bool,
    ) -> Result<(), WriteError> {
        if complete.is_empty() {
            return Ok(());
        }
        loop {
            let (did, complete) = (self.repo.did.clone(), complete.clone());
            let work = async move |tx: &mut crate::store::Tx| tx.delete_unlisted(&did, &complete, rev).await;
            let deleted = self.desk.database.fenced(&self.desk.term, work).await?;
            for (collection, count) in &deleted {
                self.count(done, *collection, *count, is_missed);
            }
            if deleted.values().sum::<usize>() < MERGE_ROWS_MAX {
                return Ok(());
            }
        }
    }

    fn count(&self, done: &mut Done, collection: Collection, count: usize, is_missed: bool) {
        done.totals.changed += count as u64;
        meters::changed(collection, count);
        if is_missed && count > 0 {
            done.totals.missed += count as u64;
            meters::missed(collection, count);
            self.desk.missed.note(&self.repo.did, collection, count);
        }
    }

    /// Whether the stream has passed the time of this revision by so much that it should have brought what is found to be
    /// different. Only of a repository that was whole before: what is older than the index, no stream has brought. Read
    /// after the listing and before the merge: what the stream has brought by this position is in the database.
    async fn is_missed(&self, rev: Rev) -> Result<bool, WriteError> {
        if self.repo.rev.is_none() {
            return Ok(false);
        }
        let cursors = self.desk.database.stream_cursors().await;
        let cursors = cursors.map_err(|error| WriteError::Database(error.to_string()))?;
        let margin = i64::try_from(self.desk.missed_after.as_micros()).unwrap_or(i64::MAX);
        let passed = cursors.into_iter().map(|cursor| cursor.time_us).max();
        Ok(passed.is_some_and(|passed| passed.saturating_sub(margin) > rev.time().0))
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

    /// What came of it, in one transaction with the end of the wish.
    pub(super) async fn write(&self, done: Done) -> Result<(), WriteError> {
        let (run, did, at, wish) = (self.run, self.repo.did.clone(), self.began, self.wish.clone());
        let due = done.identity_due.clone().or_else(|| self.repo.identity_due.clone());
        let found = done.identity.clone().map(IdentityFound::from);
        meters::asked(done.totals.requests);
        let work = async move |tx: &mut crate::store::Tx| {
            if let Some((active, status)) = &done.standing {
                tx.set_standing(&did, *active, status.as_deref(), at).await?;
            }
            if let Some(found) = &found {
                tx.found_identity(&did, due.as_ref(), found).await?;
            }
            tx.repo_read(&did, &done.outcome).await?;
            if let Some(wish) = &wish {
                tx.backfill_done(wish).await?;
            }
            tx.add_to_run(run, &done.totals).await
        };
        self.desk.database.fenced(&self.desk.term, work).await
    }

    /// Whose it is.
    pub(super) fn did(&self) -> &Did {
        &self.repo.did
    }
}

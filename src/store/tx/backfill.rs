//! What the backfill does in a fenced transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{HandleFound, IdentityFound, Tx};
use crate::atproto::{Collection, Did, Micros, Rev};
use crate::store::backfill::{DueList, ListName, ListedPart, Merged, RepoOutcome, RunPlan, RunTotals};
use crate::store::{IdentityDue, WriteError, apply, merge, queries};

/// Records of a deleted account that one transaction forgets.
const FORGET_ROWS_MAX: u32 = 500;

impl Tx {
    /// Begins a run in the place of whichever was there, and returns its number.
    pub async fn begin_run(&mut self, plan: &RunPlan) -> Result<i64, WriteError> {
        let session = &mut self.session;
        let latest = queries::backfill_runs::latest(session).await?;
        let id = latest.map_or(1, |(id, ..)| id + 1);
        queries::backfill_runs::begin(session, id, &plan.reason, plan.forced).await?;
        let lists: Vec<_> = plan.lists.iter().map(ListName::stored).collect();
        queries::backfill_runs::set_lists(session, id, &lists).await?;
        queries::backfill_repos::find(session, id, plan.forced, &plan.seeds).await?;
        Ok(id)
    }

    /// The run has nothing left that has not been tried once.
    pub async fn end_run(&mut self, run: i64) -> Result<(), WriteError> {
        Ok(queries::backfill_runs::end(&mut self.session, run).await?)
    }

    /// Takes what a page of a list names, and the place behind it in one with that; none: the list is at its end.
    pub async fn found_repos(
        &mut self,
        list: &DueList,
        forced: bool,
        dids: &[Did],
        cursor: Option<&str>,
    ) -> Result<(), WriteError> {
        queries::backfill_repos::find(&mut self.session, list.run, forced, dids).await?;
        let (source, collection) = list.name.stored();
        Ok(queries::backfill_runs::turn(&mut self.session, &source, collection, cursor).await?)
    }

    /// A list could not be read on. It is tried again after `wait`, if at all; with `others`, what else is to be read at
    /// the same relay waits as long.
    pub async fn list_failed(
        &mut self,
        list: &DueList,
        error: &str,
        wait: Option<Duration>,
        others: bool,
    ) -> Result<(), WriteError> {
        let (source, collection) = list.name.stored();
        queries::backfill_runs::fail(&mut self.session, &source, collection, error, wait).await?;
        if let Some(wait) = wait.filter(|_| others) {
            queries::backfill_runs::put_off_source(&mut self.session, &source, error, wait).await?;
        }
        Ok(())
    }

    /// Makes repositories due that are to be read anew, whatever is known of them.
    pub async fn force_repos(&mut self, dids: &[Did]) -> Result<(), WriteError> {
        Ok(queries::backfill_repos::force(&mut self.session, dids).await?)
    }

    /// Merges a part of a listing with what is known: what is known from a later revision stays.
    pub async fn merge(&mut self, part: &ListedPart) -> Result<Merged, WriteError> {
        merge::merge(&mut self.session, part).await
    }

    /// Deletes records that a whole listing of their collection, at `rev`, does not have: those that are known from an
    /// earlier revision alone. All parts of the listing are merged before. How many of each collection; in all as many as
    /// [`crate::store::MERGE_ROWS_MAX`] if there may be more.
    pub async fn delete_unlisted(
        &mut self,
        did: &Did,
        collections: &[Collection],
        rev: Rev,
    ) -> Result<BTreeMap<Collection, usize>, WriteError> {
        merge::delete_unlisted(&mut self.session, did, collections, rev).await
    }

    /// What an account's own PDS was found to say of it, at `at`. An account that has no row is left out, and so is what
    /// is known already. Whether something changed.
    pub async fn set_standing(
        &mut self,
        did: &Did,
        active: bool,
        status: Option<&str>,
        at: Micros,
    ) -> Result<bool, WriteError> {
        Ok(queries::users::set_standing(&mut self.session, did, active, status, at).await?)
    }

    /// Stores the identity that was found on the way, as [`Tx::set_identity`] does; nothing is written if it is known.
    pub async fn found_identity(
        &mut self,
        did: &Did,
        due: Option<&IdentityDue>,
        found: &IdentityFound,
    ) -> Result<(), WriteError> {
        let Some((handle, pds)) = queries::users::identity(&mut self.session, did).await? else {
            return Ok(());
        };
        if let Some(due) = due {
            return self.set_identity(due, found).await;
        }
        let is_known = pds == found.pds
            && match &found.handle {
                HandleFound::Valid(found) => handle == found.as_str(),
                HandleFound::Invalid => handle == queries::users::NO_HANDLE,
                HandleFound::Unknown => true,
            };
        if is_known { Ok(()) } else { self.store_identity(did, found).await }
    }

    /// What came of reading a repository, and what that adds to the run.
    pub async fn repo_read(&mut self, did: &Did, outcome: &RepoOutcome) -> Result<(), WriteError> {
        Ok(queries::backfill_repos::set_outcome(&mut self.session, did, outcome).await?)
    }

    /// Adds to what a run has done.
    pub async fn add_to_run(&mut self, run: i64, more: &RunTotals) -> Result<(), WriteError> {
        Ok(queries::backfill_runs::add(&mut self.session, run, more).await?)
    }

    /// Makes the index forget some of the records of an account that is deleted, with all that follows from them, sums
    /// included. True: there are more.
    pub async fn forget_records(&mut self, did: &Did) -> Result<bool, WriteError> {
        apply::forget(&mut self.session, did, FORGET_ROWS_MAX).await
    }

    /// Deletes an account and whatever is left of it. Whether it was there.
    pub async fn delete_account(&mut self, did: &Did) -> Result<bool, WriteError> {
        let session = &mut self.session;
        queries::users::lock(session, std::slice::from_ref(did)).await?;
        let counted = queries::hold_records::counted_by(session, &[(did.as_str(), "")]).await?;
        let own = queries::repository_stats::of_owner(session, did.as_str()).await?;
        let touched: std::collections::BTreeSet<_> =
            counted.into_iter().chain(own.into_iter().map(|name| (did.to_string(), name))).collect();
        let was_there = queries::users::delete(session, did).await?;
        queries::repository_stats::recompute(session, &Vec::from_iter(touched)).await?;
        queries::backfill_repos::delete(session, did).await?;
        Ok(was_there)
    }
}

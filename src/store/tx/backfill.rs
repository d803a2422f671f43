//! What the backfill does in a fenced transaction.

use std::time::Duration;

use super::{HandleFound, IdentityFound, Tx};
use crate::atproto::Did;
use crate::store::backfill::{
    Changed, DueList, ListName, ListedPart, Merged, RepoRead, RunPlan, RunTotals, Whole,
};
use crate::store::{WriteError, apply, merge, queries};

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

    /// Merges parts of listings with what is known: what is known from a later revision stays. Each is of another
    /// repository, and together they have at most [`crate::store::MERGE_ROWS_MAX`] records.
    pub async fn merge(&mut self, parts: &[&ListedPart]) -> Result<Merged, WriteError> {
        merge::merge(&mut self.session, parts).await
    }

    /// Deletes records that a whole listing of their collection does not have: those that are known from an earlier
    /// revision alone. All parts of the listings are merged before. What changed by each, in their order; in all as many
    /// records as [`crate::store::MERGE_ROWS_MAX`] if there may be more.
    pub async fn delete_unlisted(&mut self, wholes: &[Whole]) -> Result<Vec<Changed>, WriteError> {
        merge::delete_unlisted(&mut self.session, wholes).await
    }

    /// The newest time (microseconds) that any stream has brought the index up to.
    pub async fn stream_passed(&mut self) -> Result<Option<i64>, WriteError> {
        let cursors = queries::cursors::all(&mut self.session).await?;
        Ok(cursors.into_iter().map(|(_, _, time_us, _)| time_us).max())
    }

    /// What came of reading repositories, each once.
    pub async fn repos_read(&mut self, reads: &[RepoRead]) -> Result<(), WriteError> {
        let standings: Vec<_> = reads.iter().filter_map(standing).collect();
        queries::users::set_standings(&mut self.session, &standings).await?;
        let found: Vec<_> = reads.iter().filter_map(found).collect();
        queries::users::set_identities(&mut self.session, &found).await?;
        for read in reads {
            if let Some(IdentityFound { handle: HandleFound::Unknown, .. }) = &read.identity
                && let Some(due) = &read.identity_due
            {
                self.identity_failed(due).await?;
            }
        }
        Ok(queries::backfill_repos::set_outcomes(&mut self.session, reads).await?)
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

fn standing(read: &RepoRead) -> Option<queries::users::Standing<'_>> {
    let (active, status) = read.standing.as_ref()?;
    Some((&read.did, *active, status.as_deref(), read.at))
}

/// A look-up whose handle is unknown is not done.
fn found(read: &RepoRead) -> Option<queries::users::Found<'_>> {
    let IdentityFound { handle, pds } = read.identity.as_ref()?;
    let due_at = read.identity_due.as_ref().map(|due| due.due_at);
    let (handle, due_at) = match handle {
        HandleFound::Valid(handle) => (Some(handle.as_str()), due_at),
        HandleFound::Invalid => (Some(queries::users::NO_HANDLE), due_at),
        HandleFound::Unknown => (None, None),
    };
    Some((&read.did, handle, pds.as_deref(), due_at))
}

//! What is read for the backfill, by itself and by people; and the wish of an operator, the one thing that is written here.

use std::time::Duration;

use super::{
    BY_OPERATOR, BackfillRun, DueList, DueRepo, ListName, RepoReport, RepoState, RunReport, RunTotals,
};
use crate::atproto::{Did, Micros, Rev};
use crate::store::queries::{backfill_repos, backfill_requests, backfill_runs};
use crate::store::session::Session;
use crate::store::{Database, IdentityDue, ReadError, SqlLeases, stored_did};

/// How old a run may become. One that has not ended by then is given up, as what it began with is no longer so.
const RUN_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long a repository's revision alone decides that it is unchanged. Then it is listed again all the same: whatever
/// went wrong once is put right within a day.
const LIST_AFTER: Duration = Duration::from_secs(24 * 3600);

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
        let Some((id, ended_at, records, changed, missed, requests)) = backfill_runs::report(session).await?
        else {
            return Ok(None);
        };
        let states = backfill_repos::count(session, id).await?;
        let of =
            |state: RepoState| states.iter().filter(|(name, _)| name == state.name()).map(|(_, n)| *n).sum();
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(Some(RunReport {
            id,
            is_ended: ended_at.is_some(),
            found: states.iter().map(|(_, n)| count(*n)).sum(),
            waiting: count(of(RepoState::Waiting)),
            failed: count(of(RepoState::Failed)),
            lists: count(backfill_runs::waiting_lists(session).await?),
            totals: RunTotals {
                records: count(records),
                changed: count(changed),
                missed: count(missed),
                requests: count(requests),
            },
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
        Ok(backfill_runs::waiting_lists(session).await? == 0
            && !backfill_repos::is_waiting(session, run).await?)
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
    let (did, run, rev, forced, listed, failures, gone, is_known, identity_due_at, pds) = row;
    let did = stored_did(&did)?;
    let rev = match rev {
        Some(text) => {
            Some(Rev::parse(&text).map_err(|e| ReadError(format!("a stored revision {text:?}: {e}")))?)
        }
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
        pds,
        did,
    })
}

fn since(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

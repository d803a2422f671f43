//! Accounts that are gone. Owns what it takes to delete one: its own, freshly resolved PDS must say so twice, an hour
//! apart. In between it is hidden. Anything else that an answer may mean deletes nothing.

use std::time::Duration;

use super::fetch::RepoStatus;
use super::finding::Done;
use super::merge::Reading;
use super::{Desk, meters};
use crate::atproto::{Did, Micros};
use crate::store::WriteError;
use crate::store::backfill::{DueRepo, Gone, RepoState, RunTotals};

/// The time between the two. At half, a PDS that is restored from a backup may lose accounts here; at double, a deleted
/// account's name is served for longer by those who do not hide it.
const CONFIRM_AFTER: Duration = Duration::from_secs(3_600);

/// Above that, so that two readings of one clock do not bring it round a moment too early.
const SLACK: Duration = Duration::from_secs(1);

/// Its PDS, or the directory, says that there is no such repository. `None`: the account was deleted, and all is written.
pub(super) async fn missing(reading: &Reading, why: &'static str) -> Result<Option<Done>, WriteError> {
    let repo = &reading.repo;
    if !repo.is_known {
        // Nothing of it is here: relays list what is long gone (indigo#1276).
        let mut done = Done::new(RepoState::Gone);
        done.totals.requests = 1;
        return Ok(Some(done));
    }
    let mut done = match reading.desk.fetcher.status(&repo.did).await {
        Ok(RepoStatus::Deleted) => match repo.gone_for {
            Some(known_for) if known_for >= CONFIRM_AFTER => {
                delete(reading).await?;
                return Ok(None);
            }
            known_for => hidden(known_for.unwrap_or_default()),
        },
        Ok(RepoStatus::Inactive(status)) => {
            let mut done = Done::new(RepoState::Read);
            done.standing = Some((false, Some(status)));
            (done.outcome.rev, done.outcome.gone) = (Some(None), Gone::Not);
            done
        }
        Ok(RepoStatus::Active { .. }) => {
            meters::failed("missing");
            let mut done = reading.failed(&format!("{why}, and that it is active"), Some(Duration::ZERO));
            done.outcome.gone = Gone::Not;
            done
        }
        Err(error) => {
            meters::failed(error.kind());
            let again = error.is_temporary().then_some(Duration::ZERO);
            reading.failed(&format!("{why}; its PDS did not confirm that: {error}"), again)
        }
    };
    done.totals.requests += 2;
    Ok(Some(done))
}

/// Deleted by its own word, and not yet for long enough.
fn hidden(known_for: Duration) -> Done {
    let mut done = Done::new(RepoState::Gone);
    done.standing = Some((false, Some("deleted".to_owned())));
    (done.outcome.rev, done.outcome.gone) = (Some(None), Gone::Seen);
    done.outcome.next_in = Some(CONFIRM_AFTER.saturating_sub(known_for) + SLACK);
    done
}

/// Record by record first: a large account is more than one transaction may last.
async fn delete(reading: &Reading) -> Result<(), WriteError> {
    let (database, term) = (&reading.desk.database, &reading.desk.term);
    loop {
        let did = reading.did().clone();
        if !database.fenced(term, async move |tx| tx.forget_records(&did).await).await? {
            break;
        }
    }
    let (did, wish, run) = (reading.did().clone(), reading.wish.clone(), reading.run);
    let work = async move |tx: &mut crate::store::Tx| {
        if let Some(wish) = &wish {
            tx.backfill_done(wish).await?;
        }
        tx.delete_account(&did).await?;
        tx.add_to_run(run, &RunTotals { requests: 2, ..RunTotals::default() }).await
    };
    database.fenced(term, work).await?;
    meters::account_deleted();
    tracing::info!(did = %reading.did(), "account deleted: its PDS has said so twice, an hour apart");
    Ok(())
}

/// The reading of a repository ended by a bug: it is told as failed, so that it is not tried again and again at once.
pub(super) async fn panicked(desk: &Desk, did: &Did) -> Result<(), WriteError> {
    meters::failed("panic");
    let repo = DueRepo {
        did: did.clone(),
        run: 0,
        rev: None,
        forced: false,
        is_listing_due: false,
        failures: 0,
        gone_for: None,
        is_known: false,
        identity_due: None,
        pds: None,
    };
    let reading = Reading { desk: desk.clone(), run: 0, repo, wish: None, began: Micros::now() };
    let done = reading.failed(&"its reading failed unexpectedly; the log has more", None);
    reading.write_alone(done).await
}

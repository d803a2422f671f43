//! What a fenced transaction can do: to the index, and to what has expired.

mod backfill;
mod billing;
mod labels;
mod outbox;

use std::time::Duration;

use super::session::Session;
use super::{BackfillRequest, IdentityDue, Sweep, Sweepable, WriteError, apply, queries};
use crate::atproto::identity::{HandleCheck, Identity};
use crate::atproto::{Change, Did, Handle, Micros};

pub use super::apply::Applied;
pub use outbox::Outcome;

/// The first wait after a failed look-up of an identity; each further failure doubles it. At half of it a host that
/// restarts would be asked more often than it helps, at double a new user's name is missing for a minute.
const LOOK_UP_WAIT_MIN: Duration = Duration::from_secs(30);

/// The longest wait. At half of it dead hosts cost twice the look-ups, at double a repaired one is found the next day.
const LOOK_UP_WAIT_MAX: Duration = Duration::from_secs(6 * 3600);

/// A writing transaction under a valid term. Made by [`super::Database::fenced`] only. On PostgreSQL one that fails
/// after another writer's deadlock or restart is simply run again: every operation may be repeated.
pub struct Tx {
    pub(super) session: Session,
}

/// What a look-up of an identity found out about the handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandleFound {
    /// It is this one, verified both ways.
    Valid(Handle),
    /// There is none that is valid.
    Invalid,
    /// The look-up of the handle itself failed for now: what is stored stays, and the look-up stays due.
    Unknown,
}

/// What a look-up of an identity found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFound {
    /// The handle.
    pub handle: HandleFound,
    /// The address of the PDS, if the identity has one.
    pub pds: Option<String>,
}

impl From<Identity> for IdentityFound {
    fn from(identity: Identity) -> Self {
        let handle = match identity.handle {
            HandleCheck::Valid(handle) => HandleFound::Valid(handle),
            HandleCheck::Invalid => HandleFound::Invalid,
            HandleCheck::Unknown(_) => HandleFound::Unknown,
        };
        Self { handle, pds: identity.pds }
    }
}

impl Tx {
    pub(super) fn new(session: Session) -> Self {
        Self { session }
    }

    /// Brings the index up to what repositories say. Any interleaving, repetition and replay of their histories ends in
    /// what their latest revisions hold.
    pub async fn apply(&mut self, changes: &[Change]) -> Result<Applied, WriteError> {
        apply::apply(&mut self.session, changes).await
    }

    /// Notes that `host`'s stream on this wire is in the index up to `time_us`. Never moves a cursor back.
    pub async fn save_cursor(&mut self, wire: &str, host: &str, time_us: i64) -> Result<(), WriteError> {
        Ok(queries::cursors::advance(&mut self.session, wire, host, time_us, None).await?)
    }

    /// The same on a wire that numbers its events: the number is the position, `time_us` only what is known of its time.
    pub async fn save_numbered_cursor(
        &mut self,
        wire: &str,
        host: &str,
        seq: i64,
        time_us: i64,
    ) -> Result<(), WriteError> {
        Ok(queries::cursors::advance(&mut self.session, wire, host, time_us, Some(seq)).await?)
    }

    /// Forgets a number that its host does not know any more: the next one that is saved may be lower. The time stays.
    pub async fn forget_cursor_number(&mut self, wire: &str, host: &str) -> Result<(), WriteError> {
        Ok(queries::cursors::forget_seq(&mut self.session, wire, host).await?)
    }

    /// Asks for a repository to be read again; `None`: for every one. One wish stands for each, however often it is
    /// asked for.
    pub async fn ask_backfill(&mut self, did: Option<&Did>, reason: &str) -> Result<(), WriteError> {
        let did = did.map_or(queries::backfill_requests::EVERY, Did::as_str);
        Ok(queries::backfill_requests::ask(&mut self.session, did, reason).await?)
    }

    /// Takes out a wish whose repositories were read after it was read from the database. False: it was asked for again
    /// in the meantime, and stays.
    pub async fn backfill_done(&mut self, request: &BackfillRequest) -> Result<bool, WriteError> {
        let did = request.did.as_ref().map_or(queries::backfill_requests::EVERY, Did::as_str);
        Ok(queries::backfill_requests::take_out(&mut self.session, did, request.asked_at).await?)
    }

    /// What an account says about itself, as of `at`. False: unknown account, or something as new is known.
    pub async fn set_account(
        &mut self,
        did: &Did,
        active: bool,
        status: Option<&str>,
        at: Micros,
    ) -> Result<bool, WriteError> {
        Ok(queries::users::set_account(&mut self.session, did, active, status, at).await?)
    }

    /// Asks for the identities to be looked up now. Unknown accounts are left out.
    pub async fn mark_identity_due(&mut self, dids: &[Did]) -> Result<(), WriteError> {
        queries::users::lock(&mut self.session, dids).await?;
        Ok(queries::users::mark_due(&mut self.session, dids).await?)
    }

    /// Stores the result of a look-up. A handle moves: whoever had it has `handle.invalid` from now on. The look-up is
    /// no longer due, unless it was asked for again since `due` was read, or the handle is still unknown.
    pub async fn set_identity(&mut self, due: &IdentityDue, found: &IdentityFound) -> Result<(), WriteError> {
        self.store_identity(&due.did, found).await?;
        match found.handle {
            HandleFound::Unknown => self.identity_failed(due).await,
            _ => Ok(queries::users::clear_due(&mut self.session, due).await?),
        }
    }

    async fn store_identity(&mut self, did: &Did, found: &IdentityFound) -> Result<(), WriteError> {
        let handle = match &found.handle {
            HandleFound::Valid(handle) => Some(handle.as_str()),
            HandleFound::Invalid => Some(queries::users::NO_HANDLE),
            HandleFound::Unknown => None,
        };
        if let HandleFound::Valid(handle) = &found.handle {
            queries::users::take_handle(&mut self.session, did, handle).await?;
        }
        Ok(queries::users::set_identity(&mut self.session, did, handle, found.pds.as_deref()).await?)
    }

    /// Whether a table can be swept: those of the registry may not be there, or be others than we know.
    pub async fn sweepable(&mut self, sweep: &Sweep) -> Result<Sweepable, WriteError> {
        Ok(queries::sweeps::sweepable(&mut self.session, sweep).await?)
    }

    /// Deletes what has expired in one table, up to [`super::SWEEP_ROWS_MAX`] rows; how many it were.
    pub async fn sweep(&mut self, sweep: &Sweep, history_for: Duration) -> Result<u32, WriteError> {
        Ok(queries::sweeps::run(&mut self.session, sweep, history_for).await?)
    }

    /// Counts a failed look-up and puts the next one off: 30 s, doubling to 6 h.
    pub async fn identity_failed(&mut self, due: &IdentityDue) -> Result<(), WriteError> {
        let wait = look_up_wait(due.failures);
        Ok(queries::users::put_off(&mut self.session, due, wait).await?)
    }
}

fn look_up_wait(failures: u32) -> Duration {
    LOOK_UP_WAIT_MIN.saturating_mul(1 << failures.min(16)).min(LOOK_UP_WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_from_half_a_minute_to_six_hours() {
        let seconds = |failures| look_up_wait(failures).as_secs();
        assert_eq!((seconds(0), seconds(1), seconds(9)), (30, 60, 15_360));
        assert_eq!((seconds(10), seconds(u32::MAX)), (21_600, 21_600));
    }
}

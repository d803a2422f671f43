//! The `billing` worker: what users pay for at Stripe becomes their rank here, and their tier at each managed hold.
//!
//! In reading order: what Stripe says (`stripe`), what that makes a user's rank (`desired`, pure), how it gets into the
//! database (`refresh`); how holds are asked and told (`holds`, `token`), and what of it is due (`tiers`, `sync`);
//! what is told of it (`meters`).
//!
//! Its requests leave the database, so none begins after a stop or without trust: each goes through `errand::Errand`.
//! All of them may be repeated: what a hold is told is a state, never a change.

pub mod desired;
mod errand;
pub mod holds;
pub mod meters;
mod refresh;
pub mod stripe;
mod sync;
mod tiers;
pub mod token;

use std::time::Duration;

use async_trait::async_trait;
use leased_actors::lease::{Effects, LeaseName};
use leased_actors::worker::{Context, Worker, WorkerError};

use self::desired::Ranks;
use self::errand::{Errand, Halted};
use self::holds::Holds;
use self::refresh::Refresh;
use self::stripe::Stripe;
use self::sync::Sync;
use crate::atproto::Did;
use crate::store::{Database, ReadError, WriteError};

/// How often the database is asked what the holds have to be told. At half, twice the statements for nothing; at double, who
/// has just paid waits so much longer for what they paid for.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long it may not tell that it goes on, beside one request. At half, one long lock of somebody's in the database passes
/// for a hang; at double, a hang costs two minutes.
const PROGRESS_WITHIN: Duration = Duration::from_secs(60);

/// The worker.
pub struct Billing {
    /// Where what users pay for is kept.
    pub database: Database,
    /// Who says what they pay for.
    pub stripe: Stripe,
    /// What that makes their rank.
    pub ranks: Ranks,
    /// Who is told of it.
    pub holds: Holds,
    /// Which of them.
    pub managed: Vec<Did>,
    /// From the end of a refresh to the start of the next, give or take a tenth; the holds' tiers are asked for as often.
    pub interval: Duration,
    /// See [`LOOK_EVERY`].
    pub look_every: Duration,
    /// The longest that one request takes.
    pub timeout: Duration,
}

#[async_trait]
impl Worker for Billing {
    fn name(&self) -> LeaseName {
        "billing".parse().expect("the name is good")
    }

    fn effects(&self) -> Effects {
        Effects::External
    }

    fn progress_within(&self) -> Option<Duration> {
        Some(PROGRESS_WITHIN + self.timeout)
    }

    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        let errand = Errand::new(context);
        let (mut refresh, mut sync) = (Refresh::new(self), Sync::new(self));
        loop {
            let round = async {
                refresh.if_due(&errand).await?;
                sync.round(&errand).await?;
                errand.rest(self.look_every).await
            };
            match round.await {
                Ok(()) => {}
                Err(Halted) if errand.is_stopped() => return Ok(()),
                // The supervisor is about to stop us, or trust comes back: a renewal is late.
                Err(Halted) => errand.until_trusted().await,
            }
        }
    }
}

/// Writes. One that shows the term to be over ends the errand, any other failure is told and left for later.
async fn write<T>(
    errand: &Errand,
    what: &'static str,
    work: impl Future<Output = Result<T, WriteError>>,
) -> Result<Option<T>, Halted> {
    written(errand, what, errand.stored(work).await?)
}

/// What became of a write.
fn written<T>(
    errand: &Errand,
    what: &'static str,
    outcome: Result<T, WriteError>,
) -> Result<Option<T>, Halted> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(WriteError::Stale(term)) => {
            tracing::warn!(lease.name = %term.name, lease.epoch = term.epoch.0, what, "write refused: another has the lease");
            errand.end();
            Err(Halted)
        }
        Err(WriteError::Untrusted(_)) => Err(Halted),
        Err(error) => {
            tracing::warn!(%error, what, "not written; it is tried again");
            Ok(None)
        }
    }
}

/// Reads. A failure is told and left for later.
async fn read<T>(
    errand: &Errand,
    what: &'static str,
    work: impl Future<Output = Result<T, ReadError>>,
) -> Result<Option<T>, Halted> {
    let outcome = errand.stored(work).await?;
    Ok(outcome.inspect_err(|error| tracing::warn!(%error, what, "not read; it is tried again")).ok())
}

/// The wait before a further attempt: half a minute after the first failure, doubling to an hour. At half, what is away is
/// asked twice as often for nothing; at double, what has just restarted is told a minute later.
fn wait_after(failures: u32) -> Duration {
    Duration::from_secs(30)
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(Duration::from_secs(3_600))
}

/// What is told of an error, which may carry a stranger's words.
fn plain(error: &impl std::fmt::Display) -> String {
    error.to_string().chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_from_half_a_minute_to_an_hour() {
        let seconds = |failures| wait_after(failures).as_secs();
        assert_eq!([0, 1, 2, 7, 8, u32::MAX].map(seconds), [30, 30, 60, 1_920, 3_600, 3_600]);
    }
}

//! A managed hold as it stands with us: where it is, whether it is let alone for now, and when its tiers are asked for.

use std::time::Duration;

use tokio::time::Instant;

use super::holds::HoldError;
use super::{Billing, Errand, Halted, plain, wait_after, write};
use crate::atproto::Did;
use crate::store::Tx;

/// The longest that a hold's own word keeps us away.
const AWAY_MAX: Duration = Duration::from_secs(3_600);

/// How often it is looked who has joined a hold's crew. At half, ten thousand who wait for ten holds cost a processor's
/// twentieth; at double, a new member waits a minute for what they paid for.
const CREW_EVERY: Duration = Duration::from_secs(30);

/// A managed hold.
pub(super) struct Hold {
    pub(super) did: Did,
    /// Where it is, as last looked up.
    pub(super) url: Option<String>,
    tiers_due: Instant,
    crew_due: Instant,
    failures: u32,
    away_until: Option<Instant>,
}

impl Hold {
    /// It is asked at once.
    pub(super) fn new(did: Did) -> Self {
        let now = Instant::now();
        Self { did, url: None, tiers_due: now, crew_due: now, failures: 0, away_until: None }
    }

    /// Whether it is let alone for now.
    pub(super) fn is_away(&self) -> bool {
        self.away_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether it is time to look who has joined its crew; if so, the next time is put off.
    pub(super) fn is_crew_due(&mut self, interval: Duration) -> bool {
        let now = Instant::now();
        let is_due = now >= self.crew_due;
        if is_due {
            self.crew_due = now + CREW_EVERY.min(interval);
        }
        is_due
    }

    /// Whether its last answer was none.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// It answered.
    pub(super) fn answered(&mut self) {
        if self.failures > 0 {
            tracing::info!(hold = %self.did, failures = self.failures, "the hold answers again");
        }
        (self.failures, self.away_until) = (0, None);
    }

    /// It did not, or not to the point: for how long it is let alone, never longer than from a refresh to the next unless it
    /// asks for that. Its address is looked up afresh then.
    pub(super) fn failed(&mut self, what: &str, error: &HoldError, interval: Duration) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let asked_for = error.retry_after().unwrap_or_default().min(AWAY_MAX);
        let wait = wait_after(self.failures).min(interval).max(asked_for);
        (self.away_until, self.url) = (Some(Instant::now() + wait), None);
        let (error, hold) = (plain(error), &self.did);
        match self.failures {
            1 => tracing::warn!(%hold, what, error, wait = ?wait, "the hold is let alone for a while"),
            failures => {
                tracing::debug!(%hold, what, error, failures, wait = ?wait, "the hold is let alone again")
            }
        }
        wait
    }

    /// Finds out where it is, and asks for its tiers if that is due. True: it can be told of users. What is stored stays
    /// where it does not answer.
    pub(super) async fn get_ready(&mut self, billing: &Billing, errand: &Errand) -> Result<bool, Halted> {
        let are_tiers_due = Instant::now() >= self.tiers_due;
        if are_tiers_due {
            self.url = None;
        }
        let url = match &self.url {
            Some(url) => url.clone(),
            None => match billing.holds.address(errand, &self.did).await? {
                Ok(url) => self.url.insert(url).clone(),
                Err(error) => {
                    self.failed("look-up", &error, billing.interval);
                    return Ok(false);
                }
            },
        };
        if !are_tiers_due {
            return Ok(true);
        }
        let tiers = match billing.holds.list_tiers(errand, &url).await? {
            Ok(tiers) => tiers,
            Err(error) => {
                self.failed("listTiers", &error, billing.interval);
                return Ok(false);
            }
        };
        let did = self.did.clone();
        let store = async move |tx: &mut Tx| {
            tx.set_hold_tiers(&did, &tiers).await?;
            tx.plan_hold(&did).await
        };
        let stored = write(errand, "a hold's tiers", billing.database.fenced(errand.term(), store)).await?;
        if stored.is_some() {
            self.answered();
            self.tiers_due = Instant::now() + billing.interval;
        }
        Ok(stored.is_some())
    }
}

//! Billing as the database has it: who pays for which tier, the managed holds' tiers, and what each hold is to be told.

use std::time::Duration;

use super::queries::{billing, crew_tiers};
use super::{Database, ReadError, stored_did};
use crate::atproto::{Did, Micros};

/// Rows that one transaction writes at most, and one read returns. At half, a refresh takes twice the transactions; at
/// double, other writers of a SQLite file begin to wait for it.
pub const BILLING_ROWS_MAX: usize = 500;

/// What a user pays for: of all their subscriptions the one that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// Who.
    pub user: Did,
    /// Stripe's id of the customer.
    pub customer: String,
    /// Stripe's id of the subscription.
    pub subscription: String,
    /// Stripe's word for how it stands.
    pub status: String,
    /// The tier's place in `billing.tiers`; 0: nothing is paid for.
    pub rank: u32,
    /// Until when it is paid, if Stripe says.
    pub period_end: Option<Micros>,
}

/// A tier of a hold, by its place in the hold's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldTier {
    /// The hold's name for it.
    pub name: String,
    /// None: not told, or without limit.
    pub quota_bytes: Option<i64>,
    /// The same for people.
    pub quota_formatted: Option<String>,
    /// Whether pushes are scanned.
    pub scan_on_push: bool,
}

/// What a hold has to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTier {
    /// Of whom.
    pub user: Did,
    /// The rank there, never above the hold's last.
    pub rank: u32,
    /// How many attempts have failed in a row.
    pub failures: u32,
    /// The revision of their crew record there, if the index has one.
    pub crew_rev: Option<String>,
}

/// What came of telling a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It knows, and calls the tier so.
    Applied(String),
    /// The user is not of its crew: it is told once a crew record appears, or changes.
    NotCrew,
    /// It is to be told again after this time.
    Failed {
        /// Why.
        error: String,
        /// How much later.
        wait: Duration,
    },
}

impl Database {
    /// The time by the database's clock.
    pub async fn clock(&self) -> Result<Micros, ReadError> {
        Ok(Micros(billing::now(&mut self.session().await?).await?))
    }

    /// At most [`BILLING_ROWS_MAX`] subscribers beyond this one in the order of their DIDs; of those alone that are not
    /// known to have lost their subscription already.
    pub async fn subscribers(&self, beyond: Option<&Did>) -> Result<Vec<Subscriber>, ReadError> {
        let beyond = beyond.map_or("", Did::as_str);
        let rows = billing::current(&mut self.session().await?, beyond, BILLING_ROWS_MAX as i64).await?;
        let read = |(user, customer, subscription, status, of_rank, period_end): billing::Row| {
            let (user, rank, period_end) = (stored_did(&user)?, rank(of_rank), period_end.map(Micros));
            Ok(Subscriber { user, customer, subscription, status, rank, period_end })
        };
        rows.into_iter().map(read).collect()
    }

    /// At most [`BILLING_ROWS_MAX`] users whose rank is not planned for the holds yet, with that rank.
    pub async fn unplanned_ranks(&self) -> Result<Vec<(Did, u32)>, ReadError> {
        let rows = billing::unplanned(&mut self.session().await?, BILLING_ROWS_MAX as i64).await?;
        rows.into_iter().map(|(user, of_rank)| Ok((stored_did(&user)?, rank(of_rank)))).collect()
    }

    /// At most `limit` users that this hold has to be told of now, the longest due first.
    pub async fn due_tiers(&self, hold: &Did, limit: u32) -> Result<Vec<DueTier>, ReadError> {
        let rows = crew_tiers::due(&mut self.session().await?, hold.as_str(), limit.into()).await?;
        let read = |(user, of_rank, failures, crew_rev): crew_tiers::DueRow| {
            let failures = u32::try_from(failures).unwrap_or(u32::MAX);
            Ok(DueTier { user: stored_did(&user)?, rank: rank(of_rank), failures, crew_rev })
        };
        rows.into_iter().map(read).collect()
    }

    /// At most [`BILLING_ROWS_MAX`] users who were not of this hold's crew when it was told of them, and have had a crew
    /// record written since.
    pub async fn joined_crews(&self, hold: &Did) -> Result<Vec<Did>, ReadError> {
        let rows =
            crew_tiers::joined(&mut self.session().await?, hold.as_str(), BILLING_ROWS_MAX as i64).await?;
        rows.iter().map(|user| stored_did(user)).collect()
    }
}

fn rank(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(0)
}

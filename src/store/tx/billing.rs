//! What billing does in a fenced transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Tx;
use crate::atproto::{Did, Micros};
use crate::store::WriteError;
use crate::store::billing::{BILLING_ROWS_MAX, DueTier, HoldTier, Subscriber, Told};
use crate::store::queries::{billing, crew_tiers, hold_tiers};

impl Tx {
    /// Notes which subscriptions' payments are late: those that were not before are from now on, and all others are not
    /// any more. For how long each has been late.
    pub async fn set_past_due(
        &mut self,
        late: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Duration>, WriteError> {
        let session = &mut self.session;
        let known: BTreeMap<_, _> = billing::past_due(session).await?.into_iter().collect();
        let over: Vec<_> = known.keys().filter(|id| !late.contains(*id)).map(String::as_str).collect();
        let begun: Vec<_> = late.iter().filter(|id| !known.contains_key(*id)).map(String::as_str).collect();
        billing::end_past_due(session, &over).await?;
        billing::begin_past_due(session, &begun).await?;
        let since = |id: &String| {
            let us = known.get(id).copied().unwrap_or(0);
            (id.clone(), Duration::from_micros(u64::try_from(us).unwrap_or(0)))
        };
        Ok(late.iter().map(since).collect())
    }

    /// Stores what users pay for, as Stripe said after `as_of` (by the database's clock). A row that somebody changed
    /// since then stays: Stripe's own word to the registry is newer. How many rows changed.
    pub async fn set_subscribers(
        &mut self,
        subscribers: &[Subscriber],
        as_of: Micros,
    ) -> Result<usize, WriteError> {
        assert!(subscribers.len() <= BILLING_ROWS_MAX, "the caller cuts them into parts");
        Ok(billing::upsert(&mut self.session, subscribers, as_of.0).await?)
    }

    /// Puts a hold's tiers in the place of those that it listed before.
    pub async fn set_hold_tiers(&mut self, hold: &Did, tiers: &[HoldTier]) -> Result<(), WriteError> {
        Ok(hold_tiers::replace(&mut self.session, hold.as_str(), tiers).await?)
    }

    /// Plans what these holds have to be told of these users. A hold whose tiers are not known yet waits for them, and
    /// no hold is told of rank 0 that was never told of another.
    pub async fn plan_ranks(&mut self, holds: &[Did], users: &[(Did, u32)]) -> Result<(), WriteError> {
        for hold in holds {
            crew_tiers::plan_users(&mut self.session, hold.as_str(), users).await?;
        }
        Ok(billing::set_planned(&mut self.session, users).await?)
    }

    /// Plans anew what this hold has to be told, its tiers being others now; also of members whose crew record says
    /// another tier than the hold said when it was told.
    pub async fn plan_hold(&mut self, hold: &Did) -> Result<(), WriteError> {
        crew_tiers::plan_all(&mut self.session, hold.as_str()).await?;
        Ok(crew_tiers::repeat_lost(&mut self.session, hold.as_str()).await?)
    }

    /// This hold is to be told of these users now.
    pub async fn tell_again(&mut self, hold: &Did, users: &[Did]) -> Result<(), WriteError> {
        Ok(crew_tiers::make_due(&mut self.session, hold.as_str(), users).await?)
    }

    /// What came of telling a hold. What was planned in the meantime stays due.
    pub async fn told_hold(&mut self, hold: &Did, due: &DueTier, told: &Told) -> Result<(), WriteError> {
        let (session, hold, user) = (&mut self.session, hold.as_str(), due.user.as_str());
        let (rank, rev) = (i64::from(due.rank), due.crew_rev.as_deref());
        match told {
            Told::Applied(name) => crew_tiers::applied(session, (user, hold), rank, name, rev).await?,
            Told::NotCrew => crew_tiers::not_crew(session, (user, hold), rev).await?,
            Told::Failed { error, wait } => crew_tiers::failed(session, (user, hold), error, *wait).await?,
        }
        Ok(())
    }
}

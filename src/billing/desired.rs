//! What a user's subscriptions make their rank. Pure: knows neither Stripe's wire nor the database.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::stripe::{Status, Subscription};
use crate::atproto::{Did, Micros};
use crate::settings::Tier;
use crate::store::billing::Subscriber;

/// What is kept of a user whose subscription Stripe does not know any more.
pub(super) const GONE: &str = "gone";

/// Which prices lead to which rank, and how late a payment may be.
#[derive(Debug, Clone)]
pub struct Ranks {
    by_price: BTreeMap<String, u32>,
    grace: Duration,
}

/// What follows from a whole list of subscriptions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// One for each user who is named.
    pub subscribers: BTreeMap<Did, Subscriber>,
    /// Subscriptions whose customer names no account.
    pub unnamed: usize,
    /// Prices that are paid for, of subscriptions of which no price is in a tier.
    pub unknown_prices: BTreeSet<String>,
}

impl Ranks {
    /// `tiers` in rank order, the first for everybody.
    pub fn new(tiers: &[Tier], grace: Duration) -> Self {
        let of_tier = |(rank, tier): (u32, &Tier)| {
            let price = move |price: &String| (price.clone(), rank);
            tier.price_ids.iter().map(price).collect::<Vec<_>>()
        };
        Self { by_price: (0..).zip(tiers).flat_map(of_tier).collect(), grace }
    }

    /// The rank of each user: that of the highest price which they pay for now. `late` says for how long a payment has
    /// been late; one that is not in it has just become so.
    pub fn desired(&self, subscriptions: &[Subscription], late: &BTreeMap<String, Duration>) -> Desired {
        let mut desired = Desired::default();
        for subscription in subscriptions {
            let Some(user) = &subscription.user else {
                desired.unnamed += 1;
                continue;
            };
            let rank = self.rank(subscription, late.get(&subscription.id).copied().unwrap_or_default());
            let is_paid = self.is_paid(subscription.status, Duration::ZERO);
            if is_paid && self.highest(subscription).is_none() {
                desired.unknown_prices.extend(subscription.prices.iter().cloned());
            }
            let found = subscriber(user, subscription, rank);
            let known = desired.subscribers.get(user);
            if known.is_none_or(|known| weight(&found) > weight(known)) {
                desired.subscribers.insert(user.clone(), found);
            }
        }
        desired
    }

    /// What becomes of a user who is in no list any more, by what Stripe says of the subscription that they had. None:
    /// nothing changes.
    pub fn unlisted(
        &self,
        known: &Subscriber,
        found: Option<&Subscription>,
        now: Micros,
    ) -> Option<Subscriber> {
        let over = |status: &str| Some(Subscriber { status: status.to_owned(), rank: 0, ..known.clone() });
        match found {
            // It has become somebody else's, or nobody's.
            Some(subscription) if subscription.user.as_ref() != Some(&known.user) => over(GONE),
            Some(subscription) => {
                let rank = self.rank(subscription, Duration::ZERO);
                Some(subscriber(&known.user, subscription, rank))
            }
            // Another account of Stripe's, or its test mode, has none of our subscriptions: what is paid for stays paid for
            // until its end.
            None => {
                let grace = i64::try_from(self.grace.as_micros()).unwrap_or(i64::MAX);
                let until = known.period_end?.0.saturating_add(grace);
                if now.0 > until { over(GONE) } else { None }
            }
        }
    }

    fn rank(&self, subscription: &Subscription, late_for: Duration) -> u32 {
        let highest = self.highest(subscription).filter(|_| self.is_paid(subscription.status, late_for));
        highest.unwrap_or(0)
    }

    fn highest(&self, subscription: &Subscription) -> Option<u32> {
        subscription.prices.iter().filter_map(|price| self.by_price.get(price)).max().copied()
    }

    fn is_paid(&self, status: Status, late_for: Duration) -> bool {
        match status {
            Status::Active | Status::Trialing => true,
            Status::PastDue => late_for < self.grace,
            _ => false,
        }
    }
}

/// Of several subscriptions the one counts that gives most; then the one that lasts longest. The id decides at last, so that
/// the order of a list never does.
fn weight(subscriber: &Subscriber) -> (u32, bool, Option<Micros>, &str) {
    let is_active = matches!(subscriber.status.as_str(), "active" | "trialing");
    (subscriber.rank, is_active, subscriber.period_end, &subscriber.subscription)
}

fn subscriber(user: &Did, subscription: &Subscription, rank: u32) -> Subscriber {
    Subscriber {
        user: user.clone(),
        customer: subscription.customer.clone(),
        subscription: subscription.id.clone(),
        status: subscription.status.word().to_owned(),
        rank,
        period_end: subscription.period_end,
    }
}

#[cfg(test)]
mod tests;

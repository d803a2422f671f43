//! One refresh: the whole list of subscriptions, then the rows that follow from it. A list that is not whole changes nothing.

use std::collections::BTreeSet;

use rand::Rng;
use tokio::time::Instant;

use super::stripe::{Status, StripeError};
use super::{Billing, Errand, Halted, desired::Desired, meters, read, wait_after, write};
use crate::atproto::{Did, Micros};
use crate::store::Tx;
use crate::store::billing::{BILLING_ROWS_MAX, Subscriber};

/// When the next refresh is due.
pub(super) struct Refresh<'a> {
    billing: &'a Billing,
    due: Instant,
    failures: u32,
}

/// How a refresh went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Every user's rank is what Stripe says.
    Done,
    /// Some are not, and keep the rank that they had.
    Failed,
}

impl<'a> Refresh<'a> {
    /// The first is due at once.
    pub(super) fn new(billing: &'a Billing) -> Self {
        Self { billing, due: Instant::now(), failures: 0 }
    }

    pub(super) async fn if_due(&mut self, errand: &Errand) -> Result<(), Halted> {
        if Instant::now() < self.due {
            return Ok(());
        }
        let outcome = self.run(errand).await?;
        let interval = self.billing.interval;
        let wait = match outcome {
            Outcome::Done => {
                self.failures = 0;
                interval.mul_f64(1.0 + rand::rng().random_range(-0.1..0.1))
            }
            Outcome::Failed => {
                self.failures = self.failures.saturating_add(1);
                wait_after(self.failures).min(interval)
            }
        };
        meters::refreshed(outcome == Outcome::Done);
        self.due = Instant::now() + wait;
        Ok(())
    }

    async fn run(&self, errand: &Errand) -> Result<Outcome, Halted> {
        let Some(as_of) = read(errand, "the database's clock", self.billing.database.clock()).await? else {
            return Ok(Outcome::Failed);
        };
        let subscriptions = match self.billing.stripe.subscriptions(errand).await? {
            Ok(subscriptions) => subscriptions,
            Err(error) => return Ok(failed(&error, self.failures)),
        };
        let late = subscriptions.iter().filter(|s| s.status == Status::PastDue);
        let late: BTreeSet<String> = late.map(|subscription| subscription.id.clone()).collect();
        let noted = self
            .billing
            .database
            .fenced(errand.term(), async move |tx: &mut Tx| tx.set_past_due(&late).await);
        let Some(late) = write(errand, "late payments", noted).await? else { return Ok(Outcome::Failed) };
        let desired = self.billing.ranks.desired(&subscriptions, &late);
        meters::subscriptions(&subscriptions, &desired);
        tell(&desired);
        let listed: Vec<Subscriber> = desired.subscribers.values().cloned().collect();
        let wrote = self.write(errand, listed, as_of).await?;
        let settled = self.settle_unlisted(errand, &desired, as_of).await?;
        Ok(if wrote && settled { Outcome::Done } else { Outcome::Failed })
    }

    async fn write(&self, errand: &Errand, all: Vec<Subscriber>, as_of: Micros) -> Result<bool, Halted> {
        let mut changed = 0;
        for part in all.chunks(BILLING_ROWS_MAX).map(<[Subscriber]>::to_vec) {
            let work = async move |tx: &mut Tx| tx.set_subscribers(&part, as_of).await;
            match write(errand, "subscriptions", self.billing.database.fenced(errand.term(), work)).await? {
                Some(rows) => changed += rows,
                None => return Ok(false),
            }
        }
        if changed > 0 {
            tracing::info!(users = changed, "subscriptions changed");
        }
        Ok(true)
    }

    /// Who was subscribed, and is in the list no more, is asked about one by one: a list of another account of Stripe's would
    /// otherwise take everybody's tier. Whether all of them are settled.
    async fn settle_unlisted(
        &self,
        errand: &Errand,
        desired: &Desired,
        as_of: Micros,
    ) -> Result<bool, Halted> {
        let (mut beyond, mut settled, mut unknown): (Option<Did>, bool, u32) = (None, true, 0);
        loop {
            let Some(part) =
                read(errand, "subscribers", self.billing.database.subscribers(beyond.as_ref())).await?
            else {
                return Ok(false);
            };
            let Some(last) = part.last().map(|subscriber| subscriber.user.clone()) else { break };
            let mut over = Vec::new();
            for known in part.iter().filter(|known| !desired.subscribers.contains_key(&known.user)) {
                match self.billing.stripe.subscription(errand, &known.subscription).await? {
                    Ok(found) => {
                        unknown += u32::from(found.is_none());
                        over.extend(self.billing.ranks.unlisted(known, found.as_ref(), as_of));
                    }
                    Err(error) => {
                        failed(&error, self.failures);
                        settled = false;
                        break;
                    }
                }
            }
            settled &= self.write(errand, over, as_of).await?;
            if !settled {
                break;
            }
            beyond = Some(last);
        }
        if unknown > 0 {
            tracing::warn!(
                subscriptions = unknown,
                "stripe does not know subscriptions that it had: is billing.stripe_secret_key of another account, or of \
                 its test mode? They keep their tier until they end"
            );
        }
        Ok(settled)
    }
}

/// Told at once where an operator can do something about it, else when it has failed before: Stripe has bad minutes.
fn failed(error: &StripeError, failures: u32) -> Outcome {
    if matches!(error, StripeError::Key { .. }) {
        tracing::error!(%error, "subscriptions not refreshed: nothing changes");
    } else {
        tracing::warn!(%error, failures, "subscriptions not refreshed: nothing changes, and it is tried again");
    }
    Outcome::Failed
}

fn tell(desired: &Desired) {
    /// So many are named: the rest is the same mistake.
    const PRICES_MAX: usize = 10;
    if !desired.unknown_prices.is_empty() {
        let prices: Vec<_> = desired.unknown_prices.iter().take(PRICES_MAX).map(String::as_str).collect();
        tracing::warn!(
            prices = prices.join(","),
            count = desired.unknown_prices.len(),
            "subscriptions to prices that no tier of billing.tiers names: their users have the free tier"
        );
    }
    if desired.unnamed > 0 {
        tracing::warn!(
            subscriptions = desired.unnamed,
            "subscriptions whose customer has no did in its metadata: they give nobody a tier"
        );
    }
}

//! Every metric of billing. Labels are words of our own, or Stripe's known statuses, so their number is bounded.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use super::desired::Desired;
use super::stripe::{Status, StripeError, Subscription};
use crate::atproto::Micros;

const REFRESHES: &str = "atcr_billing_refreshes_total";
const LAST: &str = "atcr_billing_last_refresh_timestamp_seconds";
const STRIPE_FAILURES: &str = "atcr_billing_stripe_failures_total";
const SUBSCRIPTIONS: &str = "atcr_billing_subscriptions";
const UNNAMED: &str = "atcr_billing_subscriptions_without_account";
const UNKNOWN_PRICES: &str = "atcr_billing_prices_without_tier";
const UPDATES: &str = "atcr_billing_tier_updates_total";
const AWAY: &str = "atcr_billing_holds_away";

/// Tells the recorder what each metric means. Once, at start.
pub fn describe_metrics() {
    describe_counter!(
        REFRESHES,
        "Refreshes of all subscriptions, by how they went; a failed one is tried again"
    );
    describe_gauge!(LAST, Unit::Seconds, "When every subscription was last refreshed");
    describe_counter!(
        STRIPE_FAILURES,
        "Requests to Stripe that failed, by why; some are tried again at once"
    );
    describe_gauge!(SUBSCRIPTIONS, "Subscriptions at the last refresh, by their status");
    describe_gauge!(UNNAMED, "Subscriptions at the last refresh whose customer names no account");
    describe_gauge!(UNKNOWN_PRICES, "Prices at the last refresh that are paid for and in no tier");
    describe_counter!(UPDATES, "What holds were told of users' tiers, by what came of it");
    describe_gauge!(AWAY, "Managed holds whose last answer was none");
}

pub(super) fn refreshed(is_done: bool) {
    counter!(REFRESHES, "outcome" => if is_done { "done" } else { "failed" }).increment(1);
    if is_done {
        gauge!(LAST).set(Micros::now().0 as f64 / 1e6);
    }
}

pub(super) fn stripe_failed(error: &StripeError) {
    counter!(STRIPE_FAILURES, "reason" => error.word()).increment(1);
}

pub(super) fn subscriptions(found: &[Subscription], desired: &Desired) {
    for status in Status::ALL {
        let count = found.iter().filter(|subscription| subscription.status == status).count();
        gauge!(SUBSCRIPTIONS, "status" => status.word()).set(count as f64);
    }
    gauge!(UNNAMED).set(desired.unnamed as f64);
    gauge!(UNKNOWN_PRICES).set(desired.unknown_prices.len() as f64);
}

pub(super) fn told(outcome: &'static str) {
    counter!(UPDATES, "outcome" => outcome).increment(1);
}

pub(super) fn holds_away(count: usize) {
    gauge!(AWAY).set(count as f64);
}

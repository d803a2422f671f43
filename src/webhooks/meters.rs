//! Every metric of the attempts. Labels are fixed words, so their number is bounded: no user, no address. What waits and
//! what is withheld is the outbox's to count.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::format::Format;
use crate::outbox::Attempted;
use crate::store::tx::Outcome as LedTo;

const ATTEMPTS: &str = "atcr_webhook_attempts_total";
const TOOK: &str = "atcr_webhook_attempt_seconds";
const UNDER_WAY: &str = "atcr_webhook_requests_under_way";
const GIVEN_UP: &str = "atcr_webhook_given_up_total";
const REFUSED: &str = "atcr_webhook_writes_refused_total";

/// Tells the recorder what each metric means. Once, at start.
pub fn describe_metrics() {
    describe_counter!(ATTEMPTS, "Attempts to deliver, by format and result");
    describe_histogram!(TOOK, Unit::Seconds, "From the beginning of an attempt to its answer, by format");
    describe_gauge!(UNDER_WAY, "Requests under way, one for each endpoint at most");
    describe_counter!(GIVEN_UP, "Deliveries that were tried for as long as they may be");
    describe_counter!(REFUSED, "Writes of results that the database refused; each is tried again");
}

/// What an alert is made of stands from the start.
pub(super) fn begun() {
    for format in [Format::Json, Format::Discord, Format::Slack] {
        for result in ["delivered", "retry", "failed"] {
            counter!(ATTEMPTS, "format" => format.as_str(), "result" => result).increment(0);
        }
    }
    gauge!(UNDER_WAY).set(0.0);
}

/// A request under way, until this is dropped.
pub(super) struct UnderWay;

pub(super) fn begin() -> UnderWay {
    gauge!(UNDER_WAY).increment(1.0);
    UnderWay
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        gauge!(UNDER_WAY).decrement(1.0);
    }
}

pub(super) fn attempted(format: Format, result: &Attempted, took: Duration) {
    let result = match result {
        Attempted::Delivered { .. } => "delivered",
        Attempted::Retry { .. } => "retry",
        Attempted::Failed { .. } => "failed",
    };
    counter!(ATTEMPTS, "format" => format.as_str(), "result" => result).increment(1);
    histogram!(TOOK, "format" => format.as_str()).record(took);
}

pub(super) fn written(led_to: &LedTo) {
    counter!(GIVEN_UP).increment(led_to.is_given_up.into());
}

pub(super) fn refused() {
    counter!(REFUSED).increment(1);
}

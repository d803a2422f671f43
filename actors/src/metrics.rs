//! Every metric of this crate. Names end in their unit or `_total`; labels are lease names, actor names (`supervisor`
//! or a lease name) and the fixed words below, so their number is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::lease::slot::Slot;
use crate::lease::{HandOver, LeaseName, News};

/// Registers the help texts with the installed recorder. Call once, after installing it.
pub fn describe() {
    describe_counter!("actor_messages_total", "Messages that an actor handled");
    describe_histogram!("actor_handler_seconds", Unit::Seconds, "Time an actor spent in one handler");
    describe_gauge!("actor_queue_length", "Messages sent to an actor and not handled yet");
    describe_counter!("actor_restarts_total", "Times a failed worker was started again under the same term");
    describe_counter!("actor_failures_total", "Times a worker ended though nobody had told it to");
    describe_gauge!("actor_last_failure_timestamp_seconds", Unit::Seconds, "When a worker last failed");
    describe_gauge!("lease_state", "1 for the state that the lease has in this instance, else 0");
    describe_gauge!("lease_epoch", "The epoch of the term that this instance has or last had");
    describe_counter!("lease_acquisitions_total", "Terms that this instance acquired and started");
    describe_counter!("lease_losses_total", "Terms that ended otherwise than by a release, by reason");
    describe_counter!("lease_renewals_total", "Renewals of this instance, by outcome");
    describe_histogram!("lease_renewal_seconds", Unit::Seconds, "From sending a renewal to its answer");
    describe_gauge!("lease_trust_remaining_seconds", Unit::Seconds, "Time to the trust deadline; 0 = passed");
    describe_histogram!(
        "lease_handover_seconds",
        Unit::Seconds,
        "From the release, or the dead holder's last renewal, to the start here, by reason"
    );
    describe_counter!("lease_news_total", "What the store told without being asked, by kind");
    describe_counter!("lease_deaths_declared_total", "Silent instances that this one declared dead");
}

pub(crate) fn state(slot: &Slot) {
    let name = slot.name.to_string();
    for state in Slot::STATES {
        let on = if slot.state() == state { 1.0 } else { 0.0 };
        gauge!("lease_state", "lease" => name.clone(), "state" => state).set(on);
    }
}

pub(crate) fn acquired(lease: &LeaseName, epoch: i64, after: HandOver, waited: Duration) {
    let name = lease.to_string();
    // Exact up to 2^53; epochs are milliseconds since 1970 and stay below it for ages.
    gauge!("lease_epoch", "lease" => name.clone()).set(epoch as f64);
    counter!("lease_acquisitions_total", "lease" => name.clone()).increment(1);
    histogram!("lease_handover_seconds", "lease" => name, "reason" => after.reason)
        .record(after.gap + waited);
}

pub(crate) fn lost(lease: &LeaseName, reason: &'static str) {
    counter!("lease_losses_total", "lease" => lease.to_string(), "reason" => reason).increment(1);
}

pub(crate) fn renewed(took: Duration, outcome: &'static str) {
    counter!("lease_renewals_total", "outcome" => outcome).increment(1);
    histogram!("lease_renewal_seconds").record(took);
}

pub(crate) fn news(news: &News) {
    let kind = match news {
        News::Freed(_) => "freed",
        News::Beaconless(_) => "beaconless",
        News::Look => "look",
    };
    counter!("lease_news_total", "kind" => kind).increment(1);
}

pub(crate) fn declared_dead() {
    counter!("lease_deaths_declared_total").increment(1);
}

pub(crate) fn failed(actor: &str) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    counter!("actor_failures_total", "actor" => actor.to_owned()).increment(1);
    gauge!("actor_last_failure_timestamp_seconds", "actor" => actor.to_owned()).set(now.as_secs_f64());
}

pub(crate) fn restarted(actor: &str) {
    counter!("actor_restarts_total", "actor" => actor.to_owned()).increment(1);
}

/// Sets the gauges that only mean something at the moment of a scrape.
pub(crate) fn trust_remaining(left: Duration) {
    gauge!("lease_trust_remaining_seconds").set(left.as_secs_f64());
}

/// Counts one actor's messages: ractor itself counts nothing.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    actor: Arc<str>,
    queued: Arc<AtomicI64>,
}

impl Meter {
    pub(crate) fn new(actor: &str) -> Self {
        Self { actor: actor.into(), queued: Arc::default() }
    }

    /// A message is about to be sent.
    pub(crate) fn sending(&self) {
        self.set_length(self.queued.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// A message is being handled, until the answer is dropped.
    pub(crate) fn handling(&self) -> Handling {
        self.set_length(self.queued.fetch_sub(1, Ordering::Relaxed) - 1);
        Handling { actor: self.actor.clone(), since: Instant::now() }
    }

    fn set_length(&self, length: i64) {
        gauge!("actor_queue_length", "actor" => self.actor.to_string()).set(length.max(0) as f64);
    }
}

/// Time spent in one handler.
pub(crate) struct Handling {
    actor: Arc<str>,
    since: Instant,
}

impl Drop for Handling {
    fn drop(&mut self) {
        counter!("actor_messages_total", "actor" => self.actor.to_string()).increment(1);
        histogram!("actor_handler_seconds", "actor" => self.actor.to_string()).record(self.since.elapsed());
    }
}

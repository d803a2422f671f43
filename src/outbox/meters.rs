//! Every metric of the outbox. Labels are triggers and fixed words, so their number is bounded. What endpoints answer is
//! counted by the sender.

use std::collections::BTreeMap;

use metrics::{counter, describe_counter, describe_gauge, gauge};

use super::{Trigger, Withheld};

const PUT: &str = "atcr_outbox_deliveries_put_total";
const DROPPED: &str = "atcr_outbox_deliveries_dropped_total";
const WITHHELD: &str = "atcr_outbox_deliveries_withheld_total";
const DISABLED: &str = "atcr_outbox_webhooks_disabled_total";
const WAITING: &str = "atcr_outbox_deliveries_waiting";
const LATE: &str = "atcr_outbox_oldest_due_seconds";
const WEBHOOKS: &str = "atcr_outbox_webhooks";

/// Tells the recorder what each metric means. Once, at start.
pub fn describe_metrics() {
    describe_counter!(PUT, "Deliveries that the stream put into the outbox, by trigger");
    describe_counter!(DROPPED, "Deliveries that were failed because too many of one webhook were waiting");
    describe_counter!(WITHHELD, "Deliveries that were due and do not go out, by reason");
    describe_counter!(DISABLED, "Webhooks that were disabled because they failed for days");
    describe_gauge!(WAITING, "Deliveries that wait for their first or next attempt");
    describe_gauge!(LATE, "For how long the delivery that is due the longest has been due");
    describe_gauge!(WEBHOOKS, "Webhooks, by state: enabled, disabled");
}

/// Deliveries were put in, and others dropped for them.
pub fn put(put: &BTreeMap<Trigger, usize>, dropped: usize) {
    for (trigger, count) in put {
        counter!(PUT, "trigger" => trigger.as_str()).increment(*count as u64);
    }
    counter!(DROPPED).increment(dropped as u64);
}

/// Deliveries were withheld.
pub fn withheld(withheld: &BTreeMap<Withheld, u32>) {
    for (reason, count) in withheld {
        counter!(WITHHELD, "reason" => reason.as_str()).increment((*count).into());
    }
}

/// A webhook was disabled.
pub fn disabled() {
    counter!(DISABLED).increment(1);
}

/// How much waits, how late it is, and how many webhooks there are.
pub fn standing(waiting: u64, oldest_due_seconds: f64, enabled: u64, disabled: u64) {
    gauge!(WAITING).set(waiting as f64);
    gauge!(LATE).set(oldest_due_seconds);
    gauge!(WEBHOOKS, "state" => "enabled").set(enabled as f64);
    gauge!(WEBHOOKS, "state" => "disabled").set(disabled as f64);
}

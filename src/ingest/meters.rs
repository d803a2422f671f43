//! Every metric of what the stream says and what is written of it. Labels are the registry's nine collections and
//! fixed words, so their number is bounded.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use super::project::{Projected, What};
use super::write::batch::Batch;
use crate::atproto::{Collection, Micros};
use crate::store::{Applied, HandleFound, IdentityFound, WriteError};

const EVENTS: &str = "atcr_stream_events_total";
const DROPPED: &str = "atcr_stream_dropped_total";
const UNREADABLE: &str = "atcr_stream_unreadable_total";
const CHANGED: &str = "atcr_index_records_changed_total";
const OVER_LIMIT: &str = "atcr_index_records_over_limit_total";
const REFUSED: &str = "atcr_index_writes_refused_total";
const LAG: &str = "atcr_stream_lag_seconds";
const FRESH: &str = "atcr_stream_last_event_timestamp_seconds";
const REQUESTS: &str = "atcr_backfill_requests_total";
const LOOK_UPS: &str = "atcr_identity_lookups_total";

/// Tells the recorder what each metric means. Once, at start.
pub fn describe_metrics() {
    super::connect::describe_metrics();
    describe_counter!(EVENTS, "Events that were acted on, by kind");
    describe_counter!(DROPPED, "Events that were dropped, by reason");
    describe_counter!(UNREADABLE, "Records that break their lexicon, by collection and fault");
    describe_counter!(CHANGED, "Records that changed in the index, by collection");
    describe_counter!(OVER_LIMIT, "Records that were dropped because their author has too many");
    describe_counter!(REFUSED, "Batches that were not written, by reason; each is tried again");
    describe_gauge!(LAG, Unit::Seconds, "Age of the newest event at the time its batch was written");
    describe_gauge!(
        FRESH,
        Unit::Seconds,
        "Time of the newest event, by collection; at first that of the worker's start"
    );
    describe_counter!(REQUESTS, "Wishes to read repositories again that the stream gave rise to, by reason");
    describe_counter!(LOOK_UPS, "Identities looked up, by outcome");
}

/// Gives every collection a time to be measured from: without one, an alert on its age could not fire after a take-over
/// onto a host that withholds our records.
pub(super) fn begun() {
    for collection in Collection::ALL {
        gauge!(FRESH, "collection" => collection.nsid()).set(seconds(Micros::now().0));
    }
}

pub(super) fn projected(event: &Projected) {
    match &event.what {
        What::Change(change, wrong) => {
            let nsid = change.collection.nsid();
            counter!(EVENTS, "kind" => "commit").increment(1);
            if let Some(at) = event.time_us {
                gauge!(FRESH, "collection" => nsid).set(seconds(at));
            }
            if let Some(fault) = wrong {
                counter!(UNREADABLE, "collection" => nsid, "fault" => *fault).increment(1);
                once(fault, || {
                    tracing::warn!(collection = nsid, fault, author = %change.did, rkey = %change.rkey,
                    "a record breaks its lexicon; it is counted and not shown (said once per fault)")
                });
            }
        }
        What::Account { .. } => counter!(EVENTS, "kind" => "account").increment(1),
        What::Identity(_) => counter!(EVENTS, "kind" => "identity").increment(1),
        What::Sync(_) => counter!(EVENTS, "kind" => "sync").increment(1),
        What::Dropped(reason) => {
            counter!(DROPPED, "reason" => *reason).increment(1);
            if !EXPECTED.contains(reason) {
                once(reason, || {
                    tracing::warn!(reason, "an event was dropped and counted (said once per reason)")
                });
            }
        }
    }
}

/// Reasons that are no fault of anybody.
const EXPECTED: [&str; 3] = ["unknown_account", "foreign_collection", "info"];

/// Says something once per word for the life of the process: a stranger must not be able to fill the log.
fn once(word: &'static str, say: impl FnOnce()) {
    static SAID: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let first = SAID.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(word);
    if first {
        say();
    }
}

pub(super) fn written(applied: &Applied, batch: &Batch) {
    for (collection, count) in &applied.changed {
        counter!(CHANGED, "collection" => collection.nsid()).increment(*count as u64);
    }
    for reason in batch.requests() {
        counter!(REQUESTS, "reason" => reason).increment(1);
    }
    counter!(OVER_LIMIT).increment(applied.over_limit as u64);
    crate::outbox::meters::put(&applied.put, applied.dropped);
    if let Some(newest) = batch.newest_us() {
        gauge!(LAG).set(seconds(Micros::now().0 - newest).max(0.0));
    }
}

pub(super) fn refused(error: &WriteError) {
    let reason = match error {
        WriteError::Untrusted(_) => "untrusted",
        WriteError::Stale(_) => "stale",
        WriteError::Database(_) => "database",
    };
    counter!(REFUSED, "reason" => reason).increment(1);
}

pub(super) fn looked_up(found: Option<&IdentityFound>) {
    let outcome = match found.map(|found| &found.handle) {
        None => "failed",
        Some(HandleFound::Valid(_)) => "valid",
        Some(HandleFound::Invalid) => "invalid",
        Some(HandleFound::Unknown) => "handle_unknown",
    };
    counter!(LOOK_UPS, "outcome" => outcome).increment(1);
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

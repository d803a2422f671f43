//! Every metric of the labels. Labels of metrics are fixed words, so their number is bounded.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use super::decode::{Fault, Label};
use super::heard::{Heard, note};
use super::verify::Verdict;
use crate::atproto::identity::{IdentityError, Labeler};
use crate::atproto::{Did, Micros};
use crate::store::WriteError;

const LABELS: &str = "atcr_labeler_labels_total";
const MALFORMED: &str = "atcr_labeler_malformed_total";
const CHANGED: &str = "atcr_labeler_labels_changed_total";
const REFUSED: &str = "atcr_labeler_writes_refused_total";
const SKIPPED: &str = "atcr_labeler_skipped_total";
const CONNECTS: &str = "atcr_labeler_connects_total";
const DISCONNECTS: &str = "atcr_labeler_disconnects_total";
const CONNECTED: &str = "atcr_labeler_connected";
const FRESH: &str = "atcr_labeler_last_label_timestamp_seconds";
const CHECKED: &str = "atcr_labeler_last_check_timestamp_seconds";
const CHECKS: &str = "atcr_labeler_checks_total";
const MISSED: &str = "atcr_labeler_missed_total";
const ALARM: &str = "atcr_labeler_cursor_refused";
const RESTARTS: &str = "atcr_labeler_restarts_total";
const LOOK_UPS: &str = "atcr_labeler_identity_lookups_total";
const TAKEN_DOWN: &str = "atcr_labeler_taken_down";

/// Tells the recorder what each metric means. Once, at start.
pub fn describe_metrics() {
    describe_counter!(LABELS, "Labels that came, by result; those that are not good have no effect");
    describe_counter!(MALFORMED, "Labels that break their shape and were skipped, by fault");
    describe_counter!(CHANGED, "Labels that were news");
    describe_counter!(REFUSED, "Batches of labels that were not written, by reason; each is tried again");
    describe_counter!(
        SKIPPED,
        "Messages that were skipped, by reason; what was in them is asked for by a query"
    );
    describe_counter!(CONNECTS, "Attempts to connect to the labeler, by outcome");
    describe_counter!(DISCONNECTS, "Connections to the labeler that ended, by reason");
    describe_gauge!(CONNECTED, "1 while connected to the labeler");
    describe_gauge!(
        FRESH,
        Unit::Seconds,
        "When the stream last brought a label; at first the worker's start"
    );
    describe_gauge!(
        CHECKED,
        Unit::Seconds,
        "When the labeler's list was last read; at first the worker's start"
    );
    describe_counter!(CHECKS, "Readings of the labeler's list, by outcome");
    describe_counter!(MISSED, "Labels that only the labeler's list had: its stream left them out");
    describe_gauge!(ALARM, "1 while the labeler refuses our position as one that it has not come to");
    describe_counter!(RESTARTS, "How often the labeler was heard from its beginning because it counts anew");
    describe_counter!(LOOK_UPS, "How often the labeler's document was asked for again, by outcome");
    describe_gauge!(TAKEN_DOWN, "Subjects that are taken down");
}

/// Gives everything a time to be measured from.
pub(super) fn begun() {
    let now = seconds(Micros::now().0);
    gauge!(FRESH).set(now);
    gauge!(CHECKED).set(now);
    gauge!(CONNECTED).set(0.0);
    gauge!(ALARM).set(0.0);
    note(|heard| *heard = Heard::default());
}

pub(super) fn judged(did: &Did, verdict: Verdict, label: &Label) {
    let result = match verdict {
        Verdict::Good => "good",
        Verdict::Unasked => "not_verified",
        Verdict::Unsigned => "unsigned",
        Verdict::Bad => "bad_signature",
        Verdict::Foreign => "foreign",
    };
    counter!(LABELS, "result" => result).increment(1);
    if matches!(verdict, Verdict::Unsigned | Verdict::Bad | Verdict::Foreign) {
        once(did, result, || {
            tracing::warn!(labeler = %did, result, subject = %label.uri,
                "a label does not count (said once per result)");
        });
    }
}

pub(super) fn malformed(did: &Did, fault: Fault) {
    counter!(MALFORMED, "fault" => fault).increment(1);
    once(did, fault, || {
        tracing::warn!(labeler = %did, fault, "a label breaks its shape; it is skipped (said once per fault)");
    });
}

pub(super) fn came() {
    let now = Micros::now();
    gauge!(FRESH).set(seconds(now.0));
    note(|heard| heard.label_at = Some(now));
}

pub(super) fn changed(count: usize) {
    counter!(CHANGED).increment(count as u64);
}

pub(super) fn skipped(reason: &'static str) {
    counter!(SKIPPED, "reason" => reason).increment(1);
}

pub(super) fn refused(error: &WriteError) {
    let reason = match error {
        WriteError::Untrusted(_) => "untrusted",
        WriteError::Stale(_) => "stale",
        WriteError::Database(_) => "database",
    };
    counter!(REFUSED, "reason" => reason).increment(1);
}

pub(super) fn dialled(outcome: &'static str) {
    counter!(CONNECTS, "outcome" => outcome).increment(1);
    gauge!(CONNECTED).set(f64::from(u8::from(outcome == "connected")));
    note(|heard| heard.is_connected = outcome == "connected");
}

pub(super) fn ended(reason: &'static str) {
    counter!(DISCONNECTS, "reason" => reason).increment(1);
    gauge!(CONNECTED).set(0.0);
    note(|heard| heard.is_connected = false);
}

pub(super) fn position_refused(is_refused: bool) {
    gauge!(ALARM).set(f64::from(u8::from(is_refused)));
    note(|heard| heard.position_refused = is_refused);
}

pub(super) fn restarted() {
    counter!(RESTARTS).increment(1);
}

pub(super) fn checked(outcome: &'static str, missed: usize) {
    counter!(CHECKS, "outcome" => outcome).increment(1);
    counter!(MISSED).increment(missed as u64);
    if outcome == "read" {
        let now = Micros::now();
        gauge!(CHECKED).set(seconds(now.0));
        note(|heard| heard.checked_at = Some(now));
    }
}

pub(super) fn looked_up(found: &Result<Labeler, IdentityError>) {
    let outcome = if found.is_ok() { "found" } else { "failed" };
    counter!(LOOK_UPS, "outcome" => outcome).increment(1);
}

pub(super) fn taken_down(subjects: u64) {
    gauge!(TAKEN_DOWN).set(subjects as f64);
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// Says something once per labeler and word in the life of the process: what a labeler does a thousand times is one line.
fn once(did: &Did, word: &'static str, say: impl FnOnce()) {
    static SAID: Mutex<Option<(Did, HashSet<&'static str>)>> = Mutex::new(None);
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.as_ref().is_none_or(|(of, _)| of != did) {
        *said = Some((did.clone(), HashSet::new()));
    }
    if said.as_mut().is_some_and(|(_, words)| words.insert(word)) {
        say();
    }
}

//! Every metric of the backfill. Labels are the registry's nine collections and fixed words, so their number is bounded.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::atproto::{Collection, Micros};
use crate::store::backfill::RunReport;

const RUNNING: &str = "atcr_backfill_running";
const FOUND: &str = "atcr_backfill_repositories_known";
const DONE: &str = "atcr_backfill_repositories_done";
const FAILED: &str = "atcr_backfill_repositories_failed";
const LAST_END: &str = "atcr_backfill_last_run_end_timestamp_seconds";
const CHANGED: &str = "atcr_backfill_records_changed_total";
const MISSED: &str = "atcr_backfill_records_missed_by_stream_total";
const OVER_LIMIT: &str = "atcr_backfill_records_over_limit_total";
const REQUESTS: &str = "atcr_backfill_pds_requests_total";
const FAILURES: &str = "atcr_backfill_failures_total";
const TRANSACTIONS: &str = "atcr_backfill_transactions_total";
const DELETED: &str = "atcr_backfill_accounts_deleted_total";

/// Tells the recorder what each metric means. Once, at start.
pub fn describe_metrics() {
    describe_gauge!(RUNNING, "1 while a run goes on on this instance, else 0");
    describe_gauge!(FOUND, "Repositories that the latest run has found so far");
    describe_gauge!(DONE, "Of those, the ones that were tried");
    describe_gauge!(FAILED, "Of those, the ones that could not be read; each is tried again");
    describe_gauge!(LAST_END, Unit::Seconds, "When a run last ended on this instance");
    describe_counter!(CHANGED, "Records that were not what the index knew, by collection");
    describe_counter!(MISSED, "Of those, the ones that the stream should have brought, by collection");
    describe_counter!(OVER_LIMIT, "Records that were dropped because their author has too many");
    describe_counter!(REQUESTS, "Requests to PDSes");
    describe_counter!(FAILURES, "Repositories and lists that could not be read or written, by kind");
    describe_counter!(TRANSACTIONS, "Transactions that wrote what repositories say; several share one");
    describe_counter!(DELETED, "Accounts that were deleted because their PDS said so twice");
}

/// Counters that an alert is made of stand from the start.
pub(super) fn begun() {
    gauge!(RUNNING).set(0.0);
    for collection in Collection::ALL {
        counter!(MISSED, "collection" => collection.nsid()).increment(0);
    }
}

pub(super) fn stopped() {
    gauge!(RUNNING).set(0.0);
}

pub(super) fn progress(report: &RunReport, is_end: bool) {
    gauge!(RUNNING).set(if is_end { 0.0 } else { 1.0 });
    gauge!(FOUND).set(report.found as f64);
    gauge!(DONE).set((report.found - report.waiting) as f64);
    gauge!(FAILED).set(report.failed as f64);
    if is_end {
        gauge!(LAST_END).set(Micros::now().0 as f64 / 1e6);
    }
}

pub(super) fn changed(collection: Collection, count: usize) {
    counter!(CHANGED, "collection" => collection.nsid()).increment(count as u64);
}

pub(super) fn missed(collection: Collection, count: usize) {
    counter!(MISSED, "collection" => collection.nsid()).increment(count as u64);
}

pub(super) fn over_limit(count: usize) {
    counter!(OVER_LIMIT).increment(count as u64);
}

pub(super) fn asked(requests: u64) {
    counter!(REQUESTS).increment(requests);
}

pub(super) fn failed(kind: &'static str) {
    counter!(FAILURES, "kind" => kind).increment(1);
}

pub(super) fn transaction() {
    counter!(TRANSACTIONS).increment(1);
}

pub(super) fn account_deleted() {
    counter!(DELETED).increment(1);
}

//! Every metric of the sweeps. Labels are the tables of the list, so their number is bounded.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::atproto::Micros;
use crate::store::Sweep;

const ROWS: &str = "atcr_cleanup_rows_deleted_total";
const FAILURES: &str = "atcr_cleanup_failures_total";
const LAST: &str = "atcr_cleanup_last_sweep_timestamp_seconds";

/// Tells the recorder what each metric means. Once, at start.
pub fn describe_metrics() {
    describe_counter!(ROWS, "Expired rows that were deleted, by table");
    describe_counter!(FAILURES, "Sweeps of a table that failed, by table; the next sweep tries again");
    describe_gauge!(LAST, Unit::Seconds, "When every table was last swept, with or without failures");
}

pub(super) fn swept(sweep: &Sweep, rows: u32) {
    counter!(ROWS, "table" => sweep.table).increment(rows.into());
}

pub(super) fn failed(sweep: &Sweep) {
    counter!(FAILURES, "table" => sweep.table).increment(1);
}

pub(super) fn swept_all() {
    gauge!(LAST).set(Micros::now().0 as f64 / 1e6);
}

//! Every metric of the holds' health. Labels are fixed words, never a hold: anybody can name holds.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use super::answers::{HoldList, State};
use super::ask::Outcome;
use crate::atproto::Micros;

const HOLDS: &str = "atcr_hold_health_holds";
const LEFT_OUT: &str = "atcr_hold_health_left_out";
const CHECKS: &str = "atcr_hold_health_checks_total";
const SPARED: &str = "atcr_hold_health_wishes_refused_total";
const ROUND: &str = "atcr_hold_health_round_duration_seconds";
const LAST: &str = "atcr_hold_health_last_round_timestamp_seconds";
const READ_FAILURES: &str = "atcr_hold_health_read_failures_total";
const RESTARTS: &str = "atcr_hold_health_restarts_total";

/// Tells the recorder what each metric means. Once, at start.
pub fn describe_metrics() {
    describe_gauge!(HOLDS, "Holds that are looked after, by state");
    describe_gauge!(
        LEFT_OUT,
        "Holds that the index names and that are not looked after, as there are too many"
    );
    describe_counter!(CHECKS, "Holds asked, by outcome");
    describe_counter!(SPARED, "Wishes to have a hold asked that were not fulfilled, by reason");
    describe_gauge!(ROUND, Unit::Seconds, "How long the last round over all holds took");
    describe_gauge!(LAST, Unit::Seconds, "When the last round ended");
    describe_counter!(
        READ_FAILURES,
        "Rounds that went over the holds of an earlier one, as the database was away"
    );
    describe_counter!(RESTARTS, "Failures of the worker; it is started again");
}

/// Why nobody was asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spared {
    /// Too many in this second.
    Limit,
    /// It took too long.
    Slow,
}

pub(super) fn holds(list: &HoldList) {
    for state in [State::Reachable, State::Unreachable, State::Unknown] {
        let count = list.holds.iter().filter(|hold| hold.state == state).count();
        gauge!(HOLDS, "state" => state.as_str()).set(count as f64);
    }
    gauge!(LEFT_OUT).set(list.left_out as f64);
}

pub(super) fn asked(outcome: &Outcome) {
    let word = match outcome {
        Outcome::Reachable => "reachable",
        Outcome::Unreachable { kind, .. } => kind,
        Outcome::Unknown { .. } => "unknown",
    };
    counter!(CHECKS, "outcome" => word).increment(1);
}

pub(super) fn spared(why: Spared) {
    let word = match why {
        Spared::Limit => "limit",
        Spared::Slow => "slow",
    };
    counter!(SPARED, "reason" => word).increment(1);
}

pub(super) fn round_ended(took: Duration) {
    gauge!(ROUND).set(took.as_secs_f64());
    gauge!(LAST).set(Micros::now().0 as f64 / 1e6);
}

pub(super) fn not_read() {
    counter!(READ_FAILURES).increment(1);
}

pub(super) fn restarted() {
    counter!(RESTARTS).increment(1);
}

//! The invariants I1 to I16 of the leases, held against a history. Pure: a history in, violations out.
//!
//! What a history cannot show is shown elsewhere: I15 in full (statements, not calls) by the integration test
//! `an_idle_instance_makes_at_most_four_lease_statements_a_second`; I16 (`is_trusted` does no I/O) by the code, an atomic
//! load and a vDSO call, and by `actors/tests`. I12's cool-downs and I13's balance after each change of membership are
//! also explored by `actors/tests/model` and `simulation`, where time costs nothing.

mod balance;
mod commits;
mod ends;
mod overlap;
mod past;
mod running;
mod starts;
mod terms;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::history::Event;
use past::Past;

pub use running::{Row, rows};

/// Allowed for what a loaded machine delays between an event and its line. At half, a busy machine of two cores makes
/// false alarms; at double, a worker that acts a quarter of a second too long passes.
pub const LATE: u64 = 250_000_000;

/// An invariant that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which: 1 for I1.
    pub invariant: u8,
    /// What was seen.
    pub what: String,
    /// The lines of the history that show it, counted from 1.
    pub lines: Vec<usize>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I{}: {} (lines {:?})", self.invariant, self.what, self.lines)
    }
}

/// Every violation that the history shows, in the order of the invariants.
pub fn check(history: &[Event]) -> Vec<Violation> {
    let past = Past::of(history);
    let mut found = Vec::new();
    for invariant in [
        terms::epochs_rise,
        overlap::external_workers_never_overlap,
        commits::commits_are_in_the_order_of_epochs,
        terms::an_operation_changes_no_other_epoch,
        terms::the_dead_do_nothing,
        ends::a_release_comes_after_the_stop,
        ends::a_clean_exit_leaves_nothing,
        overlap::external_workers_stop_in_time,
        running::every_lease_runs_in_time,
        starts::a_start_has_a_claim_trust_and_no_wait,
        ends::who_is_closing_takes_and_starts_nothing,
        starts::restarts_are_bounded,
        balance::leases_are_spread,
        ends::who_lost_everything_comes_back,
        balance::calls_do_not_grow,
    ] {
        found.extend(invariant(&past));
    }
    found.sort_by_key(|violation| violation.invariant);
    found
}

//! I10 and I12: what a start needs, and how often there may be one.

use super::past::{ClaimLine, Past, Run, broken, ms};
use super::{LATE, Violation};
use crate::history::What;

/// Restarts in [`WINDOW`] that the product's intensity allows, and the first start.
const STARTS_MAX: usize = 4;
const WINDOW: u64 = 60_000_000_000;

/// Between the rates of two clocks, for waits that one says and the other measures.
const ROUNDING: u64 = 20_000_000;

/// I10: the claim was acknowledged to this process, its trust lies ahead, and every wait has passed.
pub(super) fn a_start_has_a_claim_trust_and_no_wait(past: &Past<'_>) -> Vec<Violation> {
    let (claims, steps) = (past.claims(), past.moments(&What::Stepped));
    past.runs.iter().filter_map(|run| start(past, run, &claims, &steps)).collect()
}

fn start(past: &Past<'_>, run: &Run<'_>, claims: &[ClaimLine<'_>], steps: &[u64]) -> Option<Violation> {
    let process = &past.processes[run.process];
    let own = |claim: &&ClaimLine<'_>| {
        claim.event.process == run.process && claim.name == run.name && claim.epoch == run.epoch
    };
    let Some(claim) = claims.iter().filter(own).find(|claim| claim.event.at <= run.from) else {
        return Some(broken(
            10,
            format!("{} started at epoch {} without a claim", run.name, run.epoch),
            run.lines.clone(),
        ));
    };
    if run.from > process.trusted_until(run.from) + LATE {
        return Some(broken(10, format!("{} started without trust", run.name), run.lines.clone()));
    }
    // Whoever owed a wait before: it outlives releases, further claims and further deaths. A step of the wall clock of
    // the database's server may cut it short, which is documented.
    let owed = claims.iter().filter(|earlier| earlier.name == run.name && earlier.event.at <= claim.event.at);
    let early = owed.into_iter().find(|earlier| {
        let stepped =
            steps.iter().any(|step| *step <= run.from && step + earlier.wait + WINDOW >= earlier.sent);
        let jumped = process.shifts.iter().any(|(at, _)| *at <= run.from && *at >= earlier.sent);
        run.from + ROUNDING < earlier.sent + earlier.wait && !stepped && !jumped
    })?;
    let what =
        format!("{} started {} before a wait had passed", run.name, ms(early.sent + early.wait - run.from));
    Some(broken(10, what, [vec![early.line], run.lines.clone()].concat()))
}

/// I12: no worker is started more often than its intensity allows, under one term.
pub(super) fn restarts_are_bounded(past: &Past<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for run in &past.runs {
        let same = |other: &&Run<'_>| {
            (other.process, other.name, other.epoch) == (run.process, run.name, run.epoch)
                && other.from >= run.from
                && other.from - run.from < WINDOW
        };
        let starts: Vec<_> = past.runs.iter().filter(same).collect();
        if starts.len() > STARTS_MAX {
            let lines: Vec<usize> = starts.iter().map(|run| run.lines[0]).collect();
            found.push(broken(
                12,
                format!("{} started {} times under one term", run.name, starts.len()),
                lines,
            ));
        }
    }
    found
}

//! What the runner says at the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use crate::check::{Violation, rows};
use crate::history::Event;

/// A row for each nemesis: how often, claims, the slowest hand-over and what it might have taken, violations.
pub(super) fn table(events: &[Event], found: &[Violation]) {
    let rows = rows(events);
    let mut table: BTreeMap<&str, (usize, usize, u64, u64, usize)> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let end = rows.get(at + 1).map_or(u64::MAX, |next| next.at);
        let mine = |v: &&Violation| {
            let shown = v.lines.iter().filter_map(|line| events.get(line - 1)).map(|event| event.at).max();
            shown.is_some_and(|at| at >= row.at && at < end)
        };
        let violations = found.iter().filter(mine).count();
        let sum = table.entry(&row.nemesis).or_default();
        *sum = (
            sum.0 + 1,
            sum.1 + row.claims,
            sum.2.max(row.slowest),
            sum.3.max(row.within),
            sum.4 + violations,
        );
    }
    println!(
        "\n{:<18} {:>5} {:>10} {:>14} {:>12} {:>11}",
        "nemesis", "times", "hand-overs", "slowest (ms)", "bound (ms)", "violations"
    );
    for (nemesis, (times, claims, slowest, within, violations)) in table {
        let (slowest, within) = (slowest / 1_000_000, within / 1_000_000);
        println!("{nemesis:<18} {times:>5} {claims:>10} {slowest:>14} {within:>12} {violations:>11}");
    }
}

/// The last words, and the exit code.
pub(super) fn conclude(found: &[Violation], failures: &[String], history: &Path) -> ExitCode {
    for violation in found {
        println!("VIOLATION {violation}");
    }
    for failure in failures {
        println!("FAILED {failure}");
    }
    if found.is_empty() && failures.is_empty() {
        println!("no violation");
        return ExitCode::SUCCESS;
    }
    println!("{} violations; the history: {}", found.len(), history.display());
    ExitCode::FAILURE
}

/// It could not begin.
#[allow(clippy::print_stderr, reason = "a program's last word")]
pub(super) fn refuse(reason: &str) -> ExitCode {
    eprintln!("faults: {reason}");
    ExitCode::from(2)
}

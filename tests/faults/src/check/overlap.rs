//! I2 and I8: workers that act outside the database never overlap, and stop in time when their term is over.

use std::collections::BTreeMap;

use super::past::{Past, Process, Run, broken, ms};
use super::{LATE, Violation};
use crate::history::What;

/// I2: runs of different processes do not overlap, and acts come in the order of epochs, unless one of the two was
/// paused for longer than F.
pub(super) fn external_workers_never_overlap(past: &Past<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut runs: Vec<&Run<'_>> = past.runs.iter().filter(|run| run.external).collect();
    runs.sort_by_key(|run| (run.name, run.from));
    for (at, first) in runs.iter().enumerate() {
        let later = runs[at + 1..].iter().take_while(|run| run.name == first.name);
        for second in later.filter(|run| run.process != first.process && run.from < first.to) {
            let (from, to) = (second.from, first.to.min(second.to));
            let excused = [first, second].iter().any(|run| past.processes[run.process].was_paused(from, to));
            if !excused {
                let what = format!("{}: two processes ran it for {}", first.name, ms(first.to - second.from));
                found.push(broken(2, what, [first.lines.clone(), second.lines.clone()].concat()));
            }
        }
    }
    found.extend(acts_in_the_order_of_epochs(past));
    found
}

fn acts_in_the_order_of_epochs(past: &Past<'_>) -> Vec<Violation> {
    let mut acts: Vec<_> = past.lines().filter(|(_, event)| event.what == What::Acted).collect();
    acts.sort_by_key(|(_, event)| event.at);
    let mut highest: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    for (line, event) in acts {
        let (Some(name), Some(epoch)) = (event.name.as_deref(), event.epoch) else { continue };
        let (last, shown) = highest.entry(name).or_insert((epoch, line));
        if epoch >= *last {
            (*last, *shown) = (epoch, line);
        } else if !past.processes[event.process.as_str()].was_paused(event.at, event.at) {
            found.push(broken(2, format!("{name}: epoch {epoch} acted after {last} had"), [*shown, line]));
        }
    }
    found
}

/// I8: from the cause of a loss to the stop it takes F + S at most, and without trust nothing is done meanwhile.
pub(super) fn external_workers_stop_in_time(past: &Past<'_>) -> Vec<Violation> {
    let external = past.runs.iter().filter(|run| run.external);
    let late = external.filter_map(|run| {
        let process = &past.processes[run.process];
        let lapse = lapses(process).find(|lapse| run.from <= *lapse && run.to > *lapse)?;
        let waking =
            process.pauses.iter().filter(|(from, to)| *from < run.to && *to >= lapse && *to < u64::MAX);
        let waking = waking.map(|(_, to)| *to).max().unwrap_or_default();
        let by = lapse.max(waking) + process.stop_within;
        let what = || format!("{} ran on for {} after its trust had passed", run.name, ms(run.to - lapse));
        (run.to > by + LATE / 2).then(|| broken(8, what(), run.lines.clone()))
    });
    late.chain(untrusted_acts(past)).collect()
}

/// The moments at which trust ended before it was renewed, and those at which a suspend ended it.
fn lapses(process: &Process) -> impl Iterator<Item = u64> + '_ {
    let mut until = 0;
    let mut lapses = Vec::new();
    for &(sent, acknowledged) in process.renewals() {
        // Trust that comes back before the stop must be confirmed was never lost: nobody may have taken the term.
        if until > 0 && acknowledged > until + process.stop_within {
            lapses.push(until);
        }
        until = until.max(sent + process.trust_for);
    }
    lapses.push(until);
    // Its timers have not moved: it wakes by the next of them, and what a suspend is allowed is F + S.
    let bound = |at: u64| at + process.trust_for;
    let regained = |at: u64| process.sent_by(bound(at)).is_some_and(|sent| sent > at);
    let long = process.shifts.iter().filter(|(at, by)| *by > process.trust_for && !regained(*at));
    lapses.extend(long.map(|(at, _)| bound(*at)));
    lapses.into_iter()
}

fn untrusted_acts(past: &Past<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, event) in past.lines().filter(|(_, event)| event.what == What::Acted) {
        let process = &past.processes[event.process.as_str()];
        let renewed = |at: u64| process.sent_by(event.at).is_some_and(|sent| sent > at);
        let shift = process.shifts.iter().rev().find(|(at, by)| *at < event.at && *by > process.trust_for);
        let until = match shift {
            Some((at, _)) if !renewed(*at) => *at,
            _ => process.trusted_until(event.at),
        };
        let woke = process.pauses.iter().any(|(_, to)| *to <= event.at && event.at - *to < LATE);
        if event.at > until + LATE && !woke {
            let name = event.name.as_deref().unwrap_or_default();
            found.push(broken(
                8,
                format!("{name} acted {} after its trust had passed", ms(event.at - until)),
                [line],
            ));
        }
    }
    found
}

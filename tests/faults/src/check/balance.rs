//! I13 and I15: the spread of leases over instances, and the calls of the store, while the runner leaves all alone.

use std::collections::BTreeMap;

use super::Violation;
use super::past::{Past, broken};
use crate::history::{Event, What};

/// Renewals beside the regular ones that a lease which moves may cause in each instance, and those at a window's ends.
const LOOKS_PER_CLAIM: usize = 4;
const AT_THE_ENDS: usize = 4;

/// A time in which the runner did nothing, with the line of its end.
fn windows(past: &Past<'_>) -> Vec<(u64, u64, usize)> {
    let mut from = None;
    let mut windows = Vec::new();
    for (line, event) in past.lines() {
        match event.what {
            What::Quiet => from = Some(event.at),
            What::Settled => windows.extend(from.take().map(|from| (from, event.at, line))),
            _ => {}
        }
    }
    windows
}

fn within<'a>(past: &Past<'a>, from: u64, to: u64) -> impl Iterator<Item = (usize, &'a Event)> + use<'a> {
    past.lines().filter(move |(_, event)| event.at >= from && event.at < to)
}

/// I13: left alone for long enough, no instance has two leases more than another; and it took no more moves than there
/// are leases, for each change of membership.
pub(super) fn leases_are_spread(past: &Past<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (from, to, line) in windows(past) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, event) in within(past, from, to).filter(|(_, e)| matches!(e.what, What::Renewed { .. })) {
            counts.entry(&event.process).or_default();
        }
        for run in past.runs.iter().filter(|run| run.from < to && (!run.stopped || run.to > to)) {
            counts.entry(run.process).and_modify(|count| *count += 1);
        }
        let (least, most) = (counts.values().min(), counts.values().max());
        if let (Some(least), Some(most)) = (least, most)
            && most - least > 1
        {
            found.push(broken(13, format!("one instance has {least} leases, another {most}"), [line]));
        }
        let changes =
            within(past, from, to).filter(|(_, e)| matches!(e.what, What::Registered | What::Dead)).count();
        let claims: Vec<_> =
            past.claims().into_iter().filter(|c| c.event.at >= from && c.event.at < to).collect();
        if claims.len() > past.names().len() * (1 + changes) {
            let what = format!("{} claims, with {} changes of membership", claims.len(), changes);
            found.push(broken(13, what, claims.iter().map(|claim| claim.line).collect::<Vec<_>>()));
        }
    }
    found
}

/// I15, as far as calls show statements: renewals and looks keep to their periods, whatever the number of leases.
pub(super) fn calls_do_not_grow(past: &Past<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (from, to, line) in windows(past) {
        let claims = past.claims().iter().filter(|c| c.event.at >= from && c.event.at < to).count();
        let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, event) in within(past, from, to) {
            if matches!(event.what, What::Renewed { .. } | What::Looked) {
                *calls.entry(&event.process).or_default() += 1;
            }
        }
        for (process, made) in calls {
            let times = &past.processes[process];
            let regular = (to - from) / times.renew_every.max(1) + (to - from) / times.poll_every.max(1);
            let most =
                usize::try_from(regular).unwrap_or(usize::MAX) + claims * LOOKS_PER_CLAIM + AT_THE_ENDS;
            if made > most {
                found.push(broken(
                    15,
                    format!("{process} made {made} calls where {most} are regular"),
                    [line],
                ));
            }
        }
    }
    found
}

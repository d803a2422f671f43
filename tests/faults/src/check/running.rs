//! I9: every lease is at work again in time after each fault; and the table of how long it took.

use std::collections::BTreeMap;

use super::past::{Past, broken, ms};
use super::{LATE, Violation};
use crate::history::{Event, What};

/// Without any fault, the longest time between two effects of a lease: a slow disk, a graceful move.
const UNDISTURBED: u64 = 1_000_000_000;

/// One fault of a history, and what followed until the next one.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which.
    pub nemesis: String,
    /// When it began and, if it heals, when it was over: the moment from which hand-overs count.
    pub at: u64,
    /// See [`Row::at`].
    pub clear: Option<u64>,
    /// What it may take.
    pub within: u64,
    /// Acknowledged claims.
    pub claims: usize,
    /// The longest time without an effect of a lease, from the fault's end.
    pub slowest: u64,
}

/// The time between two effects of a lease.
struct Gap<'a> {
    name: &'a str,
    from: u64,
    to: u64,
    lines: Vec<usize>,
}

/// I9: for each lease, from one effect to the next, at most what the faults meanwhile allow.
pub(super) fn every_lease_runs_in_time(past: &Past<'_>) -> Vec<Violation> {
    let faults = rows(past.events);
    let mut found = Vec::new();
    for gap in gaps(past) {
        let allowed = |row: &Row| row.clear.map_or(u64::MAX, |clear| clear.saturating_add(row.within));
        let disturbed = faults.iter().filter(|row| row.at <= gap.to).map(allowed);
        let by = disturbed.max().unwrap_or_default().max(gap.from + UNDISTURBED);
        if gap.to > by.saturating_add(LATE) {
            let what = format!(
                "{} did nothing for {}, {} too long",
                gap.name,
                ms(gap.to - gap.from),
                ms(gap.to - by)
            );
            found.push(broken(9, what, gap.lines));
        }
    }
    found
}

/// Every fault of a history.
pub fn rows(history: &[Event]) -> Vec<Row> {
    let past = Past::of(history);
    let mut rows: Vec<Row> = Vec::new();
    for event in history {
        match &event.what {
            What::Fault { nemesis, within, heals } => rows.push(Row {
                nemesis: nemesis.clone(),
                at: event.at,
                clear: (!heals).then_some(event.at),
                within: *within,
                claims: 0,
                slowest: 0,
            }),
            What::Healed => rows.iter_mut().for_each(|row| row.clear = row.clear.or(Some(event.at))),
            _ => {}
        }
    }
    let mut ends: Vec<u64> = rows.iter().skip(1).map(|row| row.at).collect();
    ends.push(u64::MAX);
    let (claims, gaps) = (past.claims(), gaps(&past));
    for (row, end) in rows.iter_mut().zip(ends) {
        row.claims = claims.iter().filter(|claim| claim.event.at >= row.at && claim.event.at < end).count();
        let mine = gaps.iter().filter(|gap| gap.to >= row.at && gap.to < end);
        row.slowest = mine
            .map(|gap| gap.to.saturating_sub(gap.from.max(row.clear.unwrap_or(row.at))))
            .max()
            .unwrap_or(0);
    }
    rows
}

/// From each effect of a lease to the next; the last ends with the last [`What::Settled`].
fn gaps<'a>(past: &Past<'a>) -> Vec<Gap<'a>> {
    let mut effects: BTreeMap<&str, Vec<(u64, usize)>> = BTreeMap::new();
    for (line, event) in past.lines() {
        if let (What::Acted | What::Committed { .. }, Some(name)) = (&event.what, event.name.as_deref()) {
            effects.entry(name).or_default().push((event.at, line));
        }
    }
    let end = past.lines().filter(|(_, event)| event.what == What::Settled).last();
    let mut gaps = Vec::new();
    for (name, mut effects) in effects {
        effects.sort_unstable();
        effects.extend(end.map(|(line, event)| (event.at, line)));
        for pair in effects.windows(2).filter(|pair| pair[0].0 <= pair[1].0) {
            gaps.push(Gap { name, from: pair[0].0, to: pair[1].0, lines: vec![pair[0].1, pair[1].1] });
        }
    }
    gaps
}

//! I1, I4, I5: epochs rise, operations keep to their own, and the dead do nothing.

use std::collections::BTreeMap;

use super::Violation;
use super::past::{Past, broken};
use crate::history::What;

/// I1: a claim that was sent after another was acknowledged has a higher epoch; one incarnation per (name, epoch).
pub(super) fn epochs_rise(past: &Past<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut owners: BTreeMap<(&str, i64), (&str, usize)> = BTreeMap::new();
    for (line, event) in past.lines() {
        let (Some(name), Some(epoch), Some(who)) = (&event.name, event.epoch, &event.incarnation) else {
            continue;
        };
        let (owner, first) = owners.entry((name, epoch)).or_insert((who, line));
        if *owner != who {
            found.push(broken(1, format!("{name} at epoch {epoch} has two incarnations"), [*first, line]));
        }
    }
    let claims = past.claims();
    for later in &claims {
        let before = claims.iter().filter(|c| c.name == later.name && c.event.at < later.sent);
        if let Some(highest) = before.max_by_key(|c| c.epoch).filter(|c| c.epoch >= later.epoch) {
            let what = format!("{}: epoch {} was claimed after {}", later.name, later.epoch, highest.epoch);
            found.push(broken(1, what, [highest.line, later.line]));
        }
    }
    found
}

/// I4: a release of an epoch is acknowledged once, and never after a later epoch was claimed.
pub(super) fn an_operation_changes_no_other_epoch(past: &Past<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut released: BTreeMap<(&str, i64), usize> = BTreeMap::new();
    let claims = past.claims();
    for (line, event) in past.lines() {
        let What::Released { sent, ours: true } = event.what else { continue };
        let (Some(name), Some(epoch)) = (event.name.as_deref(), event.epoch) else { continue };
        if let Some(first) = released.insert((name, epoch), line) {
            found.push(broken(4, format!("{name} at epoch {epoch} was released twice"), [first, line]));
        }
        let newer = claims.iter().find(|c| c.name == name && c.epoch > epoch && c.event.at < sent);
        if let Some(newer) = newer {
            let what = format!("{name}: a release of epoch {epoch} changed epoch {}", newer.epoch);
            found.push(broken(4, what, [newer.line, line]));
        }
    }
    found
}

/// I5: once an incarnation is known to be dead, no renewal and no claim that it sends succeeds.
pub(super) fn the_dead_do_nothing(past: &Past<'_>) -> Vec<Violation> {
    let mut dead: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (line, event) in past.lines() {
        let who = match &event.what {
            What::Declared { who, .. } => Some(who.as_str()),
            What::Dead => event.incarnation.as_deref(),
            _ => None,
        };
        if let Some(who) = who {
            let known = dead.entry(who).or_insert((event.at, line));
            *known = (*known).min((event.at, line));
        }
    }
    let late = |(line, event): (usize, &crate::history::Event)| {
        let (What::Renewed { sent } | What::Claimed { sent, .. }) = event.what else { return None };
        let who = event.incarnation.as_deref()?;
        let (since, death) = dead.get(who).filter(|(since, _)| *since < sent)?;
        let what = format!("{who} succeeded {} after its death", super::past::ms(sent - since));
        Some(broken(5, what, [*death, line]))
    };
    past.lines().filter_map(late).collect()
}

//! I3: fenced commits, in the order in which the database made them.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::past::{Past, broken};
use crate::history::What;

/// I3: epochs never go back in the order of commits; a refused transaction left no trace, an acknowledged one did.
pub(super) fn commits_are_in_the_order_of_epochs(past: &Past<'_>) -> Vec<Violation> {
    let mut ordered: BTreeMap<&str, Vec<(i64, i64, usize)>> = BTreeMap::new();
    let mut traces = BTreeSet::new();
    for (line, event) in past.lines() {
        let What::Ordered { place, n } = event.what else { continue };
        let (Some(name), Some(epoch)) = (event.name.as_deref(), event.epoch) else { continue };
        ordered.entry(name).or_default().push((place, epoch, line));
        traces.insert((name, epoch, n));
    }
    let mut found = Vec::new();
    for (name, commits) in &mut ordered {
        commits.sort_unstable();
        for pair in commits.windows(2).filter(|pair| pair[0].1 > pair[1].1) {
            let what = format!("{name}: epoch {} committed after {}", pair[1].1, pair[0].1);
            found.push(broken(3, what, [pair[0].2, pair[1].2]));
        }
    }
    for (line, event) in past.lines() {
        let (Some(name), Some(epoch)) = (event.name.as_deref(), event.epoch) else { continue };
        let what = match event.what {
            What::Refused { n } if traces.contains(&(name, epoch, n)) => "was refused and left a trace",
            What::Committed { n } if !traces.is_empty() && !traces.contains(&(name, epoch, n)) => {
                "was acknowledged and left no trace"
            }
            _ => continue,
        };
        found.push(broken(3, format!("{name} at epoch {epoch}: a transaction {what}"), [line]));
    }
    found
}

//! Every state within the bounds, breadth first: the first trace to a violation is a shortest one.

use std::collections::HashSet;

use crate::rules::Rules;
use crate::world::{Action, Violation, World};

/// One state of so many is healed and must recover: each costs some sixty turns.
const LIVENESS_SAMPLE: u64 = 256;

/// What a run saw.
pub struct Explored {
    pub states: usize,
    pub steps: usize,
    pub violation: Option<(Violation, Vec<Action>)>,
}

pub fn explore(rules: &Rules, holder: usize) -> Explored {
    let first = World::new(rules, holder);
    let end = first.now + rules.ticks_max;
    let mut seen = HashSet::from([first.fingerprint(rules)]);
    // (the step before, what happened then)
    let mut past: Vec<(usize, Action)> = Vec::new();
    let mut frontier = vec![(first, usize::MAX)];
    let mut depth = 0;
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (world, step) in frontier {
            for action in world.actions(rules) {
                let mut after = world.clone();
                let checked = after.act(action, rules).and_then(|()| after.go_on_alone(rules));
                let print = after.fingerprint(rules);
                let is_new = checked.is_ok() && after.now < end && seen.insert(print);
                let recovers = is_new && !rules.only_overlap && print.is_multiple_of(LIVENESS_SAMPLE);
                let checked =
                    checked.and_then(|()| if recovers { after.clone().recover(rules) } else { Ok(()) });
                if let Err(violation) = checked {
                    let mut trace = trace(&past, step);
                    trace.push(action);
                    return Explored {
                        states: seen.len(),
                        steps: depth,
                        violation: Some((violation, trace)),
                    };
                }
                if is_new {
                    past.push((step, action));
                    next.push((after, past.len() - 1));
                }
            }
        }
        frontier = next;
        depth += 1;
    }
    Explored { states: seen.len(), steps: depth, violation: None }
}

fn trace(past: &[(usize, Action)], last: usize) -> Vec<Action> {
    let steps = std::iter::successors(past.get(last), |(before, _)| past.get(*before));
    let mut trace: Vec<_> = steps.map(|(_, action)| *action).collect();
    trace.reverse();
    trace
}

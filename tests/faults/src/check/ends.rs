//! I6, I7, I11, I14: how terms and processes end, and how a process comes back.

use super::past::{Past, broken};
use super::{LATE, Violation};
use crate::history::{Event, What};

/// I6: a release is sent after the worker's confirmed stop.
pub(super) fn a_release_comes_after_the_stop(past: &Past<'_>) -> Vec<Violation> {
    let early = |(line, event): (usize, &Event)| {
        let What::Released { sent, .. } = event.what else { return None };
        let (name, epoch) = (event.name.as_deref()?, event.epoch?);
        let runs = past.runs.iter().filter(|run| run.name == name && run.epoch == epoch);
        let running = runs.into_iter().find(|run| run.from < sent && (!run.stopped || run.to > sent))?;
        let what = format!("{name} at epoch {epoch} was released before its worker had stopped");
        Some(broken(6, what, [running.lines.clone(), vec![line]].concat()))
    };
    past.lines().filter_map(early).collect()
}

/// I7: a process that exits with 0 has released or lost every term that it had.
pub(super) fn a_clean_exit_leaves_nothing(past: &Past<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (exit, end) in past.lines().filter(|(_, event)| event.what == What::Exit { code: 0 }) {
        let own = past.own(&end.process);
        let terms = own.iter().filter(|(_, e)| matches!(e.what, What::Claimed { .. } | What::Listed));
        for (line, term) in terms {
            let over = own.iter().any(|(_, event)| {
                let same = event.name == term.name && event.epoch == term.epoch;
                same && matches!(event.what, What::Released { .. } | What::Lost)
            });
            if !over {
                let name = term.name.as_deref().unwrap_or_default();
                let what =
                    format!("exit 0, and {name} at epoch {:?} is neither released nor lost", term.epoch);
                found.push(broken(7, what, [*line, exit]));
            }
        }
    }
    found
}

/// I11: who is asked to end claims nothing and starts nothing any more.
pub(super) fn who_is_closing_takes_and_starts_nothing(past: &Past<'_>) -> Vec<Violation> {
    let late = |(line, event): (usize, &Event)| {
        let closing = past.processes[event.process.as_str()].closing? + LATE;
        let (at, what) = match event.what {
            What::Claimed { sent, .. } => (sent, "claimed"),
            What::Started { .. } => (event.at, "started"),
            _ => return None,
        };
        let name = event.name.as_deref().unwrap_or_default();
        (at > closing).then(|| broken(11, format!("{name} was {what} by a process that was ending"), [line]))
    };
    past.lines().filter_map(late).collect()
}

/// I14: a process that lost its incarnation and goes on has registered anew before it is asked to end, if the fault was
/// over for long enough.
pub(super) fn who_lost_everything_comes_back(past: &Past<'_>) -> Vec<Violation> {
    let quiet = past.moments(&What::Settled);
    let gone = |(line, event): (usize, &Event)| {
        let settled = quiet.iter().find(|settled| **settled > event.at)?;
        let ended =
            |e: &Event| matches!(e.what, What::Exit { .. } | What::Killed | What::Gone | What::Closing);
        let mut later = past.own(&event.process).iter().filter(|(_, e)| e.at > event.at && e.at < *settled);
        let back = later.any(|(_, e)| e.what == What::Registered || ended(e));
        let what = format!("{} lost its incarnation and never registered again", event.process);
        (event.what == What::Dead && !back).then(|| broken(14, what, [line]))
    };
    past.lines().filter_map(gone).collect()
}

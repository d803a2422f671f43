//! While a term is ours: notice its loss, the end of trust, and the worker's failures.

use super::slot::{After, Command, Outcome, Phase, Slot, View};
use super::{Effects, LeaseRow, Release, release};
use crate::restart::Verdict;

/// Times the counting window after which a worker counts as healthy, and earlier give-ups as forgotten.
const HEALTHY: u32 = 10;

/// A renewal, sent after the term began, shows `row`.
pub(crate) fn seen(slot: &mut Slot, row: &LeaseRow, view: &View<'_>) -> Vec<Command> {
    let Some(term) = slot.term() else { return vec![] };
    let ours = row.holder == Some(term.holder) && row.epoch == term.epoch;
    if !ours {
        return lost(slot, Outcome::Lost, view, "taken over");
    }
    let wished_away = row.desired.is_some_and(|other| Some(other) != view.me);
    let why = if row.paused {
        "paused"
    } else if !view.up {
        "drained"
    } else if wished_away {
        "moved"
    } else {
        return vec![];
    };
    release::hand_back(slot, Release::Free, view, why)
}

/// The worker makes no progress: it is stopped, and that counts as a failure.
pub(crate) fn stuck(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    release::stop(slot, After::Fail, view, "no progress")
}

/// The term is over, or its incarnation is: stop, and release nothing. `outcome` is what became of it, if the instance
/// ends with it.
pub(crate) fn lost(slot: &mut Slot, outcome: Outcome, view: &View<'_>, why: &'static str) -> Vec<Command> {
    match &mut slot.phase {
        Phase::Running { .. } => release::stop(slot, After::Forget(outcome), view, why),
        Phase::Stopping { then, .. } => {
            *then = After::Forget(outcome);
            vec![]
        }
        Phase::Claiming | Phase::Waiting { .. } | Phase::Restarting { .. } | Phase::Releasing { .. } => {
            slot.settled_at = view.now;
            slot.phase = release::idle(view, outcome);
            vec![]
        }
        Phase::Standby | Phase::Deferring { .. } | Phase::CoolingDown { .. } | Phase::Done(_) => vec![],
    }
}

/// The trust deadline has passed. A fenced worker stays: its writes are refused until trust or the fence says more.
/// One that acts outside must stop now, and the row tells later whether there is something to release.
pub(crate) fn untrusted(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    match (&slot.phase, slot.effects) {
        (Phase::Running { .. }, Effects::External) => {
            release::stop(slot, After::Forget(Outcome::LeftToExpire), view, "not trusted any more")
        }
        (Phase::Waiting { .. }, _) | (Phase::Restarting { .. }, Effects::External) => {
            slot.phase = Phase::Standby;
            vec![]
        }
        _ => vec![],
    }
}

/// The worker ended though nobody told it to: its restart intensity decides.
pub(crate) fn failed(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    let Phase::Running { term } = &slot.phase else { return vec![] };
    let term = term.clone();
    if view.now.since(slot.started_at) > slot.intensity.within * HEALTHY {
        slot.given_up = 0;
    }
    match slot.failures.count(&slot.intensity, slot.given_up, view.jitter, view.now) {
        Verdict::Restart { after } => {
            slot.phase = Phase::Restarting { term, at: view.now + after };
            vec![]
        }
        Verdict::GiveUp { cool_down } => {
            let failures = slot.given_up.saturating_add(1);
            release::give_back(slot, term, Release::CoolDown { wait: cool_down, failures })
        }
    }
}

/// Starts a failed worker again once its backoff has passed.
pub(crate) fn backed_off(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    let Phase::Restarting { term, at } = &mut slot.phase else { return vec![] };
    if view.now < *at {
        return vec![];
    }
    if !view.trusted {
        *at = view.now + view.timing.renew_every;
        return vec![];
    }
    let term = term.clone();
    slot.phase = Phase::Running { term: term.clone() };
    vec![Command::Restart(term)]
}

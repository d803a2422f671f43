//! The way back: stop the worker, have it confirmed, release, have it acknowledged. In that order, whatever the cause.

use std::time::Duration;

use super::slot::{After, Command, Outcome, Phase, Slot, View};
use super::{Release, StoreError, TermId, keep};

/// Tries of one release. At one, a single lost packet leaves the lease to its TTL (etcd#22123); beyond three, a
/// database that is away only delays the exit.
pub const TRIES: u32 = 3;

/// The pause before another try; doubles.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Gives up whatever term the slot has, by the shortest safe way.
pub(crate) fn hand_back(slot: &mut Slot, how: Release, view: &View<'_>, why: &'static str) -> Vec<Command> {
    match &slot.phase {
        Phase::Running { .. } => stop(slot, After::Release(how), view, why),
        Phase::Waiting { term, .. } | Phase::Restarting { term, .. } => {
            let term = term.clone();
            give_back(slot, term, how)
        }
        _ => vec![],
    }
}

/// The instance ends: nothing new begins here, and what is ours goes back.
pub(crate) fn close(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    if matches!(slot.phase, Phase::Standby | Phase::Deferring { .. } | Phase::CoolingDown { .. }) {
        slot.phase = Phase::Done(Outcome::NotOurs);
        return vec![];
    }
    hand_back(slot, Release::Free, view, "shutting down")
}

/// Tells the worker to stop.
pub(crate) fn stop(slot: &mut Slot, then: After, view: &View<'_>, why: &'static str) -> Vec<Command> {
    let Phase::Running { term } = &slot.phase else { return vec![] };
    let term = term.clone();
    slot.phase = Phase::Stopping { term: term.clone(), by: view.now + view.timing.stop_within, then };
    let within = view.timing.worker_stop_within();
    vec![Command::Stop { term, within, revoked: matches!(then, After::Forget(_)), why }]
}

/// The worker's end is confirmed: nothing of it runs any more.
pub(crate) fn stopped(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    let Phase::Stopping { term, then, .. } = &slot.phase else { return vec![] };
    match *then {
        After::Release(how) => {
            let term = term.clone();
            give_back(slot, term, how)
        }
        After::Fail if view.closing => {
            let term = term.clone();
            give_back(slot, term, Release::Free)
        }
        After::Fail => {
            slot.phase = Phase::Running { term: term.clone() };
            keep::failed(slot, view)
        }
        After::Forget(outcome) => {
            slot.settled_at = view.now;
            slot.phase = idle(view, outcome);
            vec![]
        }
    }
}

/// Whether the stop was due and is not confirmed: then nothing is released, and the process ends.
pub(crate) fn overdue(slot: &mut Slot, view: &View<'_>) -> bool {
    let late = matches!(&slot.phase, Phase::Stopping { by, .. } if view.now >= *by);
    if late {
        slot.phase = Phase::Done(Outcome::Overdue);
    }
    late
}

/// Sends the first release of `term`.
pub(crate) fn give_back(slot: &mut Slot, term: TermId, how: Release) -> Vec<Command> {
    slot.phase = Phase::Releasing { term: term.clone(), how, tries: 1, again_at: None };
    vec![Command::Release(term, how)]
}

/// The store answered a release. One row is the acknowledgement; none means that somebody else has it already.
pub(crate) fn released(slot: &mut Slot, reply: &Result<bool, StoreError>, view: &View<'_>) -> Vec<Command> {
    let Phase::Releasing { how, tries, again_at, .. } = &mut slot.phase else { return vec![] };
    match reply {
        Err(_) if *tries < TRIES => {
            *again_at = Some(view.now + TRY_AGAIN * 2_u32.pow(*tries - 1));
            return vec![];
        }
        Err(_) => slot.phase = idle(view, Outcome::LeftToExpire),
        Ok(false) => slot.phase = idle(view, Outcome::Lost),
        Ok(true) => {
            slot.phase = match *how {
                Release::CoolDown { wait, .. } if !view.closing => {
                    Phase::CoolingDown { until: view.now + wait }
                }
                _ => idle(view, Outcome::Released),
            }
        }
    }
    slot.settled_at = view.now;
    vec![]
}

/// Tries the release again, or ends a cool-down, once it is time.
pub(crate) fn again(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    match &mut slot.phase {
        Phase::Releasing { term, how, tries, again_at } if again_at.is_some_and(|at| view.now >= at) => {
            *tries += 1;
            *again_at = None;
            vec![Command::Release(term.clone(), *how)]
        }
        Phase::CoolingDown { until } if view.now >= *until => {
            slot.phase = idle(view, Outcome::NotOurs);
            vec![]
        }
        _ => vec![],
    }
}

/// Standby, or the outcome if the instance ends.
pub(crate) fn idle(view: &View<'_>, outcome: Outcome) -> Phase {
    if view.closing { Phase::Done(outcome) } else { Phase::Standby }
}

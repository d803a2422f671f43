//! From standby to a running worker: claim what is free, wait what is owed, start.

use super::slot::{Command, Phase, Slot, View};
use super::{Claim, LeaseRow, Release, StoreError, TermId, release};

/// A renewal shows `row` while the slot has no term.
pub(crate) fn seen(slot: &mut Slot, row: &LeaseRow, view: &View<'_>) -> Vec<Command> {
    slot.given_up = row.failures;
    let Some(me) = view.me else { return vec![] };
    if row.holder == Some(me) {
        // A claim whose answer was lost, or a worker that stopped for want of trust: ours in the row, not in fact.
        let term = TermId { name: slot.name.clone(), holder: me, epoch: row.epoch };
        return release::give_back(slot, term, Release::Free);
    }
    let free = !(row.paused || row.holder_alive && row.holder.is_some());
    let willing = view.trusted && !view.closing && row.cool_down.is_zero();
    if slot.phase != Phase::Standby || !free || !willing {
        return vec![];
    }
    slot.phase = Phase::Claiming;
    vec![Command::Claim(slot.name.clone(), me)]
}

/// The store answered a claim. The answer gives no trust: without it, the next renewal's list is the truth.
pub(crate) fn claimed(
    slot: &mut Slot,
    reply: Result<Option<Claim>, StoreError>,
    view: &View<'_>,
) -> Vec<Command> {
    if slot.phase != Phase::Claiming {
        return vec![];
    }
    slot.settled_at = view.now;
    slot.phase = Phase::Standby;
    let Ok(Some(claim)) = reply else { return vec![] };
    if view.me != Some(claim.term.holder) {
        return vec![];
    }
    if view.closing {
        return release::give_back(slot, claim.term, Release::Free);
    }
    if !view.trusted {
        return vec![];
    }
    slot.after = claim.after;
    slot.phase = Phase::Waiting { term: claim.term, until: view.now + claim.wait };
    waited(slot, view)
}

/// Starts the worker once the wait has passed, if the trust deadline still lies ahead.
pub(crate) fn waited(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    let Phase::Waiting { term, until } = &slot.phase else { return vec![] };
    if view.now < *until {
        return vec![];
    }
    let term = term.clone();
    if !view.trusted {
        slot.phase = Phase::Standby;
        return vec![];
    }
    slot.started_at = view.now;
    slot.phase = Phase::Running { term: term.clone() };
    vec![Command::Start(term, slot.after)]
}

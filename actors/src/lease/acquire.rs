//! From standby to a running worker: claim what is free, wait what is owed, start.

use std::time::Duration;

use super::slot::{Command, Outcome, Phase, Slot, View};
use super::{Ask, Claim, Effects, Incarnation, LeaseRow, Release, StoreError, TermId, release, spread};

/// How long an instance that has its share waits for one that has not. At half, a loaded database decides the balance;
/// at double, the last free lease of a small fleet starts a tenth of a second late.
const SHARE_WAIT: Duration = Duration::from_millis(50);

/// How many of these waits at most, for the leases beyond it. At half, one instance takes too many of a dead one's leases
/// before slow ones have looked; at double, leases that only one instance can take start a second later.
const SHARE_WAITS_MAX: u32 = 20;

/// How long others wait for the instance that an operator chose, or that lacks a lease for balance. Below a renewal, it
/// might not have heard of it; at double, a wish for an instance that does not know the worker costs that much.
const MOVE_WAIT: Duration = Duration::from_secs(2);

/// A renewal shows `row` while the slot has no term.
pub(crate) fn seen(slot: &mut Slot, row: &LeaseRow, view: &View<'_>) -> Vec<Command> {
    let Some(me) = view.me else { return vec![] };
    if row.holder == Some(me) {
        // A claim whose answer was lost, or a worker that stopped for want of trust: ours in the row, not in fact.
        let term = TermId { name: slot.name.clone(), holder: me, epoch: row.epoch };
        return release::give_back(slot, term, Release::Free);
    }
    if row.holder_alive && row.holder.is_some() {
        slot.phase = Phase::Standby;
        return vec![];
    }
    ask(slot, None, view)
}

/// The store says that the lease came free.
pub(crate) fn freed(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    ask(slot, None, view)
}

/// The store says that `who` has no beacon any more; the lease is asked for if it was the holder.
pub(crate) fn beaconless(slot: &mut Slot, who: Incarnation, view: &View<'_>) -> Vec<Command> {
    if slot.holder == Some(who) { ask(slot, Some(who), view) } else { vec![] }
}

/// Asks for the lease, if this instance may and wants to; at once, or after those who go first. One that waits already
/// goes on waiting, unless nobody has to go first any more.
fn ask(slot: &mut Slot, beaconless: Option<Incarnation>, view: &View<'_>) -> Vec<Command> {
    let deferring = matches!(slot.phase, Phase::Deferring { .. });
    if !(slot.phase == Phase::Standby || deferring) || !is_willing(slot, view) {
        return vec![];
    }
    let wait = match slot.desired {
        Some(other) if Some(other) != view.me => MOVE_WAIT,
        None if gave_up_just_now(slot, view) => MOVE_WAIT,
        // Each one more waits longer, so that one instance does not take all of what a dead one had.
        None if view.beyond > 0 => {
            SHARE_WAIT * u32::try_from(view.beyond).unwrap_or(u32::MAX).min(SHARE_WAITS_MAX)
        }
        _ => return claim(slot, beaconless, view),
    };
    if !deferring {
        slot.phase = Phase::Deferring { until: view.now + wait, beaconless };
    }
    vec![]
}

/// Whether this instance gave the lease up a moment ago for the sake of balance: it hears of its own release first, and
/// having one lease less it is not sated any more.
fn gave_up_just_now(slot: &Slot, view: &View<'_>) -> bool {
    slot.settled_until.since(view.now) + MOVE_WAIT > spread::SETTLED
}

/// Asks for the lease that nobody went first for.
pub(crate) fn deferred(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    let Phase::Deferring { until, beaconless } = slot.phase else { return vec![] };
    if view.now < until {
        return vec![];
    }
    slot.phase = Phase::Standby;
    if is_willing(slot, view) { claim(slot, beaconless, view) } else { vec![] }
}

fn is_willing(slot: &Slot, view: &View<'_>) -> bool {
    view.trusted && view.up && !view.closing && !slot.paused && view.now >= slot.away_until
}

fn claim(slot: &mut Slot, beaconless: Option<Incarnation>, view: &View<'_>) -> Vec<Command> {
    let Some(me) = view.me else { return vec![] };
    slot.phase = Phase::Claiming;
    let grace = match slot.effects {
        Effects::External => view.timing.grace,
        Effects::Fenced => Duration::ZERO,
    };
    let ends_wish = slot.desired.is_some();
    vec![Command::Claim(Ask { name: slot.name.clone(), me, grace, beaconless, ends_wish })]
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
    // While the instance ends, nothing else moves a slot without a term: it is done by this.
    let outcome = if reply.is_err() { Outcome::LeftToExpire } else { Outcome::NotOurs };
    slot.phase = release::idle(view, outcome);
    let Ok(Some(claim)) = reply else { return vec![] };
    if view.me != Some(claim.term.holder) {
        return vec![];
    }
    if view.closing {
        return release::give_back(slot, claim.term, Release::Free);
    }
    slot.after = claim.after;
    let is_owed = !claim.wait.is_zero();
    slot.phase = Phase::Waiting { term: claim.term, until: view.now + claim.wait, is_owed };
    waited(slot, view)
}

/// Starts the worker once the wait has passed, if the trust deadline still lies ahead. Nothing else starts one for a new
/// term.
pub(crate) fn waited(slot: &mut Slot, view: &View<'_>) -> Vec<Command> {
    let Phase::Waiting { term, until, is_owed } = &slot.phase else { return vec![] };
    if view.now < *until {
        return vec![];
    }
    let (term, is_owed) = (term.clone(), *is_owed);
    if !view.trusted {
        slot.phase = Phase::Standby;
        return vec![];
    }
    slot.started_at = view.now;
    slot.phase = Phase::Running { term: term.clone() };
    let end_wait = is_owed.then(|| Command::EndWait(term.clone()));
    [Command::Start(term, slot.after)].into_iter().chain(end_wait).collect()
}

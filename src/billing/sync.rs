//! Telling the managed holds: what is planned, who is due, and what comes of it. Each hold in its own pace, so that one that
//! is away keeps no other waiting.

use futures_util::StreamExt;

use super::tiers::Hold;
use super::{Billing, Errand, Halted, meters, plain, read, wait_after, write, written};
use crate::atproto::Did;
use crate::store::Tx;
use crate::store::billing::{DueTier, Told};

/// Holds at once. At half, a few that hang keep the others waiting; at double, nothing is gained with the handful there is.
const HOLDS_AT_ONCE: usize = 4;

/// Users that a hold is told of before it is written down: what a crash tells twice. At half, twice the transactions.
const USERS_AT_ONCE: u32 = 20;

/// Such parts in a row, so that a refresh that is due does not wait for tens of thousands.
const PARTS_MAX: u32 = 25;

/// Transactions that plan in one round.
const PLANS_MAX: u32 = 100;

/// What the holds are told by.
pub(super) struct Sync<'a> {
    billing: &'a Billing,
    holds: Vec<Hold>,
}

impl<'a> Sync<'a> {
    pub(super) fn new(billing: &'a Billing) -> Self {
        Self { billing, holds: billing.managed.iter().cloned().map(Hold::new).collect() }
    }

    /// Plans what has changed, and tells each hold that is not away.
    pub(super) async fn round(&mut self, errand: &Errand) -> Result<(), Halted> {
        let billing = self.billing;
        plan(billing, errand).await?;
        let mut served = Vec::new();
        for hold in self.holds.iter_mut() {
            if !hold.is_away() {
                served.push(serve(billing, errand, hold));
            }
        }
        let served = futures_util::stream::iter(served).buffer_unordered(HOLDS_AT_ONCE);
        let served: Vec<Result<(), Halted>> = served.collect().await;
        meters::holds_away(self.holds.iter().filter(|hold| hold.has_failed()).count());
        served.into_iter().collect()
    }
}

/// Ranks that changed, by a refresh or by the registry's own hand.
async fn plan(billing: &Billing, errand: &Errand) -> Result<(), Halted> {
    for _ in 0..PLANS_MAX {
        let unplanned =
            read(errand, "ranks to plan", billing.database.unplanned_ranks()).await?.unwrap_or_default();
        if unplanned.is_empty() || errand.is_stopped() {
            return Ok(());
        }
        let managed = billing.managed.clone();
        let plan = async move |tx: &mut Tx| tx.plan_ranks(&managed, &unplanned).await;
        if write(errand, "planned ranks", billing.database.fenced(errand.term(), plan)).await?.is_none() {
            return Ok(());
        }
    }
    Ok(())
}

async fn serve(billing: &Billing, errand: &Errand, hold: &mut Hold) -> Result<(), Halted> {
    if !hold.get_ready(billing, errand).await? {
        return Ok(());
    }
    let joined = match hold.is_crew_due(billing.interval) {
        true => read(errand, "new crew", billing.database.joined_crews(&hold.did)).await?.unwrap_or_default(),
        false => Vec::new(),
    };
    if !joined.is_empty() {
        let did = hold.did.clone();
        let again = async move |tx: &mut Tx| tx.tell_again(&did, &joined).await;
        write(errand, "new crew", billing.database.fenced(errand.term(), again)).await?;
    }
    for _ in 0..PARTS_MAX {
        let due = billing.database.due_tiers(&hold.did, USERS_AT_ONCE);
        let due = read(errand, "users to tell of", due).await?.unwrap_or_default();
        if due.is_empty() || !tell(billing, errand, hold, due).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Tells of some users, and writes down what came of it, also when we are halted in the middle. True: it may go on.
async fn tell(
    billing: &Billing,
    errand: &Errand,
    hold: &mut Hold,
    due: Vec<DueTier>,
) -> Result<bool, Halted> {
    let (mut told, mut goes_on) = (Vec::new(), Ok(true));
    for user in due {
        match tell_one(billing, errand, hold, &user).await {
            Err(halted) => goes_on = Err(halted),
            Ok((outcome, may_go_on)) => {
                told.push((user, outcome));
                goes_on = Ok(may_go_on);
            }
        }
        if goes_on != Ok(true) {
            break;
        }
    }
    let did = hold.did.clone();
    let note = async move |tx: &mut Tx| {
        for (user, outcome) in &told {
            tx.told_hold(&did, user, outcome).await?;
        }
        Ok(())
    };
    let noted = match goes_on {
        Ok(_) => errand.stored(billing.database.fenced(errand.term(), note)).await?,
        Err(Halted) => errand.stored_at_last(billing.database.fenced(errand.term(), note)).await?,
    };
    let stored = written(errand, "what a hold was told", noted)?;
    Ok(goes_on? && stored.is_some())
}

async fn tell_one(
    billing: &Billing,
    errand: &Errand,
    hold: &mut Hold,
    user: &DueTier,
) -> Result<(Told, bool), Halted> {
    let (did, url) = (hold.did.clone(), hold.url.clone().unwrap_or_default());
    let error = match billing.holds.update_crew_tier(errand, (&did, &url), &user.user, user.rank).await? {
        Ok(name) => {
            hold.answered();
            meters::told("applied");
            return Ok((Told::Applied(name), true));
        }
        Err(error) => error,
    };
    if error.is_not_crew() {
        hold.answered();
        meters::told("not_crew");
        return Ok((Told::NotCrew, true));
    }
    if error.is_unproven() {
        unproven(&did, &error.to_string());
    }
    let is_of_hold = error.is_of_hold();
    let wait = if is_of_hold {
        meters::told("hold_failed");
        hold.failed("updateCrewTier", &error, billing.interval)
    } else {
        meters::told("refused");
        wait_after(user.failures.saturating_add(1)).min(billing.interval)
    };
    Ok((Told::Failed { error: plain(&error), wait }, !is_of_hold))
}

/// An operator's to put right: everything else may be in order.
fn unproven(hold: &Did, error: &str) {
    tracing::error!(
        %hold,
        error,
        "the hold does not take our token: does the document of registry.did publish the key in registry.signing_key, \
         and does the hold know this registry as its own?"
    );
}

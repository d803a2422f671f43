//! What the sender does in a fenced transaction.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::Tx;
use crate::atproto::Micros;
use crate::outbox::payload::{Subject, payload};
use crate::outbox::{Attempted, DueDelivery, Event, Rules, Surroundings, Trigger, Withheld};
use crate::settings::Secret;
use crate::store::WriteError;
use crate::store::outbox::{Due, Look};
use crate::store::queries::due_deliveries::{self, DueRow};
use crate::store::queries::leases::micros;
use crate::store::queries::webhooks::EndpointRow;
use crate::store::queries::{billing, outbox, users, webhooks};
use crate::store::session::Session;

/// An endpoint that has had nothing but failures for so long is disabled. At half, a long weekend's outage would do it;
/// at double, a dead one is asked twice as often for nothing.
const FAILING_MAX: Duration = Duration::from_secs(3 * 24 * 3600);

/// What an attempt has led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// It was to be tried again, and is given up instead.
    pub is_given_up: bool,
    /// The webhook is disabled from now on.
    pub is_disabled: bool,
}

impl Tx {
    /// What is due now and may go out: of each webhook the longest due first. Payloads that are due for the first time
    /// are made here, and stay as they are; what may not go out any more (taken down, above the tier) is withheld.
    pub async fn due_deliveries(&mut self, rules: &Rules, look: &Look) -> Result<Due, WriteError> {
        let session = &mut self.session;
        let heads = due_deliveries::heads(session).await?;
        let (webhooks, next_in) = choose(heads, look);
        let rows = due_deliveries::due(session, &webhooks, look.per_webhook.into()).await?;
        let mut due = Due { next_in, ..Due::default() };
        if rows.is_empty() {
            return Ok(due);
        }
        let endpoints = endpoints(session, rules, &webhooks).await?;
        let (going, withheld) = sort(rows, &endpoints);
        for (reason, ids) in &withheld {
            due_deliveries::withhold(session, ids, *reason).await?;
            due.withheld.insert(*reason, u32::try_from(ids.len()).unwrap_or(u32::MAX));
        }
        // Room was left by what is withheld.
        let is_full = going.len() >= look.limit as usize;
        if is_full || !withheld.is_empty() {
            due.next_in = Some(Duration::ZERO);
        }
        let mut going: Vec<Going> = going.into_iter().take(look.limit as usize).collect();
        make_ready(session, rules, &mut going, &endpoints).await?;
        due.deliveries = going.into_iter().filter_map(|row| row.delivery(&endpoints)).collect();
        Ok(due)
    }

    /// Notes what came of an attempt, with the endpoint's own counters. A delivery that is no longer waiting, or gone
    /// with its webhook, is left alone. An endpoint that has had nothing but failures for three days is disabled.
    pub async fn delivery_attempted(&mut self, id: &str, result: &Attempted) -> Result<Outcome, WriteError> {
        let session = &mut self.session;
        let Some((webhook, status)) = due_deliveries::attempted(session, id, result).await? else {
            return Ok(Outcome::default());
        };
        webhooks::attempted(session, webhook, result).await?;
        let is_given_up = matches!(result, Attempted::Retry { .. }) && status == "failed";
        let is_disabled = match result {
            Attempted::Delivered { .. } => false,
            Attempted::Retry { error, .. } | Attempted::Failed { error, .. } => {
                let reason = format!("nothing but failures for 3 days; the last one: {error}");
                webhooks::disable_failing(session, webhook, &reason, micros(FAILING_MAX)).await?
            }
        };
        if is_disabled {
            due_deliveries::withhold_all(session, webhook, Withheld::Disabled).await?;
        }
        Ok(Outcome { is_given_up, is_disabled })
    }
}

/// The webhooks that are looked at, the longest due first, and how long until another one is due.
fn choose(mut heads: Vec<(i64, i64)>, look: &Look) -> (Vec<i64>, Option<Duration>) {
    heads.retain(|(webhook, _)| !look.busy.contains(webhook));
    heads.sort_by_key(|(webhook, wait)| (*wait, *webhook));
    let is_due = |(_, wait): &(i64, i64)| *wait <= 0;
    let due = heads.iter().filter(|head| is_due(head)).map(|(webhook, _)| *webhook);
    let webhooks: Vec<i64> = due.take(look.limit as usize).collect();
    let next =
        heads.get(webhooks.len()).map(|(_, wait)| Duration::from_micros(u64::try_from(*wait).unwrap_or(0)));
    (webhooks, next)
}

/// Where a webhook leads, and what it may have.
struct Endpoint {
    row: EndpointRow,
    gate: crate::outbox::Gate,
}

async fn endpoints(
    session: &mut Session,
    rules: &Rules,
    ids: &[i64],
) -> Result<HashMap<i64, Endpoint>, WriteError> {
    let rows = webhooks::endpoints(session, ids).await?;
    let users: Vec<String> = rows.iter().map(|(_, user, ..)| user.clone()).collect();
    let ranks: HashMap<String, i64> = billing::ranks(session, &users).await?.into_iter().collect();
    let endpoint = |row: EndpointRow| {
        let rank = ranks.get(&row.1).and_then(|rank| u32::try_from(*rank).ok());
        (row.0, Endpoint { row, gate: rules.tiers.gate(rank) })
    };
    Ok(rows.into_iter().map(endpoint).collect())
}

/// A delivery that may go out.
struct Going {
    row: DueRow,
    trigger: Trigger,
    /// None: not with this tag any more.
    ready: Option<(String, i64)>,
}

/// What may go out, and what may not.
fn sort(
    rows: Vec<DueRow>,
    endpoints: &HashMap<i64, Endpoint>,
) -> (Vec<Going>, BTreeMap<Withheld, Vec<String>>) {
    let (mut going, mut withheld) = (Vec::new(), BTreeMap::<_, Vec<String>>::new());
    for row in rows {
        let (Some(endpoint), Some(trigger)) = (endpoints.get(&row.1), Trigger::of_word(&row.2)) else {
            continue;
        };
        let (_, _, _, _, disabled_at, place) = &endpoint.row;
        let place = u32::try_from(*place).unwrap_or(u32::MAX);
        let reason = match () {
            () if disabled_at.is_some() => Some(Withheld::Disabled),
            () if row.12 => Some(Withheld::TakenDown),
            () if !endpoint.gate.lets_through(trigger, place) => Some(Withheld::Tier),
            () => None,
        };
        match reason {
            Some(reason) => withheld.entry(reason).or_default().push(row.0),
            None => going.push(Going { row, trigger, ready: None }),
        }
    }
    (going, withheld)
}

/// Makes the payloads and the ends that are not made yet.
async fn make_ready(
    session: &mut Session,
    rules: &Rules,
    going: &mut [Going],
    endpoints: &HashMap<i64, Endpoint>,
) -> Result<(), WriteError> {
    let mut unready = Vec::new();
    for (place, one) in going.iter_mut().enumerate() {
        match (&one.row.7, one.row.11) {
            (Some(payload), Some(give_up_at)) => one.ready = Some((payload.clone(), give_up_at)),
            _ => unready.push(place),
        }
    }
    let about = |place: &usize| {
        let (id, webhook, _, repository, digest, _, event, ..) = &going[*place].row;
        let user = endpoints.get(webhook).map(|endpoint| endpoint.row.1.clone()).unwrap_or_default();
        let hold = match serde_json::from_str(event) {
            Ok(Event::Push(push)) => push.hold,
            Ok(Event::Scan(scan)) => Some(scan.hold),
            _ => None,
        };
        (id.clone(), user, repository.clone(), digest.clone(), hold)
    };
    let about: Vec<outbox::About> = unready.iter().map(about).collect();
    let around: HashMap<String, Surroundings> =
        outbox::around(session, &about).await?.into_iter().map(|row| surroundings(row, &about)).collect();
    let mut made = Vec::new();
    for place in &unready {
        let row = &going[*place].row;
        let give_up_at = row.10.saturating_add(micros(rules.give_up_after));
        let payload = match (&row.7, around.get(&row.0), serde_json::from_str::<Event>(&row.6)) {
            (Some(payload), ..) => payload.clone(),
            (None, Some(around), Ok(event)) => {
                let about = Subject { repository: &row.3, digest: &row.4, tag: &row.5 };
                payload(going[*place].trigger, about, &event, around, &rules.site)
            }
            (None, _, _) => return Err(WriteError::Database(format!("a stored delivery {:?}", row.0))),
        };
        made.push((row.0.clone(), row.5.clone(), payload, give_up_at));
    }
    let set = due_deliveries::set_ready(session, &made).await?;
    for (place, (id, _, payload, give_up_at)) in unready.into_iter().zip(made) {
        if set.contains(&id) {
            going[place].ready = Some((payload, give_up_at));
        }
    }
    Ok(())
}

fn surroundings(row: outbox::AroundRow, about: &[outbox::About]) -> (String, Surroundings) {
    let (id, handle, hold_endpoint, stars, pulls, tag) = row;
    let user_did = about.iter().find(|of| of.0 == id).map(|of| of.1.clone()).unwrap_or_default();
    let user_handle = (handle != users::NO_HANDLE).then_some(handle);
    (id, Surroundings { user_did, user_handle, hold_endpoint, stars, pulls, tag })
}

impl Going {
    fn delivery(self, endpoints: &HashMap<i64, Endpoint>) -> Option<DueDelivery> {
        let (payload, give_up_at) = self.ready?;
        let (id, webhook, _, _, _, _, _, _, attempt, created_at, ..) = self.row;
        let (_, _, url, secret, ..) = &endpoints.get(&webhook)?.row;
        Some(DueDelivery {
            id,
            webhook,
            url: url.clone(),
            secret: secret.clone().map(Secret::stored),
            trigger: self.trigger,
            payload,
            attempt: u32::try_from(attempt).unwrap_or(u32::MAX),
            created_at: Micros(created_at),
            give_up_at: Micros(give_up_at),
        })
    }
}

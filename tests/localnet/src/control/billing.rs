//! Stripe's customers and subscriptions, and the holds that a registry manages, by command.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Net;
use crate::network::Curve;

/// What can be asked for. Names on the wire are in kebab-case.
#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs, reason = "each names a method of Net, which has the documentation")]
pub(super) enum BillingCommand {
    AddHold { name: String, tiers: Vec<String> },
    SetTiers { did: String, tiers: Vec<String> },
    TrustRegistry { curve: Curve, number: u8 },
    TierUpdates {},
    AddCustomer { did: String },
    Subscribe { customer: String, prices: Vec<String> },
    SetSubscription { id: String, status: String },
    SetPrices { id: String, prices: Vec<String> },
    ForgetSubscriptions {},
}

/// What came of a command; none if it is none of these.
pub(super) fn obey(net: &Net, command: &str, fields: &Map<String, Value>) -> Option<Result<Value, String>> {
    const NAMES: [&str; 9] = [
        "add-hold",
        "set-tiers",
        "trust-registry",
        "tier-updates",
        "add-customer",
        "subscribe",
        "set-subscription",
        "set-prices",
        "forget-subscriptions",
    ];
    let read = serde_json::from_value(Value::Object(fields.clone())).map_err(|error| error.to_string());
    NAMES.contains(&command).then(|| read.and_then(|command| carry_out(net, command)))
}

fn carry_out(net: &Net, command: BillingCommand) -> Result<Value, String> {
    let found = |is_there: bool, id: &str| match is_there {
        true => Ok(json!({ "done": true })),
        false => Err(format!("there is no subscription {id}")),
    };
    Ok(match command {
        BillingCommand::AddHold { name, tiers } => {
            json!({ "did": net.add_hold(&name, &borrowed(&tiers)) })
        }
        BillingCommand::SetTiers { did, tiers } => {
            net.set_tiers(&did, &borrowed(&tiers));
            json!({ "done": true })
        }
        BillingCommand::TrustRegistry { curve, number } => {
            let registry = net.trust_registry(curve, number);
            json!({ "did": registry.did, "signing_key": registry.signing_key })
        }
        BillingCommand::TierUpdates {} => {
            let shown = |update: crate::network::TierUpdate| {
                json!([update.hold, update.user, update.rank, update.refused])
            };
            json!({ "updates": net.tier_updates().into_iter().map(shown).collect::<Vec<_>>() })
        }
        BillingCommand::AddCustomer { did } => json!({ "id": net.add_customer("did", &did) }),
        BillingCommand::Subscribe { customer, prices } => {
            json!({ "id": net.subscribe(&customer, &borrowed(&prices)) })
        }
        BillingCommand::SetSubscription { id, status } => found(net.set_subscription(&id, &status), &id)?,
        BillingCommand::SetPrices { id, prices } => found(net.set_prices(&id, &borrowed(&prices)), &id)?,
        BillingCommand::ForgetSubscriptions {} => {
            net.forget_subscriptions();
            json!({ "done": true })
        }
    })
}

fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

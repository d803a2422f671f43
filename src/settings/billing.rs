//! The section that has a list of tables: what can be subscribed to.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::address::HttpUrl;
use super::secret::Secret;
use super::{duration, text};

/// `[billing]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Billing {
    /// None: no billing.
    #[serde(deserialize_with = "text::optional")]
    pub stripe_secret_key: Option<Secret>,
    /// Stripe's API.
    #[serde(deserialize_with = "text::parsed")]
    pub stripe_url: HttpUrl,
    /// From one refresh to the next.
    #[serde(deserialize_with = "duration::above_zero")]
    pub interval: Duration,
    /// In rank order, the lowest first; names and prices are unique.
    pub tiers: Vec<Tier>,
    /// A late subscription keeps its tier for so long.
    #[serde(deserialize_with = "duration::any")]
    pub past_due_grace: Duration,
}

/// One of `billing.tiers`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Not empty.
    #[serde(deserialize_with = "not_empty")]
    pub name: String,
    /// Stripe's prices that lead to it; none for the free tier.
    pub price_ids: Vec<String>,
    /// Webhooks at most, 0 to 10000.
    #[serde(deserialize_with = "text::between::<0, 10000, _>")]
    pub max_webhooks: u32,
    /// Whether its webhooks may have the paid triggers.
    pub all_triggers: bool,
}

fn not_empty<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = text::label(from)?;
    if text.trim().is_empty() { Err(D::Error::custom("expected a name")) } else { Ok(text) }
}

//! The section that has arithmetic: the timing of leases.

use std::time::Duration;

use leased_actors::lease::timing::Timing;
use serde::Deserialize;

use super::database::Backend;
use super::duration;

/// `[leases]`. None in the timing is `auto`; see [`Leases::timing`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The timings are `Timing`'s, by the same names.
pub struct Leases {
    /// False: every worker runs here, unleased.
    pub enabled: bool,
    #[serde(deserialize_with = "duration::or_auto")]
    pub ttl: Option<Duration>,
    #[serde(deserialize_with = "duration::or_auto")]
    pub renew_every: Option<Duration>,
    #[serde(deserialize_with = "duration::or_auto")]
    pub renew_timeout: Option<Duration>,
    #[serde(deserialize_with = "duration::or_auto")]
    pub trust_for: Option<Duration>,
    #[serde(deserialize_with = "duration::or_auto")]
    pub stop_within: Option<Duration>,
    #[serde(deserialize_with = "duration::or_auto")]
    pub server_drop: Option<Duration>,
    #[serde(deserialize_with = "duration::or_auto")]
    pub grace: Option<Duration>,
    #[serde(deserialize_with = "duration::or_auto")]
    pub poll_every: Option<Duration>,
    /// Balance the workers over the instances.
    pub spread: bool,
    /// How long the history is kept.
    #[serde(deserialize_with = "duration::above_zero")]
    pub history_for: Duration,
}

impl Leases {
    /// The timing on `backend`, `auto` resolved. Its relations hold for the backend of `database.url`.
    pub fn timing(&self, backend: Backend) -> Timing {
        let auto = match backend {
            Backend::Sqlite => Timing::SQLITE,
            Backend::Postgres => Timing::POSTGRES,
        };
        Timing {
            renew_every: self.renew_every.unwrap_or(auto.renew_every),
            renew_timeout: self.renew_timeout.unwrap_or(auto.renew_timeout),
            trust_for: self.trust_for.unwrap_or(auto.trust_for),
            stop_within: self.stop_within.unwrap_or(auto.stop_within),
            server_drop: self.server_drop.unwrap_or(auto.server_drop),
            grace: self.grace.unwrap_or(auto.grace),
            ttl: self.ttl.unwrap_or(auto.ttl),
            poll_every: self.poll_every.unwrap_or(auto.poll_every),
        }
    }
}

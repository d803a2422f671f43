//! What the sender and the commands read and leave in `webhooks` and `webhook_deliveries`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::outbox::{DueDelivery, Withheld};

/// Which deliveries are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Webhooks that are busy: none of theirs.
    pub busy: Vec<i64>,
    /// Of each webhook at most.
    pub per_webhook: u32,
    /// In all at most.
    pub limit: u32,
}

/// What is due.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// Ready to go, the longest due first.
    pub deliveries: Vec<DueDelivery>,
    /// How many that were due are withheld now, and go out no more.
    pub withheld: BTreeMap<Withheld, u32>,
    /// How long until the next becomes due, of webhooks that are not busy; zero: more than were asked for are due now.
    pub next_in: Option<Duration>,
}

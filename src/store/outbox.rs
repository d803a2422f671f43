//! What the sender and the commands read and leave in `webhooks` and `webhook_deliveries`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::queries::{due_deliveries, webhooks};
use super::{Database, ReadError};
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

/// How the outbox stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxReport {
    /// Deliveries that wait for their first or next attempt.
    pub waiting: u64,
    /// For how long the one that is due the longest has been due.
    pub oldest_due: Duration,
    /// Webhooks that are enabled.
    pub enabled: u64,
    /// Webhooks that are disabled.
    pub disabled: u64,
}

impl Database {
    /// How the outbox stands. It counts what waits, row by row: not for every look.
    pub async fn outbox_report(&self) -> Result<OutboxReport, ReadError> {
        let session = &mut self.session().await?;
        let (waiting, due_for) = due_deliveries::waiting(session).await?;
        let (all, disabled) = webhooks::counts(session).await?;
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(OutboxReport {
            waiting: count(waiting),
            oldest_due: Duration::from_micros(count(due_for.unwrap_or(0))),
            enabled: count(all - disabled),
            disabled: count(disabled),
        })
    }
}

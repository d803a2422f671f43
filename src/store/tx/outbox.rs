//! What the sender does in a fenced transaction.

use super::Tx;
use crate::outbox::{Attempted, Rules};
use crate::store::WriteError;
use crate::store::outbox::{Due, Look};

impl Tx {
    /// What is due now and may go out: of each webhook the longest due first. Payloads that are due for the first time
    /// are made here, and stay as they are; what may not go out any more (taken down, above the tier) is withheld.
    pub async fn due_deliveries(&mut self, rules: &Rules, look: &Look) -> Result<Due, WriteError> {
        let _ = (rules, look);
        Ok(Due::default())
    }

    /// Notes what came of an attempt, with the endpoint's own counters. A delivery that is no longer waiting, or gone
    /// with its webhook, is left alone. An endpoint that has had nothing but failures for three days is disabled.
    pub async fn delivery_attempted(&mut self, id: &str, result: &Attempted) -> Result<Outcome, WriteError> {
        let _ = (id, result);
        Ok(Outcome::default())
    }
}

/// What an attempt has led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// It was to be tried again, and is given up instead.
    pub is_given_up: bool,
    /// The webhook is disabled from now on.
    pub is_disabled: bool,
}

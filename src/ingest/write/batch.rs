//! What one transaction writes: changes of records, accounts, identities, and the positions that they bring.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::atproto::{Change, Did, Micros};
use crate::ingest::connect::Frame;
use crate::ingest::project::{Projected, What};
use crate::store::{Applied, Tx, WriteError};

/// Collected events, in the order they came.
#[derive(Debug, Default)]
pub(in crate::ingest) struct Batch {
    changes: Vec<Change>,
    accounts: BTreeMap<Did, Standing>,
    identities: BTreeSet<Did>,
    positions: BTreeMap<Arc<str>, i64>,
}

/// The newest that was said of an account.
#[derive(Debug)]
struct Standing {
    active: bool,
    status: Option<String>,
    at: Micros,
}

impl Batch {
    /// Takes the meaning of one frame.
    pub(super) fn add(&mut self, frame: &Frame, event: Projected) {
        // An event without a position of its own comes with that of its neighbours.
        let at = event.time_us.unwrap_or_default();
        if event.time_us.is_some() {
            // A time ahead of our clock can be one event's or the host's: what is yet to come may have an earlier one.
            let passed = at.min(frame.received_us);
            let position = self.positions.entry(frame.host.clone()).or_insert(passed);
            *position = passed.max(*position);
        }
        match event.what {
            What::Change(change, _) => self.changes.push(*change),
            What::Account { did, active, status } => {
                let said = Standing { active, status, at: Micros(at) };
                let newest = self.accounts.get(&did).is_none_or(|known| known.at < said.at);
                if newest {
                    self.accounts.insert(did, said);
                }
            }
            What::Identity(did) => drop(self.identities.insert(did)),
            What::Dropped(_) => {}
        }
    }

    /// Whether there is nothing at all to write.
    pub(super) fn is_empty(&self) -> bool {
        self.is_only_position() && self.positions.is_empty()
    }

    /// Whether nothing but positions would be written: that can wait.
    pub(super) fn is_only_position(&self) -> bool {
        self.changes.is_empty() && self.accounts.is_empty() && self.identities.is_empty()
    }

    /// Whether identities of known accounts have to be looked up.
    pub(super) fn asks_for_identities(&self) -> bool {
        !self.identities.is_empty()
    }

    /// The newest position in it, microseconds since the Unix epoch.
    pub(in crate::ingest) fn newest_us(&self) -> Option<i64> {
        self.positions.values().copied().max()
    }

    /// Writes it all; may be repeated.
    pub(super) async fn write(&self, tx: &mut Tx, wire: &str) -> Result<Applied, WriteError> {
        let applied = tx.apply(&self.changes).await?;
        for (did, said) in &self.accounts {
            tx.set_account(did, said.active, said.status.as_deref(), said.at).await?;
        }
        if !self.identities.is_empty() {
            let dids: Vec<_> = self.identities.iter().cloned().collect();
            tx.mark_identity_due(&dids).await?;
        }
        for (host, time_us) in &self.positions {
            tx.save_cursor(wire, host, *time_us).await?;
        }
        Ok(applied)
    }
}

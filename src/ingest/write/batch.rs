//! What one transaction writes: changes of records, accounts, identities, what has to be read again, and the positions
//! that they bring.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::atproto::{Change, Did, Micros};
use crate::ingest::connect::{Frame, Gap};
use crate::ingest::project::{Projected, What};
use crate::ingest::wire::Wire;
use crate::store::{Applied, Tx, WriteError};

/// Collected events, in the order they came.
#[derive(Debug, Default)]
pub(in crate::ingest) struct Batch {
    changes: Vec<Change>,
    accounts: BTreeMap<Did, Standing>,
    identities: BTreeSet<Did>,
    /// What has to be read again, and why; `None`: every repository.
    requests: BTreeMap<Option<Did>, &'static str>,
    /// Whose numbers their hosts do not know any more. The positions below were passed afterwards.
    forgotten: BTreeSet<Source>,
    positions: BTreeMap<Source, Position>,
}

/// Whose position it is.
type Source = (Wire, Arc<str>);

#[derive(Clone, Copy, Debug)]
struct Position {
    time_us: i64,
    seq: Option<i64>,
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
            let passed = Position { time_us: at.min(frame.received_us), seq: event.seq };
            let source = (frame.wire, frame.host.clone());
            let position = self.positions.entry(source).or_insert(passed);
            position.time_us = passed.time_us.max(position.time_us);
            position.seq = passed.seq.max(position.seq);
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
            What::Sync(did) => drop(self.requests.insert(Some(did), "sync")),
            What::Dropped(_) => {}
        }
    }

    /// Takes note that the stream has left something out.
    pub(super) fn add_gap(&mut self, gap: &Gap) {
        self.requests.insert(None, gap.reason.kind());
        if gap.forget {
            let source = (gap.wire, gap.host.clone());
            self.positions.remove(&source);
            self.forgotten.insert(source);
        }
    }

    /// Why repositories have to be read again, a word for each wish.
    pub(in crate::ingest) fn requests(&self) -> impl Iterator<Item = &'static str> {
        self.requests.values().copied()
    }

    /// Whether there is nothing at all to write.
    pub(super) fn is_empty(&self) -> bool {
        self.is_only_position() && self.positions.is_empty()
    }

    /// Whether nothing but positions would be written: that can wait.
    pub(super) fn is_only_position(&self) -> bool {
        let says_nothing = self.changes.is_empty() && self.accounts.is_empty() && self.identities.is_empty();
        says_nothing && self.requests.is_empty() && self.forgotten.is_empty()
    }

    /// Whether identities of known accounts have to be looked up.
    pub(super) fn asks_for_identities(&self) -> bool {
        !self.identities.is_empty()
    }

    /// The newest time in it, microseconds since the Unix epoch.
    pub(in crate::ingest) fn newest_us(&self) -> Option<i64> {
        self.positions.values().map(|position| position.time_us).max()
    }

    /// Writes it all; may be repeated.
    pub(super) async fn write(&self, tx: &mut Tx) -> Result<Applied, WriteError> {
        let applied = tx.apply(&self.changes).await?;
        for (did, said) in &self.accounts {
            let is_news = tx.set_account(did, said.active, said.status.as_deref(), said.at).await?;
            // A deletion is confirmed by the account's own PDS before anything goes; what is shown again may have been
            // purged meanwhile.
            if is_news && (said.active || said.status.as_deref() == Some("deleted")) {
                tx.ask_backfill(Some(did), "account").await?;
            }
        }
        if !self.identities.is_empty() {
            let dids: Vec<_> = self.identities.iter().cloned().collect();
            tx.mark_identity_due(&dids).await?;
        }
        for (did, reason) in &self.requests {
            tx.ask_backfill(did.as_ref(), reason).await?;
        }
        for (wire, host) in &self.forgotten {
            tx.forget_cursor_number(wire.name(), host).await?;
        }
        for ((wire, host), position) in &self.positions {
            match position.seq {
                None => tx.save_cursor(wire.name(), host, position.time_us).await?,
                Some(seq) => tx.save_numbered_cursor(wire.name(), host, seq, position.time_us).await?,
            }
        }
        Ok(applied)
    }
}

//! What holds have answered. No clock and no network: both come in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::ask::Outcome;
use super::choose::Chosen;
use crate::atproto::{Did, Micros};

/// After an attempt that has found nothing out about the hold, nobody asks for so long on somebody's wish. The rounds do.
const TROUBLE_FOR: Duration = Duration::from_secs(30);

/// How a hold is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It answered with a status of 2xx.
    Reachable,
    /// It did not.
    Unreachable,
    /// It was not asked, or too long ago, or it could not be found out. To be treated as reachable.
    Unknown,
}

impl State {
    /// The word for it, in answers, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reachable => "reachable",
            Self::Unreachable => "unreachable",
            Self::Unknown => "unknown",
        }
    }
}

/// A hold, for the registry and for people. The names of the fields are the interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldState {
    /// Which one.
    pub did: Did,
    /// How it is.
    pub state: State,
    /// Whether to use it: false only if it is known not to answer.
    pub reachable: bool,
    /// When it was last asked (RFC 3339, UTC), if it was.
    pub checked_at: Option<String>,
    /// What was wrong.
    pub error: Option<String>,
}

impl HoldState {
    /// Of one that nothing is known of.
    pub fn unknown(did: Did) -> Self {
        Self { did, state: State::Unknown, reachable: true, checked_at: None, error: None }
    }
}

/// Every hold that is looked after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldList {
    /// When each of them had last been asked once (RFC 3339, UTC); null before the first round's end.
    pub round_ended_at: Option<String>,
    /// How many more the index names. They are not asked: their state is unknown.
    pub left_out: usize,
    /// By DID.
    pub holds: Vec<HoldState>,
}

/// How new an answer has to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    /// Of this moment or later: a round asks everybody.
    Since(Instant),
    /// Not too old.
    Fresh,
}

/// The answers of the holds that are looked after.
#[derive(Debug)]
pub(super) struct Answers {
    /// How long an answer is believed.
    fresh_for: Duration,
    entries: BTreeMap<Did, Entry>,
    left_out: usize,
    round_ended_at: Option<Micros>,
}

#[derive(Debug, Default)]
struct Entry {
    last: Option<Last>,
    asking: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct Last {
    outcome: Outcome,
    at: Micros,
    since: Instant,
}

impl Answers {
    pub(super) fn new(fresh_for: Duration) -> Self {
        Self { fresh_for, entries: BTreeMap::new(), left_out: 0, round_ended_at: None }
    }

    /// From now on these are looked after, and no others. Answers of those that stay, stay.
    pub(super) fn look_after(&mut self, chosen: &Chosen) {
        let mut before = std::mem::take(&mut self.entries);
        let kept = |did: &Did| (did.clone(), before.remove(did).unwrap_or_default());
        self.entries = chosen.holds.iter().map(kept).collect();
        self.left_out = chosen.left_out;
    }

    /// Whoever holds it asks, the others wait. `None`: there is nothing to ask, for the hold is not looked after, or its
    /// answer is new enough.
    pub(super) fn asking(&self, did: &Did, need: Need, now: Instant) -> Option<Arc<Mutex<()>>> {
        let entry = self.entries.get(did)?;
        let is_due = entry.last.as_ref().is_none_or(|last| match need {
            Need::Since(moment) => last.since < moment,
            Need::Fresh => now.saturating_duration_since(last.since) >= self.settled_for(last),
        });
        is_due.then(|| Arc::clone(&entry.asking))
    }

    /// Takes what came of asking. An answer gives way to an answer only, as long as it is believed. Returns how the hold
    /// was and how it is.
    pub(super) fn found(
        &mut self,
        did: &Did,
        outcome: Outcome,
        at: Micros,
        now: Instant,
    ) -> Option<(State, State)> {
        let before = self.state_of(did, now).state;
        let keeps = matches!(outcome, Outcome::Unknown { .. }) && before != State::Unknown;
        // It may be looked after no more.
        let entry = self.entries.get_mut(did)?;
        if !keeps {
            entry.last = Some(Last { outcome, at, since: now });
        }
        Some((before, self.state_of(did, now).state))
    }

    pub(super) fn round_ended(&mut self, at: Micros) {
        self.round_ended_at = Some(at);
    }

    /// One hold; one that is not looked after is unknown.
    pub(super) fn state_of(&self, did: &Did, now: Instant) -> HoldState {
        let last = self.entries.get(did).and_then(|entry| entry.last.as_ref());
        let believed = last.filter(|last| now.saturating_duration_since(last.since) < self.fresh_for);
        let (state, error) = match believed.map(|last| &last.outcome) {
            Some(Outcome::Reachable) => (State::Reachable, None),
            Some(Outcome::Unreachable { error, .. }) => (State::Unreachable, Some(error.clone())),
            Some(Outcome::Unknown { error }) => (State::Unknown, Some(error.clone())),
            None => (State::Unknown, None),
        };
        let checked_at = last.and_then(|last| text(last.at));
        HoldState { did: did.clone(), state, reachable: state != State::Unreachable, checked_at, error }
    }

    /// Every hold that is looked after.
    pub(super) fn list(&self, now: Instant) -> HoldList {
        HoldList {
            round_ended_at: self.round_ended_at.and_then(text),
            left_out: self.left_out,
            holds: self.entries.keys().map(|did| self.state_of(did, now)).collect(),
        }
    }

    fn settled_for(&self, last: &Last) -> Duration {
        match last.outcome {
            Outcome::Unknown { .. } => TROUBLE_FOR.min(self.fresh_for),
            _ => self.fresh_for,
        }
    }
}

fn text(at: Micros) -> Option<String> {
    let at = chrono::DateTime::from_timestamp_micros(at.0)?;
    Some(at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
}

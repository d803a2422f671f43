//! The part about the holds: what each instance knows of them. Pure.

use serde::Serialize;

use crate::health::{HoldState, State};
use crate::status::Told;
use crate::store::status::InstanceStatus;

/// What one instance knows of the holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HoldsOf {
    /// Which instance.
    pub incarnation: String,
    /// Its label.
    pub label: String,
    /// Where it can be asked: `http://ADDRESS/holds`.
    pub admin_address: Option<String>,
    /// Whether it was asked and answered. If not, the numbers are null.
    pub answered: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Whether it asks holds at all.
    pub enabled: Option<bool>,
    /// When each of them had last been asked (RFC 3339, UTC).
    pub round_ended_at: Option<String>,
    /// How many answer.
    pub reachable: Option<usize>,
    /// How many do not.
    pub unreachable: Option<usize>,
    /// Of how many it is not known.
    pub unknown: Option<usize>,
    /// How many more there are, that are not asked.
    pub left_out: Option<usize>,
    /// Those that do not answer, by DID.
    pub down: Vec<HoldState>,
}

impl HoldsOf {
    pub(super) fn unasked(instance: &InstanceStatus) -> Self {
        Self {
            incarnation: instance.incarnation.clone(),
            label: instance.label.clone(),
            admin_address: instance.admin_address.clone(),
            answered: false,
            reason: Some("it was not asked".to_owned()),
            enabled: None,
            round_ended_at: None,
            reachable: None,
            unreachable: None,
            unknown: None,
            left_out: None,
            down: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, told: Result<Told, String>) {
        let told = match told {
            Ok(told) => told,
            Err(reason) => return self.reason = Some(reason),
        };
        let count = |state| Some(told.list.holds.iter().filter(|hold| hold.state == state).count());
        (self.answered, self.reason, self.enabled) = (true, None, Some(told.enabled));
        self.reachable = count(State::Reachable);
        self.unreachable = count(State::Unreachable);
        self.unknown = count(State::Unknown);
        self.left_out = Some(told.list.left_out);
        self.round_ended_at = told.list.round_ended_at;
        self.down = told.list.holds.into_iter().filter(|hold| hold.state == State::Unreachable).collect();
    }
}

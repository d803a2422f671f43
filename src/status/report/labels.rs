//! The part about the labels: what the database has, and how the instance that follows the labeler stands with it. Pure.

use serde::Serialize;

use super::{seconds, time};
use crate::status::Hearing;
use crate::store::status::LabelsStatus;

/// The labels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Labels {
    /// The labeler in effect: its DID; null if none was ever followed.
    pub labeler: Option<String>,
    /// Whether its labels count with a good signature alone.
    pub verify_signatures: Option<bool>,
    /// The number of its last label that was heard.
    pub seq: Option<i64>,
    /// How often its numbers have begun anew.
    pub era: Option<i64>,
    /// When that position was saved (RFC 3339, UTC).
    pub saved_at: Option<String>,
    /// Seconds since then. A labeler that says nothing moves it not.
    pub saved_seconds_ago: Option<f64>,
    /// Its labels that are in effect.
    pub in_effect: u64,
    /// Its labels that are not verified: of no effect where signatures are.
    pub not_verified: u64,
    /// Subjects that are taken down.
    pub taken_down: u64,
    /// Whether the instance that has the lease `labeler` was asked and answered. If not, the rest is null.
    pub answered: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Whether it is connected to the labeler.
    pub connected: Option<bool>,
    /// When the stream last brought a label there (RFC 3339, UTC).
    pub last_label_at: Option<String>,
    /// When the labeler's list was last read there.
    pub last_check_at: Option<String>,
    /// Whether the labeler refuses our position: takedowns do not arrive.
    pub position_refused: Option<bool>,
}

impl Labels {
    pub(super) fn new(of: LabelsStatus) -> Self {
        let labeler = of.labeler.as_ref();
        Self {
            verify_signatures: labeler.map(|labeler| labeler.verify),
            seq: labeler.map(|labeler| labeler.position.seq),
            era: labeler.map(|labeler| labeler.position.era),
            saved_at: labeler.and_then(|labeler| time(labeler.saved_at)),
            saved_seconds_ago: labeler.map(|labeler| seconds(labeler.saved_us_ago)),
            labeler: of.labeler.map(|labeler| labeler.labeler),
            in_effect: of.in_effect,
            not_verified: of.not_verified,
            taken_down: of.taken_down,
            answered: false,
            reason: Some("nobody runs the labeler".to_owned()),
            connected: None,
            last_label_at: None,
            last_check_at: None,
            position_refused: None,
        }
    }

    /// Takes what the holder told, or why it did not.
    pub(super) fn take(&mut self, told: Result<Hearing, String>) {
        let told = match told {
            Ok(told) => told,
            Err(reason) => return self.reason = Some(reason),
        };
        (self.answered, self.reason) = (true, None);
        self.connected = Some(told.connected);
        self.last_label_at = told.last_label_at;
        self.last_check_at = told.last_check_at;
        self.position_refused = Some(told.position_refused);
    }

    /// Takes what the same holder told for an earlier report.
    pub(super) fn as_told(&mut self, earlier: &Labels) {
        (self.answered, self.reason) = (earlier.answered, earlier.reason.clone());
        (self.connected, self.position_refused) = (earlier.connected, earlier.position_refused);
        self.last_label_at.clone_from(&earlier.last_label_at);
        self.last_check_at.clone_from(&earlier.last_check_at);
    }
}

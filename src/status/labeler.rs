//! `/labeler`: how this instance stands with the labeler, for the others on its machine that show it.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};

use super::{NO_STORE, Shown, report};
use crate::labels;

/// The answer. Only from the instance that has the lease does it say something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hearing {
    /// Whose word it is; null until it is registered.
    pub incarnation: Option<String>,
    /// Whether it is connected to the labeler.
    pub connected: bool,
    /// When the stream last brought a label (RFC 3339, UTC); null: not since the worker began.
    pub last_label_at: Option<String>,
    /// When the labeler's list was last read.
    pub last_check_at: Option<String>,
    /// Whether the labeler refuses our position as one that it has not come to.
    pub position_refused: bool,
}

pub(super) async fn labeler(State(shown): State<Shown>) -> impl IntoResponse {
    let labels::Heard { is_connected, label_at, checked_at, position_refused } = labels::heard();
    let hearing = Hearing {
        incarnation: shown.instance.borrow().incarnation.map(|id| id.to_string()),
        connected: is_connected,
        last_label_at: label_at.and_then(report::time),
        last_check_at: checked_at.and_then(report::time),
        position_refused,
    };
    ([NO_STORE], Json(hearing))
}

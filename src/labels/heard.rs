//! How this process stands with the labeler, for whoever shows it. Of the process, as metrics are: it runs one labeler's
//! worker at most.

use std::sync::{Mutex, PoisonError};

use crate::atproto::Micros;

/// How this process stands with the labeler. Nothing, where it does not run the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Whether it is connected.
    pub is_connected: bool,
    /// When the stream last brought a label.
    pub label_at: Option<Micros>,
    /// When the labeler's list was last read.
    pub checked_at: Option<Micros>,
    /// Whether the labeler refuses our position.
    pub position_refused: bool,
}

static HEARD: Mutex<Heard> =
    Mutex::new(Heard { is_connected: false, label_at: None, checked_at: None, position_refused: false });

/// How it stands now.
pub fn heard() -> Heard {
    *HEARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a change.
pub(super) fn note(change: impl FnOnce(&mut Heard)) {
    change(&mut HEARD.lock().unwrap_or_else(PoisonError::into_inner));
}

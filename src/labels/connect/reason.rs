//! Why a connection to the labeler ended.

use tokio_tungstenite::tungstenite::error::{Error as WsError, ProtocolError};

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(in crate::labels) enum Reason {
    #[error("closed by the labeler, code {0:?}")]
    Closed(Option<u16>),
    #[error("cut without a close frame: {0}")]
    Cut(#[source] WsError),
    #[error("protocol violated: {0}")]
    Violation(#[source] WsError),
    #[error("a ping was not answered")]
    Silent,
    #[error("bad framing: {0}")]
    BadMessage(String),
    #[error("the labeler ends the stream: {0}")]
    Error(String),
    #[error("the labeler has not come to our position: {0}")]
    FutureCursor(String),
    #[error("its list had labels that the stream left out")]
    Incomplete,
    #[error("the labeler has another key, so labels that were not good are heard again")]
    OtherKey,
}

impl Reason {
    /// A word for a metric's label.
    pub(in crate::labels) fn kind(&self) -> &'static str {
        match self {
            Self::Closed(_) => "closed",
            Self::Cut(_) => "cut",
            Self::Violation(_) => "violation",
            Self::Silent => "silent",
            Self::BadMessage(_) => "bad_message",
            Self::Error(_) => "error_frame",
            Self::FutureCursor(_) => "future_cursor",
            Self::Incomplete => "incomplete",
            Self::OtherKey => "other_key",
        }
    }

    /// Whether it was our own wish.
    pub(in crate::labels) fn is_wanted(&self) -> bool {
        matches!(self, Self::Incomplete | Self::OtherKey)
    }

    pub(super) fn of(error: WsError) -> Self {
        match error {
            WsError::ConnectionClosed | WsError::AlreadyClosed => Self::Closed(None),
            WsError::Io(_) | WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                Self::Cut(error)
            }
            _ => Self::Violation(error),
        }
    }
}

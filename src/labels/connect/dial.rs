//! One attempt to connect to the labeler.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::error::Error as WsError;
use tokio_tungstenite::tungstenite::http::Response;
use tokio_tungstenite::tungstenite::http::header::CONTENT_TYPE;

use crate::atproto::guard::{GuardError, Guarded};
use crate::atproto::socket::{self, Socket};
use crate::labels::decode::cleaned;

/// What is asked for.
const METHOD: &str = "com.atproto.label.subscribeLabels";

/// The handshake, once the connection stands. At half, a labeler that looks up much before it answers is not reached; at
/// double, one that hangs keeps us waiting for as long.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(in crate::labels) enum DialError {
    #[error("{0}")]
    Guard(#[from] GuardError),
    #[error("shake hands: {0}")]
    Handshake(String),
    #[error("{0}")]
    Refused(Answer),
}

/// What a server answers that does not switch protocols.
#[derive(Debug, thiserror::Error)]
#[error(
    "the labeler answered {} ({}) instead of switching protocols{}", .status, .kind,
    .said.as_ref().map(|said| format!(": {said}")).unwrap_or_default()
)]
pub(in crate::labels) struct Answer {
    pub(in crate::labels) status: u16,
    /// Of its body.
    kind: String,
    /// Its XRPC error, if it is one.
    said: Option<String>,
    error: Option<String>,
    /// Not to be asked again for so long.
    pub(in crate::labels) retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct XrpcError {
    error: String,
    message: Option<String>,
}

impl DialError {
    /// A word for a metric's label.
    pub(in crate::labels) fn kind(&self) -> &'static str {
        match self {
            Self::Guard(GuardError::TimedOut { .. }) => "timeout",
            Self::Guard(GuardError::Forbidden { .. } | GuardError::BadAddress(_)) => "forbidden",
            Self::Guard(_) => "connect",
            Self::Handshake(_) => "handshake",
            Self::Refused(_) if self.future_cursor().is_some() => "future_cursor",
            Self::Refused(answer) if answer.is_no_stream() => "no_stream",
            Self::Refused(_) => "status",
        }
    }

    /// Whether there is no stream at that address: nothing that another attempt in a minute could find.
    pub(in crate::labels) fn is_no_stream(&self) -> bool {
        match self {
            Self::Refused(answer) => self.future_cursor().is_none() && answer.is_no_stream(),
            Self::Guard(error) => !error.is_temporary(),
            Self::Handshake(_) => false,
        }
    }

    /// What the labeler said if it has not come to our position yet.
    pub(in crate::labels) fn future_cursor(&self) -> Option<String> {
        match self {
            Self::Refused(Answer { error: Some(error), said, .. }) if error == "FutureCursor" => {
                Some(said.clone().unwrap_or_default())
            }
            _ => None,
        }
    }
}

impl Answer {
    fn of(response: &Response<Option<Vec<u8>>>) -> Self {
        let body = response.body().as_deref().unwrap_or_default();
        let error: Option<XrpcError> = serde_json::from_slice(body).ok();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let said = |of: &XrpcError| {
            cleaned(&format!("{}: {}", of.error, of.message.as_deref().unwrap_or("no message")))
        };
        Self {
            status: response.status().as_u16(),
            kind: cleaned(kind.unwrap_or("no type")),
            said: error.as_ref().map(said),
            error: error.map(|of| of.error),
            retry_after: socket::retry_after(response),
        }
    }

    /// A page, a redirect, or no such method: a proxy that does not pass the upgrade on answers so. 408, 425, 426 and 429 may
    /// well be otherwise in a minute, and so may a server in trouble.
    fn is_no_stream(&self) -> bool {
        !matches!(self.status, 408 | 425 | 426 | 429 | 500 | 502..=599)
    }
}

/// Asks the labeler at `endpoint` for labels after number `cursor`. Cancel-safe.
pub(in crate::labels) async fn dial(
    client: &Guarded,
    endpoint: &str,
    cursor: i64,
    user_agent: &str,
    bytes_max: usize,
) -> Result<Socket, DialError> {
    let url = format!("{endpoint}/xrpc/{METHOD}?cursor={cursor}");
    let stream = client.dial(&url).await?;
    // The scheme is the library's word for what already stands.
    let ws = url.replacen("http", "ws", 1);
    let shaken = timeout(HANDSHAKE_WITHIN, socket::shake(&ws, user_agent, bytes_max, stream)).await;
    match shaken {
        Ok(Ok(socket)) => Ok(socket),
        Ok(Err(WsError::Http(answer))) => Err(DialError::Refused(Answer::of(&answer))),
        Ok(Err(error)) => Err(DialError::Handshake(error.to_string())),
        Err(_) => Err(DialError::Handshake(format!("no answer within {HANDSHAKE_WITHIN:?}"))),
    }
}

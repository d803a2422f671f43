//! One connection to the labeler, from the handshake to its end, and when to try the next. Owns sockets, liveness and waits;
//! must not know what a message says.

mod dial;
mod waits;

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::error::{Error as WsError, ProtocolError};
use tokio_tungstenite::tungstenite::{Bytes, Message};

pub(super) use dial::{DialError, dial};
pub use waits::Waits;
pub(super) use waits::{Outcome, Refusals, Turn};

use crate::atproto::socket::Socket;
use crate::atproto::socket::liveness::{Liveness, Verdict};

/// How long a leaving client waits for its close frame to be written. It is a courtesy: half or double, nothing breaks.
const CLOSE_WITHIN: Duration = Duration::from_millis(100);

/// What a connection brings.
#[derive(Debug)]
pub(super) enum Heard {
    /// A message.
    Message(Bytes),
    /// A message over the limit, thrown away.
    TooLong,
    /// It is over.
    Ended(Reason),
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
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
    pub(super) fn kind(&self) -> &'static str {
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
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self, Self::Incomplete | Self::OtherKey)
    }

    fn of(error: WsError) -> Self {
        match error {
            WsError::ConnectionClosed | WsError::AlreadyClosed => Self::Closed(None),
            WsError::Io(_) | WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                Self::Cut(error)
            }
            _ => Self::Violation(error),
        }
    }
}

/// One connection.
pub(super) struct Connection {
    socket: Socket,
    live: Liveness,
    ticks: Interval,
    ping_within: Duration,
    opened: Instant,
}

impl Connection {
    /// One whose handshake is done. It may show no sign of life for `idle_limit`.
    pub(super) fn new(socket: Socket, idle_limit: Duration) -> Self {
        let now = Instant::now();
        // There is no other host to try, and a labeler may have nothing to say for months.
        let live = Liveness::new(idle_limit, None, now);
        let mut ticks = interval(live.decide_every());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { socket, live, ticks, ping_within: idle_limit / 2, opened: now }
    }

    /// For how long it has stood.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// What comes next. Cancel-safe.
    pub(super) async fn next(&mut self) -> Heard {
        loop {
            let end = tokio::select! {
                biased;
                _ = self.ticks.tick() => self.check().await,
                message = self.socket.next() => match message {
                    Some(Ok(Message::Binary(bytes))) => {
                        self.live.event(Instant::now());
                        return if bytes.is_empty() { Heard::TooLong } else { Heard::Message(bytes) };
                    }
                    Some(Ok(Message::Close(frame))) => Some(Reason::Closed(frame.map(|frame| frame.code.into()))),
                    // The library answers pings by itself, at the next read.
                    Some(Ok(_)) => {
                        self.live.heard(Instant::now());
                        None
                    }
                    Some(Err(error)) => Some(Reason::of(error)),
                    None => Some(Reason::Closed(None)),
                },
            };
            if let Some(reason) = end {
                return Heard::Ended(reason);
            }
        }
    }

    /// The writing kept us from reading for so long: that is no silence.
    pub(super) fn blocked(&mut self, span: Duration) {
        self.live.blocked(span);
    }

    /// Takes leave.
    pub(super) async fn close(mut self) {
        let _ = timeout(CLOSE_WITHIN, self.socket.close(None)).await;
    }

    async fn check(&mut self) -> Option<Reason> {
        let now = Instant::now();
        match self.live.decide(now) {
            Verdict::Keep | Verdict::TryAnother => None,
            Verdict::NextHost(_) => Some(Reason::Silent),
            Verdict::Ping => {
                self.live.pinged(now);
                let ping = self.socket.send(Message::Ping(Bytes::new()));
                match timeout(self.ping_within, ping).await {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(Reason::of(error)),
                    Err(_) => Some(Reason::Silent),
                }
            }
        }
    }
}

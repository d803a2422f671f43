//! The life of one connection: frames into the queue, pings out, until something ends it.

use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::error::{Error as WsError, ProtocolError};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;

use super::address::Host;
use super::dial::Socket;
use super::liveness::{Dead, Liveness, Verdict};
use super::meters::Meters;
use super::queue::{Frame, FrameSender};

/// How long a leaving client waits for its close frame to be written. It is a courtesy: half or double, nothing breaks.
const CLOSE_WITHIN: Duration = Duration::from_millis(100);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
    #[error("told to stop")]
    Stopped,
    #[error("nobody takes the frames any more")]
    ConsumerGone,
    #[error("closed by the host, code {0:?}")]
    Closed(Option<u16>),
    #[error("cut without a close frame: {0}")]
    Cut(#[source] WsError),
    #[error("protocol violated: {0}")]
    Violation(#[source] WsError),
    #[error("nothing came after the handshake")]
    NothingEver,
    #[error("a ping was not answered")]
    NoAnswer,
    #[error("a ping could not be written")]
    PingStuck,
    #[error("alive but without events, another host's turn")]
    Stale,
}

impl Reason {
    /// A word for a metric's label.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::ConsumerGone => "consumer_gone",
            Self::Closed(Some(1000)) => "close_1000",
            Self::Closed(Some(1001)) => "close_1001",
            Self::Closed(Some(1008)) => "close_1008",
            Self::Closed(Some(1013)) => "close_1013",
            Self::Closed(_) => "close_other",
            Self::Cut(_) => "cut",
            Self::Violation(_) => "violation",
            Self::NothingEver => "nothing_ever",
            Self::NoAnswer => "no_answer",
            Self::PingStuck => "ping_stuck",
            Self::Stale => "stale",
        }
    }

    /// Whether it ends the whole stream, not this connection only.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Stopped | Self::ConsumerGone)
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
pub(super) struct Session<'a> {
    pub(super) socket: Socket,
    pub(super) host: &'a Host,
    pub(super) out: &'a FrameSender,
    pub(super) meters: &'a Meters,
    pub(super) stop: &'a CancellationToken,
    pub(super) live: Liveness,
    /// Bounds the writing of a ping.
    pub(super) ping_within: Duration,
}

/// What a connection came to.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) reason: Reason,
    /// From the handshake to the last event, if there was one.
    pub(super) delivered_for: Option<Duration>,
}

impl Session<'_> {
    /// Runs until the connection ends; the socket is closed on return. Not cancel-safe: stop it by its token.
    pub(super) async fn run(mut self) -> Ended {
        let opened = Instant::now();
        let mut last_event = None;
        let mut ticks = interval(self.live.decide_every());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopped = pin!(self.stop.cancelled());
        let reason = loop {
            let end = tokio::select! {
                biased;
                () = &mut stopped => Some(Reason::Stopped),
                _ = ticks.tick() => self.check().await,
                message = self.socket.next() => match message {
                    Some(Ok(Message::Binary(bytes))) => {
                        last_event = Some(Instant::now());
                        self.deliver(bytes).await
                    }
                    other => self.control(other),
                },
            };
            if let Some(reason) = end {
                break reason;
            }
        };
        if reason.is_final() || matches!(reason, Reason::Stale) {
            let _ = timeout(CLOSE_WITHIN, self.socket.close(None)).await;
        }
        Ended { reason, delivered_for: last_event.map(|at| at - opened) }
    }

    /// Puts a message into the queue, and waits for room if need be. Texts come as binary: the sieve's work.
    async fn deliver(&mut self, bytes: Bytes) -> Option<Reason> {
        let now = Instant::now();
        self.live.event(now);
        if bytes.is_empty() {
            tracing::debug!(host = %self.host.key(), "skipped a message over the size limit");
            self.meters.skipped.increment(1);
            return None;
        }
        self.meters.frames.increment(1);
        self.meters.bytes.increment(bytes.len() as u64);
        let frame = Frame { host: self.host.key().clone(), received_us: unix_micros(), bytes, room: None };
        let sent = tokio::select! {
            biased;
            sent = self.out.send(frame) => sent,
            () = self.stop.cancelled() => return Some(Reason::Stopped),
        };
        self.live.blocked(now.elapsed());
        sent.err().map(|_| Reason::ConsumerGone)
    }

    /// Everything that is no event.
    fn control(&mut self, message: Option<Result<Message, WsError>>) -> Option<Reason> {
        match message {
            None => Some(Reason::Closed(None)),
            Some(Err(e)) => Some(Reason::of(e)),
            Some(Ok(Message::Close(frame))) => Some(Reason::Closed(frame.map(|frame| frame.code.into()))),
            // The library answers pings by itself, at the next read.
            Some(Ok(_)) => {
                self.live.heard(Instant::now());
                None
            }
        }
    }

    /// Asks whether the connection is still worth keeping.
    async fn check(&mut self) -> Option<Reason> {
        let now = Instant::now();
        self.meters.stale.set(f64::from(u8::from(self.live.is_stale(now))));
        if self.out.is_gone() {
            return Some(Reason::ConsumerGone);
        }
        match self.live.decide(now) {
            Verdict::Keep => None,
            Verdict::Ping => self.ping(now).await,
            Verdict::NextHost(Dead::NothingEver) => Some(Reason::NothingEver),
            Verdict::NextHost(Dead::NoAnswer) => Some(Reason::NoAnswer),
            Verdict::TryAnother => Some(Reason::Stale),
        }
    }

    async fn ping(&mut self, now: Instant) -> Option<Reason> {
        self.live.pinged(now);
        let written = tokio::select! {
            written = timeout(self.ping_within, self.socket.send(Message::Ping(Bytes::new()))) => written,
            () = self.stop.cancelled() => return Some(Reason::Stopped),
        };
        match written {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(Reason::of(e)),
            Err(_) => Some(Reason::PingStuck),
        }
    }
}

fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

//! The life of one connection: frames into the queue, pings out, until something ends it.

use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::error::{Error as WsError, ProtocolError};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;

use super::address::Host;
use super::inflate::{Inflate, Undecodable};
use super::meters::Meters;
use super::opening::{Heard, Opening, Refusal};
use super::queue::{Frame, FrameSender, Gap, Gone};
use super::resume::GapReason;
use crate::atproto::socket::Socket;
use crate::atproto::socket::liveness::{Dead, Liveness, Verdict};

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
    #[error("refused by the host: {}", .0.said)]
    Refused(Refusal),
    #[error("{0}")]
    Undecodable(Undecodable),
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
            Self::Refused(refusal) => refusal.why.kind(),
            Self::Undecodable(_) => "undecodable",
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
    pub(super) inflate: Inflate,
    pub(super) opening: Opening,
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
                        let at = Instant::now();
                        let heard = self.hear(bytes).await;
                        if matches!(heard, Ok(true)) {
                            last_event = Some(at);
                        }
                        heard.err()
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

    /// Takes a message, compressed or not. Texts come as binary: the sieve's work. Whether it was an event.
    async fn hear(&mut self, bytes: Bytes) -> Result<bool, Reason> {
        let bytes = self.inflate.message(bytes).map_err(|error| {
            self.meters.undecodable(error.kind());
            Reason::Undecodable(error)
        })?;
        if bytes.is_empty() {
            self.live.event(Instant::now());
            tracing::debug!(host = %self.host.key(), "skipped a message over the size limit");
            self.meters.skipped.increment(1);
            return Ok(true);
        }
        let is_event = match self.opening.hear(&bytes) {
            Heard::Message => true,
            Heard::Notice => false,
            Heard::After(reason) => {
                self.gap(reason).await?;
                true
            }
            Heard::Repeated => {
                self.live.event(Instant::now());
                return Ok(true);
            }
            Heard::Refused(refusal) => return Err(Reason::Refused(refusal)),
        };
        self.deliver(bytes, is_event).await?;
        Ok(is_event)
    }

    /// Puts a message into the queue, and waits for room if need be.
    async fn deliver(&mut self, bytes: Bytes, is_event: bool) -> Result<(), Reason> {
        let now = Instant::now();
        if is_event {
            self.live.event(now);
            self.meters.position_refused.set(0.0);
        } else {
            self.live.heard(now);
        }
        self.meters.frames.increment(1);
        self.meters.bytes.increment(bytes.len() as u64);
        let (wire, host) = (self.host.wire(), self.host.key().clone());
        let frame = Frame { wire, host, received_us: unix_micros(), bytes, room: None };
        let sent = tokio::select! {
            biased;
            sent = self.out.send(frame) => sent,
            () = self.stop.cancelled() => return Err(Reason::Stopped),
        };
        self.live.blocked(now.elapsed());
        sent.map_err(|Gone| Reason::ConsumerGone)
    }

    /// Tells the writer that something was left out before the message that comes next.
    async fn gap(&mut self, reason: GapReason) -> Result<(), Reason> {
        let (wire, host) = (self.host.wire(), self.host.key().clone());
        tracing::warn!(host = %host, reason = reason.kind(),
            "the host does not have what followed the saved position; all repositories are to be read again");
        self.meters.gap(reason.kind());
        let gap = Gap { wire, host, reason, forget: false };
        tokio::select! {
            biased;
            sent = self.out.gap(gap) => sent.map_err(|Gone| Reason::ConsumerGone),
            () = self.stop.cancelled() => Err(Reason::Stopped),
        }
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

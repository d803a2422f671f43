//! One connection to the labeler, from the handshake to its end, and when to try the next. Owns sockets, liveness and waits;
//! must not know what a message says.

mod dial;
mod reason;
mod waits;

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::{Bytes, Message};

pub(super) use dial::{DialError, dial};
pub(super) use reason::Reason;
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

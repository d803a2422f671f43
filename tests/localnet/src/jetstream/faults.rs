//! What can be wrong with a server, apart from its log.

use std::sync::Mutex;

use tokio::sync::watch;

use super::dictionary::{Compressed, V2_DICTIONARY};
use super::v2::FutureCursor;
use crate::lock;

/// How connections are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// As it should be.
    #[default]
    Normal,
    /// Open, but no events and no answer to pings (jetstream-legacy#48).
    Silent,
    /// No events, pings are answered.
    SilentButPongs,
    /// Neither reads nor writes: the client's writes fill the socket (indigo#974). That a client has gone is not
    /// noticed before the mode changes or the connection is cut.
    Frozen,
}

/// What a new connection meets.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// The handshake.
    #[default]
    Open,
    /// TCP is accepted, the request never answered.
    NoAnswer,
    /// TCP is accepted and closed.
    Slam,
    /// 101, then not a byte, not even a pong (simonw/tools#308).
    Mute,
    /// This status with a short text.
    Status(u16),
    /// This status with a page of HTML, 200 as well (a proxy without upgrade).
    Html(u16),
    /// This status with an XRPC error of this name.
    Xrpc(u16, String),
    /// 429 with `Retry-After`, in seconds.
    RetryAfter(u32),
}

/// What happens to a connection after a number of events on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The TCP connection is dropped (jetstream-legacy#27).
    CutAfter(u64),
    /// It goes on in `Mode::Silent`.
    SilentAfter(u64),
}

/// A frame that no good server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A text frame with these bytes, UTF-8 or not.
    Text(Vec<u8>),
    /// A binary frame.
    Binary(Vec<u8>),
    /// The head of a text frame with these bytes, half of them, then the end of the TCP connection.
    Partial(Vec<u8>),
    /// A close frame with this code; the connection stays open until the client ends it.
    Close(u16),
    /// These bytes on the TCP connection, framed or not.
    Bytes(Vec<u8>),
}

/// What is wrong with the second wire alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfV2 {
    pub(super) future_cursor: FutureCursor,
    /// The dictionary that is compressed with; others are retired.
    pub(super) dictionary: u32,
}

impl Default for OfV2 {
    fn default() -> Self {
        Self { future_cursor: FutureCursor::default(), dictionary: V2_DICTIONARY }
    }
}

#[derive(Debug)]
pub(super) struct Faults {
    of_v2: Mutex<OfV2>,
    compressed: Mutex<Compressed>,
    mode: watch::Sender<Mode>,
    cuts: watch::Sender<u64>,
    door: Mutex<(Door, usize)>,
    limit: Mutex<Option<Limit>>,
}

impl Default for Faults {
    fn default() -> Self {
        let (mode, cuts) = (watch::Sender::new(Mode::Normal), watch::Sender::new(0));
        Self {
            of_v2: Mutex::default(),
            compressed: Mutex::default(),
            mode,
            cuts,
            door: Mutex::default(),
            limit: Mutex::default(),
        }
    }
}

impl Faults {
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }

    pub(super) fn set_mode(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    pub(super) fn mode(&self) -> watch::Receiver<Mode> {
        self.mode.subscribe()
    }

    pub(super) fn set_limit(&self, limit: Option<Limit>) {
        *lock(&self.limit) = limit;
    }

    pub(super) fn of_v2(&self) -> OfV2 {
        *lock(&self.of_v2)
    }

    pub(super) fn set_of_v2(&self, change: impl FnOnce(&mut OfV2)) {
        change(&mut lock(&self.of_v2));
    }

    pub(super) fn compressed(&self) -> Compressed {
        *lock(&self.compressed)
    }

    pub(super) fn set_compressed(&self, how: Compressed) {
        *lock(&self.compressed) = how;
    }

    pub(super) fn limit(&self) -> Option<Limit> {
        *lock(&self.limit)
    }

    pub(super) fn set_door(&self, door: Door, times: usize) {
        *lock(&self.door) = (door, times);
    }

    /// Whether the next connection is slammed; counts it if so.
    pub(super) fn slams(&self) -> bool {
        let slams = {
            let door = lock(&self.door);
            door.1 > 0 && door.0 == Door::Slam
        };
        slams && self.enter() == Door::Slam
    }

    /// What this connection meets; counts it.
    pub(super) fn enter(&self) -> Door {
        let mut door = lock(&self.door);
        if door.1 == 0 {
            return Door::Open;
        }
        if door.1 != usize::MAX {
            door.1 -= 1;
        }
        door.0.clone()
    }
}

//! A Jetstream server that can misbehave on command. It speaks both wires at one address, as the real ones do.
//!
//! First wire (bluesky-social/jetstream-legacy): `GET /subscribe`, one JSON event per text frame, `cursor` a time and
//! inclusive, identity and account events regardless of `wantedCollections`. Second wire (bluesky-social/jetstream):
//! `/xrpc/network.bsky.jetstream.subscribeEvents`, the same events in an envelope with a number, which is the cursor, and
//! `#sync` and `#info` besides. Both compress with a dictionary if asked to.
//! Subscribers pull from one bounded log; one that falls out of it is cut without a close frame, as the real server
//! does with a full outbox.

mod dictionary;
mod event;
mod faults;
pub(crate) mod frame;
mod handshake;
mod log;
mod options;
mod subscriber;
mod v2;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

pub use dictionary::{Compressed, V1_DICTIONARY, V2_DICTIONARY, dictionary};
pub use event::{Account, Commit, Event, Identity, Sync};
pub use faults::{Door, Limit, Mode, Raw};
pub use v2::FutureCursor;

use crate::http::Listener;
use crate::lock;
use faults::Faults;
use log::Log;

/// Query strings remembered for tests; the oldest go first.
const QUERIES_MAX: usize = 10_000;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct JetstreamOptions {
    /// 0: any free port.
    pub port: u16,
    /// Events kept for replay.
    pub retain: usize,
    /// `time_us` is shown up to so many microseconds early; 33,000 was seen in production.
    pub jitter_us: u64,
    /// The server's own pings; v2 hosts send one each 30 s.
    pub ping_every: Duration,
    /// For jitter and reordering.
    pub seed: u64,
}

impl Default for JetstreamOptions {
    fn default() -> Self {
        Self { port: 0, retain: 100_000, jitter_us: 0, ping_every: Duration::from_secs(30), seed: 1 }
    }
}

/// What a server has seen and done since it started.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Stats {
    /// TCP connections accepted.
    pub connects: u64,
    /// WebSocket handshakes answered with 101.
    pub handshakes: u64,
    /// Subscribers now.
    pub subscribers: usize,
    /// Pings received from clients, answered or not.
    pub pings: u64,
    /// Event frames written, replays included; raw frames are not counted.
    pub events_sent: u64,
    /// `options_update` messages accepted.
    pub options_updates: u64,
    /// Requests for a dictionary of the second wire.
    pub dictionaries: u64,
    /// The raw query string of each request for a stream, on either wire, oldest first.
    pub queries: Vec<String>,
}

impl Stats {
    /// The cursors asked for, oldest first; None where a request had none.
    pub fn cursors(&self) -> Vec<Option<i64>> {
        let of = |query: &String| {
            let mut pairs = query.split('&').filter_map(|p| p.split_once('='));
            pairs.find(|(name, _)| *name == "cursor").and_then(|(_, value)| value.parse().ok())
        };
        self.queries.iter().map(of).collect()
    }
}

/// A running server. Dropping it ends its tasks and connections.
#[derive(Debug)]
pub struct Jetstream {
    shared: Arc<Shared>,
    listener: Listener,
}

/// What the connections of a server have in common.
#[derive(Debug)]
struct Shared {
    ping_every: Duration,
    log: Log,
    faults: Faults,
    stats: Mutex<Stats>,
}

impl Jetstream {
    /// Starts a server on 127.0.0.1.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn start(options: JetstreamOptions) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            ping_every: options.ping_every,
            log: Log::new(options.retain, options.jitter_us, options.seed),
            faults: Faults::default(),
            stats: Mutex::default(),
        });
        let for_connections = Arc::clone(&shared);
        let serve = move |stream| handshake::serve(stream, Arc::clone(&for_connections));
        let listener = Listener::start(options.port, serve).await?;
        Ok(Self { shared, listener })
    }

    /// `ws://127.0.0.1:PORT/subscribe`
    pub fn url(&self) -> String {
        format!("ws://{}/subscribe", self.address())
    }

    /// The same server's second wire.
    pub fn url_v2(&self) -> String {
        format!("ws://{}/xrpc{}", self.address(), v2::SUBSCRIBE)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Publishes one event and returns the `time_us` it was given.
    pub fn publish(&self, did: &str, event: &Event) -> i64 {
        self.shared.log.publish(did, event)
    }

    /// Publishes a ready line with its own `time_us` (see [`crate::events`]), byte for byte.
    ///
    /// # Errors
    /// When the line is not an event; [`Jetstream::send_raw`] sends such.
    pub fn publish_line(&self, line: Vec<u8>) -> serde_json::Result<i64> {
        self.shared.log.publish_line(line)
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> Stats {
        lock(&self.shared.stats).clone()
    }

    /// The newest `time_us` that was published, 0 at first.
    pub fn newest_us(&self) -> i64 {
        self.shared.log.newest_us()
    }

    /// The number that the next event gets on the second wire.
    pub fn next_seq(&self) -> u64 {
        self.shared.log.next_seq()
    }

    /// Every commit event published, in order, withheld ones included: the source of truth. The newest million.
    pub fn published_commits(&self) -> Vec<Value> {
        let lines = self.shared.log.truth();
        lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Waits until `count` subscribers are connected; false if that takes longer than `limit`.
    pub async fn subscribed(&self, count: usize, limit: Duration) -> bool {
        crate::until(limit, || lock(&self.shared.stats).subscribers == count).await
    }

    /// Waits until every subscriber was sent all there is; false if that takes longer than `limit`.
    pub async fn drained(&self, limit: Duration) -> bool {
        crate::until(limit, || self.shared.log.backlog() == 0).await
    }

    /// Events that the slowest subscriber has yet to be sent. A generator that waits for it stays bounded.
    pub fn backlog(&self) -> u64 {
        self.shared.log.backlog()
    }
}

/// Faults. Each holds until it is changed back.
impl Jetstream {
    /// Drops the TCP connection of every subscriber, without a close frame.
    pub fn cut(&self) {
        self.shared.faults.cut();
    }

    /// How the server treats its connections, present and future.
    pub fn set_mode(&self, mode: Mode) {
        self.shared.faults.set_mode(mode);
    }

    /// What happens to a connection after it was sent so many events.
    pub fn set_limit(&self, limit: Option<Limit>) {
        self.shared.faults.set_limit(limit);
    }

    /// What the next `times` connections meet instead of a handshake; `usize::MAX`: all of them.
    pub fn set_door(&self, door: Door, times: usize) {
        self.shared.faults.set_door(door, times);
    }

    /// From now on events leave shuffled within windows of so many; below 2: ends it and lets go of the rest.
    pub fn reorder(&self, window: usize) {
        self.shared.log.reorder(window);
    }

    /// Sends the last `count` events once more, with their old `time_us`.
    pub fn replay_last(&self, count: usize) {
        self.shared.log.replay_last(count);
    }

    /// Sends everything of the last `span` once more.
    pub fn replay_since(&self, span: Duration) {
        self.shared.log.replay_since(span);
    }

    /// Starts cursors so much further back than asked (jetstream#343: up to an hour).
    pub fn rewind_cursors(&self, span: Duration) {
        self.shared.log.rewind_cursors(span);
    }

    /// Forgets all but the newest `keep` events, so that older cursors start at the oldest kept.
    pub fn forget(&self, keep: usize) {
        self.shared.log.forget(keep);
    }

    /// While on, commits are lost and only identity and account events are sent.
    pub fn withhold_commits(&self, on: bool) {
        self.shared.log.withhold_commits(on);
    }

    /// Loses its log and begins to count anew on the second wire (pds#341).
    pub fn reset_sequencer(&self) {
        self.shared.log.reset();
    }

    /// What it does about cursors that it has not come to yet, on the second wire.
    pub fn set_future_cursor(&self, what: FutureCursor) {
        self.shared.faults.set_of_v2(|of_v2| of_v2.future_cursor = what);
    }

    /// Replaces the dictionary of the second wire: connections that come with the old one are refused.
    pub fn set_dictionary(&self, id: u32) {
        self.shared.faults.set_of_v2(|of_v2| of_v2.dictionary = id);
    }

    /// How frames leave that are to be compressed, on either wire.
    pub fn set_compressed(&self, how: Compressed) {
        self.shared.faults.set_compressed(how);
    }

    /// Sends an `#info` to all present subscribers of the second wire, in order with the events.
    pub fn send_info(&self, name: &str, message: &str) {
        self.shared.log.send_notice(v2::Notice { name: name.into(), message: message.into(), ends: false });
    }

    /// Sends an error frame to all present subscribers of the second wire, and closes them.
    pub fn send_error(&self, name: &str, message: &str) {
        self.shared.log.send_notice(v2::Notice { name: name.into(), message: message.into(), ends: true });
    }

    /// Sends a raw frame to all present subscribers, in order with the events.
    pub fn send_raw(&self, raw: Raw) {
        self.shared.log.send_raw(raw);
    }
}

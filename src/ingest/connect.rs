//! Keeps one connection to a host of the stream and feeds what it sends into a bounded queue. Owns hosts, sockets,
//! liveness and compression; must not know what a message says, but for where the host began and why it ends, nor the
//! database: positions are asked of a [`CursorSource`].
//!
//! A connection walks: [`Host`] (whose turn) -> resume (from where) -> compression (with what) -> dial -> session (inflate,
//! opening, queue) -> after (what its end means) -> rotation (who next, when).

mod address;
mod after;
mod compression;
mod dial;
mod hosts;
mod inflate;
mod meters;
mod opening;
mod queue;
mod resume;
mod session;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub use address::{BadAddress, Host};
pub use compression::Compression;
pub use hosts::Backoff;
pub use inflate::{DICTIONARY_BYTES_MAX, Dictionary, NoDictionary};
pub use meters::describe_metrics;
pub use queue::{Delivery, Frame, FrameReceiver, FrameSender, Gap, QUEUE_BYTES, QUEUE_FRAMES, queue};
pub use resume::{GapReason, Saved};

use compression::Dictionaries;
use hosts::{Outcome, Rotation};
use inflate::Inflate;
use meters::Meters;
use opening::Opening;
use resume::{Plan, Resume};
use session::{Ended, Reason, Session};

use crate::atproto::socket::Socket;
use crate::atproto::socket::liveness::Liveness;

/// The default of [`Config::message_bytes_max`]. A record is at most 1 MB of CBOR; its JSON may be several times that.
/// Half might lose a real record; double doubles what a hostile host can make us hold.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// The default of [`Config::connect_timeout`]. Half fails over slow links; double doubles the gap at a dead host.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How to follow the stream.
#[derive(Clone)]
pub struct Config {
    /// In the order to try them; at least one.
    pub hosts: Vec<Host>,
    /// NSIDs to ask for; at most 100, the wire's limit.
    pub collections: Vec<String>,
    /// How far before the saved position to resume on the same host.
    pub rewind: Duration,
    /// How long a connection may show no sign of life, or no event.
    pub idle_limit: Duration,
    /// Bounds name, TCP, TLS and handshake together.
    pub connect_timeout: Duration,
    /// Messages over this are skipped and counted.
    pub message_bytes_max: usize,
    /// The waits between failures.
    pub backoff: Backoff,
    /// What hosts are told about us.
    pub user_agent: String,
    /// What hosts may be asked to compress with.
    pub compression: Compression,
}

/// Where the saved positions are: the database, asked anew before each connect, because what was read and not
/// committed has to be read again.
pub trait CursorSource: Send + Sync {
    /// What a reading fails with. It is logged, and the reading tried again.
    type Error: Display + Send;

    /// Every saved position, of any host on any wire. Has to end by itself in bounded time: it is never dropped.
    fn saved(&self) -> impl Future<Output = Result<Vec<Saved>, Self::Error>> + Send;
}

/// Follows the stream into `out` until `stop` is cancelled or the receiver is dropped. Every other ending is of one
/// connection: it is logged with its host and reason, counted, and followed by the next connection.
///
/// Not cancel-safe: stop it by its token, which takes effect at once, save for a reading of positions under way.
///
/// # Panics
/// If `config` names no host.
pub async fn follow<C: CursorSource>(config: Config, cursors: C, out: FrameSender, stop: CancellationToken) {
    let rotation = Rotation::new(config.hosts.len(), config.backoff);
    let another_from = (config.hosts.len() > 1).then(Instant::now);
    let tls = dial::tls_config();
    let resume = Resume::new(config.rewind);
    let dictionaries = Dictionaries::new(config.compression.clone());
    let held = vec![None; config.hosts.len()];
    let mut follower =
        Follower { config, cursors, out, stop, tls, rotation, another_from, resume, dictionaries, held };
    let reason = loop {
        let next = match follower.one().await {
            Ok(wait) => follower.pause(wait).await,
            Err(reason) => Err(reason),
        };
        if let Err(reason) = next {
            break reason;
        }
    };
    meters::end(reason.kind());
    tracing::info!(reason = reason.kind(), "stopped following the stream");
}

struct Follower<C> {
    config: Config,
    cursors: C,
    out: FrameSender,
    stop: CancellationToken,
    tls: Arc<ClientConfig>,
    rotation: Rotation,
    /// From when on a stale host may be left for another; `None` if there is only one.
    another_from: Option<Instant>,
    resume: Resume,
    dictionaries: Dictionaries,
    /// Until when each host does not want to be asked.
    held: Vec<Option<Instant>>,
}

impl<C: CursorSource> Follower<C> {
    /// One attempt, and the connection it leads to. Tells how long to wait before the next, or why there is none.
    async fn one(&mut self) -> Result<Duration, Reason> {
        let at = self.rotation.current();
        let outcome = match self.held[at] {
            Some(until) if Instant::now() < until => Outcome::Failed,
            _ => self.attempt(at).await?,
        };
        Ok(self.rotation.ended(outcome, rand::random()))
    }

    async fn attempt(&mut self, at: usize) -> Result<Outcome, Reason> {
        let host = self.config.hosts[at].clone();
        let meters = Meters::of(host.key());
        let saved = self.positions().await?;
        let plan = self.resume.from(&host, &saved);
        let dictionary = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(Reason::Stopped),
            dictionary = self.dictionaries.of(&host) => dictionary,
        };
        let id = dictionary.as_deref().map(Dictionary::id);
        let dialled = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(Reason::Stopped),
            dialled = dial::dial(&host, plan.cursor, id, &self.config, &self.tls) => dialled,
        };
        match dialled {
            Ok(socket) => {
                meters.connect("connected");
                meters.connected.set(1.0);
                tracing::info!(host = %host.key(), wire = host.wire().name(), cursor = plan.cursor.parameter(),
                    compressed = id.is_some(), "connected to the stream");
                if let Some(reason) = plan.gap {
                    self.gap(&host, &meters, reason, false).await?;
                }
                let inflate = Inflate::new(dictionary.as_deref(), self.config.message_bytes_max);
                let ended = self.session(socket, &host, &meters, inflate, &plan).await;
                if ended.reason.is_final() {
                    return Err(ended.reason);
                }
                self.ended(&host, &meters, &plan, &ended).await
            }
            Err(error) => {
                meters.connect(error.kind());
                tracing::warn!(host = %host.key(), reason = error.kind(), %error, "stream host not reached");
                self.not_reached(at, &meters, &plan, id, &error).await?;
                Ok(Outcome::Failed)
            }
        }
    }

    /// The connection's life, and its one line in the log.
    async fn session(
        &mut self,
        socket: Socket,
        host: &Host,
        meters: &Meters,
        inflate: Inflate,
        plan: &Plan,
    ) -> Ended {
        let limit = self.config.idle_limit;
        let live = Liveness::new(limit, self.another_from, Instant::now());
        let opening = Opening::new(host.wire(), plan);
        let (out, stop, ping_within) = (&self.out, &self.stop, limit / 2);
        let session = Session { socket, host, out, meters, stop, live, inflate, opening, ping_within };
        let ended = session.run().await;
        meters.disconnect(ended.reason.kind());
        let (reason, detail) = (ended.reason.kind(), &ended.reason);
        if ended.reason.is_final() {
            tracing::info!(host = %host.key(), reason, "stream connection ended");
        } else {
            tracing::warn!(host = %host.key(), reason, %detail, "stream connection ended");
        }
        ended
    }

    /// The saved positions, asked for until they come: to start without them would leave a hole behind.
    async fn positions(&mut self) -> Result<Vec<Saved>, Reason> {
        let mut failures = 0;
        loop {
            let error = match self.cursors.saved().await {
                Ok(saved) => return Ok(saved),
                Err(error) => error.to_string(),
            };
            failures += 1;
            meters::cursor_failure();
            tracing::warn!(error, "saved stream positions not read");
            let wait = self.config.backoff.wait(failures, rand::random());
            self.pause(wait).await?;
        }
    }

    /// Waits, unless all is over.
    async fn pause(&self, wait: Duration) -> Result<(), Reason> {
        let backoff = meters::backoff();
        backoff.set(wait.as_secs_f64());
        let end = tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Reason::Stopped),
            () = self.out.gone() => Err(Reason::ConsumerGone),
            () = sleep(wait) => Ok(()),
        };
        backoff.set(0.0);
        end
    }
}

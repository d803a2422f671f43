//! The `jetstream` worker: follows the network's event stream and keeps the registry's index.
//!
//! An event walks: [`connect`] -> [`decode`] -> [`project`] -> [`mod@write`], whichever [`wire`] it came by. Beside the stream, [`resolve`] asks who the
//! authors are. The stream never waits for it.

pub mod connect;
pub mod decode;
pub mod known;
pub mod meters;
pub mod project;
pub mod resolve;
pub mod wire;
pub mod write;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leased_actors::lease::{Effects, LeaseName};
use leased_actors::worker::{Context, Worker, WorkerError};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::connect::{CursorSource, QUEUE_BYTES, QUEUE_FRAMES, Saved, follow, queue};
use self::wire::Wire;
use self::write::Writer;
use crate::atproto::identity::Resolver;
use crate::store::{Database, ReadError, StreamCursor};

/// How long the writer may not look up. At half, one long lock of somebody's in the database passes for a hang; at
/// double, a hang costs two minutes.
const PROGRESS_WITHIN: Duration = Duration::from_secs(60);

/// The worker.
pub struct Jetstream {
    /// Where the index is.
    pub database: Database,
    /// How to follow the stream.
    pub follow: connect::Config,
    /// Who knows identities.
    pub resolver: Arc<Resolver>,
}

/// The positions in the database: what was read and not committed is read again.
struct Positions(Database);

impl CursorSource for Positions {
    type Error = ReadError;

    async fn saved(&self) -> Result<Vec<Saved>, ReadError> {
        let cursors = self.0.stream_cursors().await?.into_iter();
        let saved = |cursor: StreamCursor| {
            let wire = Wire::from_name(&cursor.wire)?;
            Some(Saved { wire, host: cursor.host, time_us: cursor.time_us, seq: cursor.seq })
        };
        Ok(cursors.filter_map(saved).collect())
    }
}

#[async_trait]
impl Worker for Jetstream {
    fn name(&self) -> LeaseName {
        "jetstream".parse().expect("the name is good")
    }

    fn effects(&self) -> Effects {
        Effects::Fenced
    }

    /// The writer looks up every few seconds whatever comes, a database that is away included.
    fn progress_within(&self) -> Option<Duration> {
        Some(PROGRESS_WITHIN)
    }

    /// Three tasks: the connection, the writer, the resolver. All end with the first, and all are joined; a dropped
    /// call aborts them, and a transaction under way is carried to its end by the store.
    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        meters::begun();
        let (sender, frames) = queue(QUEUE_FRAMES, QUEUE_BYTES);
        let due = Arc::new(Notify::new());
        let stop = context.stop.child_token();
        let inner = Context { stop: stop.clone(), ..context };
        let mut tasks: JoinSet<Result<(), WorkerError>> = JoinSet::new();

        let (config, positions) = (self.follow.clone(), Positions(self.database.clone()));
        let connection = stop.clone();
        tasks.spawn(async move {
            follow(config, positions, sender, connection).await;
            Ok(())
        });
        let writer = Writer::new(self.database.clone(), inner.clone(), due.clone());
        tasks.spawn(writer.run(frames));
        tasks.spawn(resolve::run(self.database.clone(), self.resolver.clone(), inner, due));

        let mut outcome = Ok(());
        while let Some(ended) = tasks.join_next().await {
            stop.cancel();
            let ended = ended.map_err(WorkerError::from).and_then(|result| result);
            outcome = outcome.and(ended);
        }
        outcome
    }
}

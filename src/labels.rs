//! The `labeler` worker: follows a labeler's stream, and keeps what it says of accounts, repositories, manifests and tags.
//! What is taken down follows from that at the moment of reading, in the store.
//!
//! A label walks: [`connect`] -> `decode` -> `verify` -> `write`. Beside the stream, `reconcile` reads the labeler's list.

mod config;
pub mod connect;
mod decode;
mod follow;
mod heard;
pub mod meters;
mod reconcile;
mod verify;
mod write;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leased_actors::lease::{Effects, LeaseName};
use leased_actors::worker::{Context, Worker, WorkerError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub use self::config::{Config, Named};
pub use self::heard::{Heard, heard};

use self::connect::{Outcome, Turn};
use self::follow::Follower;
use self::reconcile::{Reconciler, Wishes};
use self::verify::Signer;
use self::write::{End, Writer};
use crate::atproto::guard::Guarded;
use crate::atproto::identity::{Labeler, Resolver};
use crate::store::Database;

/// How long it may not tell that it goes on. At half, one long lock of somebody's in the database passes for a hang; at
/// double, a hang costs two minutes.
const PROGRESS_WITHIN: Duration = Duration::from_secs(60);

/// How often it tells so while there is nothing to do.
const BEAT_EVERY: Duration = Duration::from_secs(10);

/// The worker.
pub struct Labels {
    /// Where labels are kept.
    pub database: Database,
    /// How to follow the labeler.
    pub config: Config,
    /// Who knows identities.
    pub resolver: Arc<Resolver>,
    /// Asks the labeler: its address comes from its document.
    pub client: Guarded,
}

#[async_trait]
impl Worker for Labels {
    fn name(&self) -> LeaseName {
        "labeler".parse().expect("the name is good")
    }

    fn effects(&self) -> Effects {
        Effects::Fenced
    }

    fn progress_within(&self) -> Option<Duration> {
        Some(PROGRESS_WITHIN)
    }

    /// Two tasks: the stream and the list. Both end with the first, and are joined; a dropped call aborts them, and a
    /// transaction under way is carried to its end by the store.
    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        meters::begun();
        let Some(labeler) = self.find(&context).await else { return Ok(()) };
        let stop = context.stop.child_token();
        let inner = Context { stop: stop.clone(), ..context.clone() };
        let (config, client) = (self.config.clone(), self.client.clone());
        let signer = Signer::new(labeler, self.resolver.clone(), config.verify, config.ask_every);
        let writer = Writer { database: self.database.clone(), context: inner, signer: Arc::new(signer) };
        let (wishes, incomplete) = (Arc::<Wishes>::default(), Arc::new(Notify::new()));

        let mut tasks: JoinSet<End> = JoinSet::new();
        let shared = (config.clone(), client.clone(), writer.clone(), wishes.clone(), incomplete.clone());
        tasks.spawn(Follower::new(shared.0, shared.1, shared.2, shared.3, shared.4).run());
        tasks.spawn(Reconciler::new(config, client, writer, wishes, incomplete).run());
        let mut outcome = Ok(());
        while let Some(ended) = tasks.join_next().await {
            if let Ok(End::Stale) = ended {
                // Another has the lease. The supervisor is about to find out; until then, nothing more is done.
                context.stop.cancelled().await;
            }
            stop.cancel();
            outcome = outcome.and(ended.map(drop).map_err(WorkerError::from));
        }
        outcome
    }
}

impl Labels {
    /// Asks who the labeler is until that is known. `None`: it is time to stop.
    async fn find(&self, context: &Context) -> Option<Labeler> {
        let mut turn = Turn::default();
        loop {
            context.progress.made();
            let asking = async {
                match &self.config.labeler {
                    Named::Did(did) => self.resolver.labeler(did).await,
                    Named::Url(url) => self.resolver.labeler_at(url).await,
                }
            };
            let error = match context.stop.run_until_cancelled(asking).await? {
                Ok(labeler) => {
                    if self.config.verify && labeler.key.is_none() {
                        tracing::error!(labeler = %labeler.did,
                            "the labeler's document has no key #atproto_label: none of its labels count");
                    }
                    return Some(labeler);
                }
                Err(error) => error,
            };
            tracing::error!(named = ?self.config.labeler, %error, "the labeler was not found; takedowns do not arrive");
            let outcome = if error.is_temporary() { Outcome::Failed } else { Outcome::NoStream };
            let wait = turn.ended(outcome, &self.config.waits, rand::random());
            if !rest(context, Instant::now() + wait).await {
                return None;
            }
        }
    }
}

/// Waits, telling that it goes on. False: it is time to stop.
async fn rest(context: &Context, until: Instant) -> bool {
    loop {
        context.progress.made();
        let wake = until.min(Instant::now() + BEAT_EVERY);
        if context.stop.run_until_cancelled(sleep_until(wake)).await.is_none() {
            return false;
        }
        if Instant::now() >= until {
            return true;
        }
    }
}

//! The `hold-health` worker: asks the known holds whether they answer, on every instance, and keeps what it finds in memory.
//!
//! It has no lease on purpose: the registry beside each instance wants to know which holds are reachable *from there*, at
//! once, and a cache of another machine's answers would be neither. It writes nothing to the database.
//!
//! In reading order: `choose` which holds, `ask` one of them, `answers` that are remembered, and `holds`, what others see.

mod answers;
mod ask;
mod choose;
mod holds;
pub mod meters;
mod restart;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::atproto::Did;
use crate::store::{Database, KnownHolds};

pub use answers::{HoldList, HoldState, State};
pub use ask::Asker;
pub use holds::Holds;

use ask::Ask;
use choose::{HOLDS_MAX, choose};

/// From the start to the first round: the registry and the database come up beside us. At half, the first answers are often
/// those of holds that start with us; at double, they are late.
const FIRST_AFTER: Duration = Duration::from_secs(5);

/// An answer is believed for two intervals, so that one late round makes nobody unknown, and for so long at least: an
/// interval of seconds is no reason to forget what was found seconds ago.
const FRESH_FOR_MIN: Duration = Duration::from_secs(60);

/// Knows which holds there are.
#[async_trait]
trait Source: Send + Sync {
    /// Asks now.
    async fn known_holds(&self) -> Result<KnownHolds, String>;
}

#[async_trait]
impl Source for Database {
    async fn known_holds(&self) -> Result<KnownHolds, String> {
        Database::known_holds(self).await.map_err(|error| error.to_string())
    }
}

/// What an operator decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// From the start of one round to that of the next.
    pub interval: Duration,
    /// Holds asked at the same time.
    pub concurrency: usize,
    /// The registry's own: looked after whatever the index knows.
    pub of_registry: Vec<Did>,
}

/// The worker.
pub struct HoldHealth {
    source: Arc<dyn Source>,
    holds: Holds,
    interval: Duration,
}

impl HoldHealth {
    /// Looks after the holds that the index in `database` names, and those of the registry.
    pub fn new(database: Database, asker: Asker, options: Options) -> Self {
        Self::with(Arc::new(database), asker, options)
    }

    fn with(source: Arc<dyn Source>, ask: impl Ask + 'static, options: Options) -> Self {
        let Options { interval, concurrency, of_registry } = options;
        let fresh_for = FRESH_FOR_MIN.max(interval.saturating_mul(2));
        let holds = Holds::new(ask, of_registry, concurrency.max(1), fresh_for);
        Self { source, holds, interval }
    }

    /// What the rest of the process sees of it.
    pub fn holds(&self) -> Holds {
        self.holds.clone()
    }

    /// Works until `stop`. A failure ends nothing: it is counted, and the work begins anew after a while.
    pub async fn run(self, stop: CancellationToken) {
        restart::keep_running(&stop, || self.rounds(&stop)).await;
    }

    async fn rounds(&self, stop: &CancellationToken) {
        let (mut known, mut left_out) = (KnownHolds::default(), 0);
        if stop.run_until_cancelled(sleep(FIRST_AFTER)).await.is_none() {
            return;
        }
        while !stop.is_cancelled() {
            let next = Instant::now() + self.interval;
            match self.source.known_holds().await {
                Ok(now) => known = now,
                Err(error) => {
                    meters::not_read();
                    tracing::warn!(
                        error,
                        "which holds there are was not read; those of before are asked again"
                    );
                }
            }
            let chosen = choose(self.holds.of_registry(), &known, HOLDS_MAX);
            if chosen.left_out != left_out {
                left_out = chosen.left_out;
                tracing::warn!(left_out, asked = chosen.holds.len(), "more holds than are looked after");
            }
            if stop.run_until_cancelled(self.holds.round(&chosen)).await.is_none() {
                return;
            }
            stop.run_until_cancelled(sleep_until(next)).await;
        }
    }
}

#[cfg(test)]
mod tests;

//! What the rest of the process sees of the holds: their states, and a way to have one asked. Owns the limits on asking.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::answers::{Answers, HoldList, HoldState, Need, State};
use super::ask::Ask;
use super::choose::Chosen;
use super::meters::{self, Spared};
use crate::atproto::{Did, Micros};

/// How long somebody waits for an answer about one hold: longer than a hold has to answer. Then it is unknown to them.
const WAIT_MAX: Duration = Duration::from_secs(6);

/// Holds that are asked on somebody's wish, per second. Rounds do not count. A page that lists twenty repositories asks about
/// a few; at double, a caller that means ill makes twice as many requests to others.
pub(super) const WISHES_PER_SECOND: u32 = 5;

/// The holds and their states. Cheap to clone.
#[derive(Clone)]
pub struct Holds {
    shared: Arc<Shared>,
}

struct Shared {
    ask: Box<dyn Ask>,
    answers: Mutex<Answers>,
    /// Those of the registry itself: a change of theirs is worth a line in the log.
    of_registry: Vec<Did>,
    /// Holds asked at the same time, in rounds and on wishes.
    places: Semaphore,
    concurrency: usize,
    wishes: Mutex<Wishes>,
}

/// How many wishes were fulfilled in this second.
struct Wishes {
    second: Instant,
    count: u32,
}

impl Holds {
    pub(super) fn new(
        ask: impl Ask + 'static,
        of_registry: Vec<Did>,
        concurrency: usize,
        fresh_for: Duration,
    ) -> Self {
        let wishes = Mutex::new(Wishes { second: Instant::now(), count: 0 });
        let answers = Mutex::new(Answers::new(fresh_for));
        let (ask, places) = (Box::new(ask), Semaphore::new(concurrency));
        Self { shared: Arc::new(Shared { ask, answers, of_registry, places, concurrency, wishes }) }
    }

    /// Every hold that is looked after, as it was found last.
    pub fn list(&self) -> HoldList {
        self.answers().list(Instant::now())
    }

    /// One hold. If nothing is known of it, or too long ago, it is asked, unless it is not looked after, or too many are
    /// asked already. However many ask about it, it is asked once. Cancel-safe.
    pub async fn one(&self, did: &Did) -> HoldState {
        if timeout(WAIT_MAX, self.check(did, Need::Fresh)).await.is_err() {
            meters::spared(Spared::Slow);
        }
        self.answers().state_of(did, Instant::now())
    }

    /// Tells the metrics how many holds are in which state.
    pub fn observe(&self) {
        meters::holds(&self.list());
    }

    pub(super) fn of_registry(&self) -> &[Did] {
        &self.shared.of_registry
    }

    /// Looks after these from now on, and asks each once. Cancel-safe: what was found stays.
    pub(super) async fn round(&self, chosen: &Chosen) {
        let begun = Instant::now();
        self.answers().look_after(chosen);
        let holds = futures_util::stream::iter(&chosen.holds);
        let check = async |did: &Did| self.check(did, Need::Since(begun)).await;
        holds.for_each_concurrent(self.shared.concurrency, check).await;
        self.answers().round_ended(Micros::now());
        meters::round_ended(begun.elapsed());
    }

    async fn check(&self, did: &Did, need: Need) {
        let shared = &*self.shared;
        let is_due = || self.answers().asking(did, need, Instant::now());
        let Some(asking) = is_due() else { return };
        let _turn = asking.lock().await;
        // Whoever had the turn before may have asked.
        if is_due().is_none() {
            return;
        }
        if matches!(need, Need::Fresh) && !self.may_wish() {
            return meters::spared(Spared::Limit);
        }
        let Ok(_place) = shared.places.acquire().await else { return };
        let outcome = shared.ask.ask(did).await;
        meters::asked(&outcome);
        let changed = self.answers().found(did, outcome, Micros::now(), Instant::now());
        if let Some((before, after)) = changed
            && before != after
        {
            self.tell(did, after);
        }
    }

    /// Counts a wish. False: enough for this second.
    fn may_wish(&self) -> bool {
        let mut wishes = self.shared.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        if wishes.second.elapsed() >= Duration::from_secs(1) {
            *wishes = Wishes { second: Instant::now(), count: 0 };
        }
        wishes.count += 1;
        wishes.count <= WISHES_PER_SECOND
    }

    fn tell(&self, did: &Did, state: State) {
        let error = self.answers().state_of(did, Instant::now()).error;
        match state {
            _ if !self.shared.of_registry.contains(did) => {
                tracing::debug!(hold = %did, state = state.as_str(), error, "a hold's state has changed");
            }
            State::Reachable => tracing::info!(hold = %did, "the registry's hold answers"),
            State::Unreachable | State::Unknown => {
                tracing::warn!(hold = %did, state = state.as_str(), error, "the registry's hold does not answer");
            }
        }
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        // Nothing in it can be half done.
        self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

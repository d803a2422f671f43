//! What is to be done, and when: a run at the start and after each interval, wishes at once, and what failed when it is
//! due again. Owns the tasks; each of them does one thing, and leaves its place in the database.
//!
//! A run is nothing but a mark in the database: it makes lists and repositories due, and has ended once each was tried.
//! So a successor goes on where its predecessor was, and nothing of a run is lost but the requests under way.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leased_actors::worker::Context;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::progress::Told;
use super::{Backfill, Desk, accounts, lists, merge, meters, progress};
use crate::atproto::{Collection, Did};
use crate::store::backfill::{BY_OPERATOR, BackfillRun, DueRepo, ListName, RunPlan};
use crate::store::{BackfillRequest, ReadError, WriteError};

/// How often wishes and what is due are looked for. At half, an idle worker asks the database twice as often; at double,
/// an operator waits for it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The wait after the database refused something.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Due repositories that are read ahead of the ones under way.
const AHEAD: usize = 64;

/// Wishes about single repositories that are taken up at once.
const WISHES_AT_ONCE: usize = 256;

/// One term's work.
pub(super) struct Round<'a> {
    worker: &'a Backfill,
    desk: Desk,
    context: Context,
    tasks: JoinSet<Result<(), WriteError>>,
    /// One for each repository that is being read. What waits to be written has given its place back: how much of that
    /// there may be is the writer's business.
    places: Arc<Semaphore>,
    /// Whose repository a task reads; `None`: it reads a list.
    under_way: HashMap<Id, Option<Did>>,
    queue: VecDeque<DueRepo>,
    wishes: HashMap<Did, BackfillRequest>,
    run: Option<Current>,
    next: Option<Instant>,
    looked_at: Option<Instant>,
    is_begun: bool,
}

/// What came of a task.
type Ended = Result<(Id, Result<(), WriteError>), JoinError>;

/// The run that goes on.
struct Current {
    run: BackfillRun,
    /// The wish that it fulfils.
    wish: Option<BackfillRequest>,
    told: Told,
}

/// Why nothing more is done for now.
pub(super) enum Halt {
    /// Another has the lease.
    Stale,
    /// The database does not answer, or refuses.
    Database(String),
}

impl From<ReadError> for Halt {
    fn from(error: ReadError) -> Self {
        Self::Database(error.to_string())
    }
}

impl From<WriteError> for Halt {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stale(_) => Self::Stale,
            error => Self::Database(error.to_string()),
        }
    }
}

impl<'a> Round<'a> {
    pub(super) fn new(worker: &'a Backfill, desk: Desk, context: Context) -> Self {
        Self {
            worker,
            desk,
            context,
            tasks: JoinSet::new(),
            places: Arc::new(Semaphore::new(worker.concurrency)),
            under_way: HashMap::new(),
            queue: VecDeque::new(),
            wishes: HashMap::new(),
            run: None,
            next: None,
            looked_at: None,
            is_begun: false,
        }
    }

    /// Works until told to stop. Requests under way are dropped then; a transaction is carried to its end by the store.
    pub(super) async fn run(mut self) {
        let stop = self.context.stop.clone();
        while !stop.is_cancelled() {
            self.context.progress.made();
            let turned = stop.run_until_cancelled(self.turn()).await;
            match turned {
                None | Some(Ok(())) => {}
                Some(Err(Halt::Stale)) => {
                    let term = self.context.term.id();
                    tracing::warn!(lease.name = %term.name, lease.epoch = term.epoch.0, "write refused: another has the lease");
                    self.tasks.shutdown().await;
                    stop.cancelled().await;
                }
                Some(Err(Halt::Database(error))) => {
                    tracing::warn!(error, "the backfill waits for the database");
                    stop.run_until_cancelled(sleep(TRY_AGAIN)).await;
                }
            }
        }
        self.tasks.shutdown().await;
        meters::stopped();
    }

    /// One look at what is to be done, and the wait for something to end.
    async fn turn(&mut self) -> Result<(), Halt> {
        if self.looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            self.looked_at = Some(Instant::now());
            self.begin_if_due().await?;
            self.take_up_wishes().await?;
            self.start_list().await?;
            self.fill_queue().await?;
            self.tell(false).await?;
            self.end_if_done().await?;
        }
        while !self.queue.is_empty()
            && let Ok(place) = Arc::clone(&self.places).try_acquire_owned()
        {
            self.start_repository(place);
        }
        let look_again = self.looked_at.map_or_else(Instant::now, |at| at + LOOK_EVERY);
        tokio::select! {
            Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => self.all_ended(ended).await,
            Ok(place) = Arc::clone(&self.places).acquire_owned(), if !self.queue.is_empty() => {
                self.start_repository(place);
                Ok(())
            }
            () = sleep_until(look_again) => Ok(()),
        }
    }

    /// At the start what is unfinished goes on; otherwise a run begins at the start, at its time, or for a wish.
    async fn begin_if_due(&mut self) -> Result<(), Halt> {
        if let Some(current) = &self.run
            && self
                .desk
                .database
                .backfill_run()
                .await?
                .is_some_and(|run| run.id == current.run.id && !run.is_over)
        {
            return Ok(());
        }
        let wishes = self.desk.database.backfill_requests().await?;
        let wish = wishes.into_iter().find(|wish| wish.did.is_none());
        if !self.is_begun
            && let Some(run) = self.desk.database.backfill_run().await?.filter(|run| !run.is_over)
        {
            tracing::info!(run = run.id, reason = run.reason, "backfill goes on where it was");
            // One that is younger than the run, or wants more, asks for another.
            let is_fulfilled = |wish: &BackfillRequest| {
                wish.asked_at < run.started_at && (run.forced || wish.reason != BY_OPERATOR)
            };
            let wish = wish.filter(is_fulfilled);
            self.run = Some(Current { run, wish, told: Told::default() });
            self.is_begun = true;
            return Ok(());
        }
        let is_due = self.next.is_some_and(|at| Instant::now() >= at);
        let reason = match &wish {
            _ if self.run.is_some() => "aged".to_owned(),
            _ if !self.is_begun => "start".to_owned(),
            Some(wish) => wish.reason.clone(),
            None if is_due => "interval".to_owned(),
            None => return Ok(()),
        };
        self.begin(reason, wish).await
    }

    async fn begin(&mut self, reason: String, wish: Option<BackfillRequest>) -> Result<(), Halt> {
        let relays = &self.desk.relays;
        let of_relay = |at: usize| {
            let url = relays.url(at).to_owned();
            Collection::ALL
                .into_iter()
                .map(move |collection| ListName::Relay { url: url.clone(), collection })
        };
        let lists = [ListName::Users, ListName::Holds].into_iter();
        let plan = RunPlan {
            forced: wish.as_ref().is_some_and(|wish| wish.reason == BY_OPERATOR),
            lists: lists.chain((0..relays.count()).flat_map(of_relay)).collect(),
            seeds: self.worker.seeds.clone(),
            reason,
        };
        let begun = plan.clone();
        self.desk.database.fenced(&self.desk.term, async move |tx| tx.begin_run(&begun).await).await?;
        let Some(run) = self.desk.database.backfill_run().await? else { return Ok(()) };
        tracing::info!(run = run.id, reason = run.reason, forced = run.forced, "backfill begins");
        (self.run, self.next, self.is_begun) =
            (Some(Current { run, wish, told: Told::default() }), None, true);
        // What was read ahead belongs to the run before.
        self.queue.clear();
        Ok(())
    }

    /// Makes the repositories of single wishes due. One that is being read right now waits for its end: that reading may
    /// have begun before the wish.
    async fn take_up_wishes(&mut self) -> Result<(), Halt> {
        let wishes = self.desk.database.backfill_requests().await?;
        let reading: HashSet<&Did> = self.under_way.values().flatten().collect();
        let mut taken = HashMap::new();
        for wish in wishes {
            let Some(did) = wish.did.clone() else { continue };
            let is_taken = self.wishes.get(&did).is_some_and(|taken| taken.asked_at == wish.asked_at);
            if !is_taken && !reading.contains(&did) && taken.len() < WISHES_AT_ONCE {
                taken.insert(did, wish);
            }
        }
        if taken.is_empty() {
            return Ok(());
        }
        let dids: Vec<Did> = taken.keys().cloned().collect();
        self.desk.database.fenced(&self.desk.term, async move |tx| tx.force_repos(&dids).await).await?;
        // They are the longest due now, so that they come before all that was read ahead.
        self.queue.clear();
        self.wishes.extend(taken);
        Ok(())
    }

    /// One list at a time: relays are few, and each is asked for one page after the other.
    async fn start_list(&mut self) -> Result<(), Halt> {
        if self.under_way.values().any(Option::is_none) {
            return Ok(());
        }
        let Some(list) = self.desk.database.due_list().await? else { return Ok(()) };
        let forced =
            self.run.as_ref().is_some_and(|current| current.run.forced && current.run.id == list.run);
        let task = self.tasks.spawn(lists::read(self.desk.clone(), list, forced));
        self.under_way.insert(task.id(), None);
        Ok(())
    }

    async fn fill_queue(&mut self) -> Result<(), Halt> {
        if !self.queue.is_empty() {
            return Ok(());
        }
        // Those under way are due as well until they have ended.
        let limit = self.under_way.len() + self.worker.concurrency + AHEAD;
        let due = self.desk.database.due_repos(limit).await?;
        let reading: HashSet<&Did> = self.under_way.values().flatten().collect();
        self.queue.extend(due.into_iter().filter(|repo| !reading.contains(&repo.did)));
        Ok(())
    }

    fn start_repository(&mut self, place: OwnedSemaphorePermit) {
        let Some(repo) = self.queue.pop_front() else { return };
        if self.queue.is_empty() {
            // The next ones are looked for while these are read.
            self.looked_at = None;
        }
        let (did, wish) = (repo.did.clone(), self.wishes.get(&repo.did).cloned());
        let run = self.run.as_ref().map_or(0, |current| current.run.id);
        let task = self.tasks.spawn(merge::repository(self.desk.clone(), run, repo, wish, place));
        self.under_way.insert(task.id(), Some(did));
    }

    /// Those that were written together end together; whatever one of them says of the database, it is waited for once.
    async fn all_ended(&mut self, first: Ended) -> Result<(), Halt> {
        let mut outcome = self.ended(first).await;
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            match self.ended(ended).await {
                Err(Halt::Stale) => outcome = Err(Halt::Stale),
                ended => outcome = outcome.and(ended),
            }
        }
        outcome
    }

    /// What ended makes room; if there is nothing left to fill it with, the next look is at once.
    async fn ended(&mut self, ended: Ended) -> Result<(), Halt> {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, outcome),
            Err(error) if error.is_panic() => {
                // A bug, met by one repository: the others go on.
                tracing::error!(%error, "a part of the backfill failed unexpectedly");
                let failed = match self.under_way.get(&error.id()) {
                    Some(Some(did)) => accounts::panicked(&self.desk, did).await,
                    _ => Ok(()),
                };
                (error.id(), failed)
            }
            Err(error) => (error.id(), Ok(())),
        };
        if let Some(Some(did)) = self.under_way.remove(&id)
            && outcome.is_ok()
        {
            self.wishes.remove(&did);
        }
        if self.queue.is_empty() {
            self.looked_at = None;
        }
        Ok(outcome?)
    }

    async fn tell(&mut self, is_end: bool) -> Result<(), Halt> {
        let Some(current) = &mut self.run else { return Ok(()) };
        if (is_end || current.told.is_due())
            && let Some(report) = self.desk.database.backfill_report().await?
        {
            progress::tell(&mut current.told, &report, &self.desk.missed, is_end);
        }
        Ok(())
    }

    /// The run has ended once nothing of it is under way, and nothing is left that was not tried.
    async fn end_if_done(&mut self) -> Result<(), Halt> {
        let Some(current) = &self.run else { return Ok(()) };
        let id = current.run.id;
        if !self.under_way.is_empty() || !self.queue.is_empty() || !self.desk.database.is_run_done(id).await?
        {
            return Ok(());
        }
        let wish = current.wish.clone();
        let end = async move |tx: &mut crate::store::Tx| {
            tx.end_run(id).await?;
            match &wish {
                Some(wish) => tx.backfill_done(wish).await.map(|_| ()),
                None => Ok(()),
            }
        };
        self.desk.database.fenced(&self.desk.term, end).await?;
        self.tell(true).await?;
        self.run = None;
        self.next = jittered(self.worker.interval).map(|wait| Instant::now() + wait);
        Ok(())
    }
}

/// The interval, give or take a tenth, so that many registries do not ask the relays at once. Zero: never.
fn jittered(interval: Duration) -> Option<Duration> {
    (!interval.is_zero()).then(|| interval.mul_f64(rand::random_range(0.9..=1.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_varies_by_a_tenth_and_zero_is_never() {
        assert_eq!(jittered(Duration::ZERO), None);
        for _ in 0..1_000 {
            let wait = jittered(Duration::from_secs(3_600)).expect("an interval");
            assert!((3_240..=3_960).contains(&wait.as_secs()), "{wait:?}");
        }
    }
}

//! The `webhooks` worker: takes what is due out of the outbox, sends it, and writes down what came of it. Its requests
//! leave the database, so it begins none without trust in its term, and its successor waits the grace.
//!
//! In reading order: which endpoints may be asked (`lanes`), what is sent (`format` with `notice`, `discord` and
//! `slack`; `sign`), the request itself (`send`), what its answer means (`schedule`), and the writing (`record`).

pub mod meters;

mod discord;
mod format;
mod lanes;
mod notice;
mod record;
mod schedule;
mod send;
mod sign;
mod slack;
mod text;

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Fuse, FusedFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leased_actors::lease::{Effects, LeaseName};
use leased_actors::worker::{Context, Worker, WorkerError};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::lanes::{LANES, LaneEnd, Lanes};
use self::record::{Outcome, Recorder};
use self::schedule::{Heard, asked_wait, outcome};
use self::send::{Post, host_of};
use crate::atproto::guard::Guarded;
use crate::outbox::{self, Attempted, DueDelivery, Rules};
use crate::store::outbox::{Due, Look};
use crate::store::{Database, WriteError};

pub use self::format::ChatHosts;
/// Requests at one host at once: never so few that one waits for another beyond its lane.
pub use self::lanes::LANES_PER_HOST;

/// How often the outbox is looked at without being told when. At double, a delivery that an idle outbox gets is late by
/// twice as much; at half, there are twice as many transactions for nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks. At half, a busy outbox is looked at twice as often for fewer deliveries each.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// How often it is told how the outbox stands, for which what waits is counted row by row.
const REPORT_EVERY: Duration = Duration::from_secs(15);

/// Deliveries to one endpoint that one look takes, and to all. Their payloads are in memory; what is left is taken by the
/// next look.
const TAKEN_PER_WEBHOOK: u32 = 16;
const TAKEN_MAX: u32 = 256;

/// Answers of one endpoint that may wait to be written while the next request is made. A crash repeats as many of them, under
/// the same ids; at one, an endpoint gets as many deliveries in a second as there are transactions.
const UNWRITTEN_MAX: usize = 8;

/// How long one look is good for: by then a delivery may have been withheld.
const GOOD_FOR: Duration = Duration::from_secs(2);

/// How long a stop waits for answers on their way. At zero, each stop would deliver twice what was under way; all of it is
/// far below S.
const ANSWERS_WITHIN: Duration = Duration::from_millis(300);

/// How long it may not tell that it goes on; it does so each second.
const PROGRESS_WITHIN: Duration = Duration::from_secs(60);

/// The worker.
pub struct Webhooks {
    /// Where the outbox is.
    pub database: Database,
    /// What may be sent, and for how long.
    pub rules: Arc<Rules>,
    /// Asks strangers' addresses, [`LANES_PER_HOST`] at once at one host.
    pub guarded: Guarded,
    /// Which hosts have a format of their own.
    pub chat_hosts: ChatHosts,
    /// One attempt.
    pub timeout: Duration,
}

#[async_trait]
impl Worker for Webhooks {
    fn name(&self) -> LeaseName {
        "webhooks".parse().expect("the name is good")
    }

    fn effects(&self) -> Effects {
        Effects::External
    }

    fn progress_within(&self) -> Option<Duration> {
        Some(PROGRESS_WITHIN)
    }

    /// All in one task, so that a dropped call leaves nothing behind that could still send.
    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        meters::begun();
        let inner = Context { stop: context.stop.child_token(), ..context.clone() };
        let (outcomes, received) = mpsc::channel(LANES);
        let recorder = Recorder { database: self.database.clone(), context: inner.clone() };
        tokio::join!(recorder.run(received), self.send(&inner, outcomes), self.report(&inner));
        // It may have been another's claim that ended them.
        context.stop.cancelled().await;
        Ok(())
    }
}

impl Webhooks {
    /// Looks and sends until told to stop, or another has the lease.
    async fn send(&self, context: &Context, outcomes: mpsc::Sender<Outcome>) {
        let post =
            Post { guarded: self.guarded.clone(), hosts: self.chat_hosts.clone(), timeout: self.timeout };
        let (mut lanes, mut under_way) = (Lanes::default(), FuturesUnordered::new());
        let (mut looking, mut look_at) = (pin!(Fuse::terminated()), Instant::now());
        loop {
            context.progress.made();
            let (now, may_look) = (Instant::now(), looking.is_terminated() && lanes.free() > 0);
            if may_look && look_at <= now {
                looking.set(self.look(context, lanes.excluded(now)).fuse());
            }
            let wake = if may_look { look_at } else { now + LOOK_EVERY };
            tokio::select! {
                biased;
                () = context.stop.cancelled() => break,
                due = &mut looking, if !looking.is_terminated() => {
                    look_at = now + LOOK_EVERY;
                    let Some(due) = due else { continue };
                    look_at = next_look(&due, &lanes, Instant::now());
                    for (webhook, deliveries) in take(due, &mut lanes) {
                        under_way.push(lane(&post, context, webhook, deliveries, outcomes.clone()));
                    }
                }
                Some((webhook, end)) = under_way.next(), if !under_way.is_empty() => {
                    lanes.give_back(webhook, end, Instant::now());
                    look_at = look_at.min(Instant::now() + LOOK_PAUSE);
                }
                () = sleep_until(wake) => {}
            }
        }
        // Lanes begin nothing more. What is not answered by then stays due, and goes out again under the same id.
        let _ = timeout(ANSWERS_WITHIN, async { while under_way.next().await.is_some() {} }).await;
    }

    /// Tells how the outbox stands until told to stop.
    async fn report(&self, context: &Context) {
        while !context.stop.is_cancelled() {
            match self.database.outbox_report().await {
                Ok(of) => {
                    let late = of.oldest_due.as_secs_f64();
                    outbox::meters::standing(of.waiting, late, of.enabled, of.disabled);
                }
                Err(error) => tracing::debug!(%error, "how the outbox stands was not read"),
            }
            context.stop.run_until_cancelled(sleep(REPORT_EVERY)).await;
        }
    }

    /// What is due; none: it could not be read.
    async fn look(&self, context: &Context, busy: Vec<i64>) -> Option<Due> {
        let rules = self.rules.clone();
        let look = Look { busy, per_webhook: TAKEN_PER_WEBHOOK, limit: TAKEN_MAX };
        let due = self.database.fenced(&context.term, async move |tx| tx.due_deliveries(&rules, &look).await);
        match due.await {
            Ok(due) => {
                outbox::meters::withheld(&due.withheld);
                Some(due)
            }
            Err(WriteError::Stale(term)) => {
                tracing::warn!(lease.name = %term.name, lease.epoch = term.epoch.0, "look refused: another has the lease");
                context.stop.cancel();
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the outbox was not read; trying again");
                None
            }
        }
    }
}

fn next_look(due: &Due, lanes: &Lanes, now: Instant) -> Instant {
    let next = now + due.next_in.unwrap_or(LOOK_EVERY).clamp(LOOK_PAUSE, LOOK_EVERY);
    lanes.next_rested(now).map_or(next, |rested| next.min(rested))
}

/// What is due, by endpoint, each with a lane taken. What finds none stays due.
fn take(due: Due, lanes: &mut Lanes) -> HashMap<i64, Vec<DueDelivery>> {
    let mut taken: HashMap<i64, Vec<DueDelivery>> = HashMap::new();
    for delivery in due.deliveries {
        let webhook = delivery.webhook;
        // Addresses that cannot be read share a host, and are refused by the client.
        if taken.contains_key(&webhook) || lanes.take(webhook, &host_of(&delivery.url)) {
            taken.entry(webhook).or_default().push(delivery);
        }
    }
    taken
}

/// A lane's way: which endpoint it was for, and how it ended.
type Closed = (i64, LaneEnd);

/// Sends what is due to one endpoint, one after the other, and ends with the first that does not get through.
async fn lane(
    post: &Post,
    context: &Context,
    webhook: i64,
    deliveries: Vec<DueDelivery>,
    outcomes: mpsc::Sender<Outcome>,
) -> Closed {
    let (since, mut end, mut unwritten) = (Instant::now(), LaneEnd::Unused, VecDeque::new());
    for delivery in deliveries {
        if unwritten.len() == UNWRITTEN_MAX && !record::next_written(&mut unwritten).await {
            break;
        }
        let may_begin = !context.stop.is_cancelled() && context.term.is_trusted();
        if !may_begin || since.elapsed() > GOOD_FOR {
            break;
        }
        let (result, ended) = attempt(post, &delivery).await;
        end = ended;
        unwritten.extend(record::hand_over(&outcomes, delivery.id, result).await);
        if !matches!(end, LaneEnd::Well(_)) {
            break;
        }
    }
    // The endpoint's next lane must not find due what was answered in this one.
    while record::next_written(&mut unwritten).await {}
    (webhook, end)
}

async fn attempt(post: &Post, delivery: &DueDelivery) -> (Attempted, LaneEnd) {
    let _under_way = meters::begin();
    let began = Instant::now();
    let (format, heard) = post.post(delivery).await;
    let took = began.elapsed();
    let result = outcome(&heard, delivery.attempt, rand::random());
    meters::attempted(format, &result, took);
    tell(delivery, format, &result);
    let end = match (&result, heard) {
        (Attempted::Delivered { .. }, _) => LaneEnd::Well(took),
        (_, Heard::Answer(_, allowance)) => LaneEnd::Badly(took, asked_wait(allowance)),
        (_, Heard::Nothing(_)) => LaneEnd::Badly(took, None),
    };
    (result, end)
}

/// The path of an address is its secret, at Discord and Slack: only the host is told.
fn tell(delivery: &DueDelivery, format: format::Format, result: &Attempted) {
    let host = host_of(&delivery.url);
    let (id, webhook, attempt, format) =
        (&delivery.id, delivery.webhook, delivery.attempt + 1, format.as_str());
    match result {
        Attempted::Delivered { code } => {
            tracing::debug!(delivery = id, webhook, host, format, attempt, code, "delivered");
        }
        Attempted::Retry { error, after, .. } => {
            tracing::debug!(
                delivery = id,
                webhook,
                host,
                format,
                attempt,
                error,
                ?after,
                "not delivered; tried again"
            );
        }
        Attempted::Failed { error, .. } => {
            tracing::debug!(
                delivery = id,
                webhook,
                host,
                format,
                attempt,
                error,
                "not delivered, and not tried again"
            );
        }
    }
}

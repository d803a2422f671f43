//! The stream: connection after connection, from where the database says, batch after batch into it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::connect::{Connection, Heard, Outcome, Reason, Refusals, Turn, dial};
use super::decode::{Message, message};
use super::reconcile::Wishes;
use super::write::{Batch, End, Writer};
use super::{BEAT_EVERY, Config, meters, rest};
use crate::atproto::guard::Guarded;
use crate::store::labels::{LABEL_ROWS_MAX, LabelerPosition};

/// How long a batch waits to fill. At half, a replay commits twice as often; at double, people see a label late.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// Follows the labeler's stream.
pub(super) struct Follower {
    config: Config,
    client: Guarded,
    writer: Writer,
    /// What the list is to be read for.
    wishes: Arc<Wishes>,
    /// Told when the list had what the stream left out.
    incomplete: Arc<Notify>,
    turn: Turn,
    refusals: Refusals,
}

impl Follower {
    pub(super) fn new(
        config: Config,
        client: Guarded,
        writer: Writer,
        wishes: Arc<Wishes>,
        incomplete: Arc<Notify>,
    ) -> Self {
        let (turn, refusals) = (Turn::default(), Refusals::default());
        Self { config, client, writer, wishes, incomplete, turn, refusals }
    }

    /// Runs until told to stop, or until another has the lease. Every other ending is of one connection.
    pub(super) async fn run(mut self) -> End {
        loop {
            let wait = match self.one().await {
                Ok(wait) => wait,
                Err(end) => return end,
            };
            if !rest(&self.writer.context, Instant::now() + wait).await {
                return End::Stopped;
            }
        }
    }

    /// One attempt, and the connection it leads to. Tells how long to wait before the next.
    async fn one(&mut self) -> Result<Duration, End> {
        let position = self.writer.follow().await?;
        let labeler = self.writer.signer.known().await;
        let dialled = {
            let agent = &self.config.user_agent;
            let dialling =
                dial(&self.client, &labeler.endpoint, position.seq, agent, self.config.message_bytes_max);
            let stop = &self.writer.context.stop;
            stop.run_until_cancelled(dialling).await.ok_or(End::Stopped)?
        };
        let (outcome, at_least) = match dialled {
            Ok(socket) => {
                meters::dialled("connected");
                tracing::info!(labeler = %labeler.did, endpoint = labeler.endpoint, cursor = position.seq,
                    "connected to the labeler");
                let connection = Connection::new(socket, self.config.idle_limit);
                (self.session(connection, position).await?, None)
            }
            Err(error) => {
                meters::dialled(error.kind());
                tracing::warn!(labeler = %labeler.did, endpoint = labeler.endpoint, reason = error.kind(), %error,
                    "the labeler's stream was not reached");
                if let Some(said) = error.future_cursor() {
                    self.position_refused(&said).await?;
                }
                self.writer.signer.look_again().await;
                let retry_after = match &error {
                    super::connect::DialError::Refused(answer) => answer.retry_after,
                    _ => None,
                };
                (if error.is_no_stream() { Outcome::NoStream } else { Outcome::Failed }, retry_after)
            }
        };
        let wait = self.turn.ended(outcome, &self.config.waits, rand::random());
        Ok(wait.max(at_least.unwrap_or_default()))
    }

    /// The connection's life, and its one line in the log.
    async fn session(&mut self, mut connection: Connection, at: LabelerPosition) -> Result<Outcome, End> {
        let mut batch = Batch::default();
        let ended = self.listen(&mut connection, &mut batch, at).await;
        let reason = match ended {
            Ok(reason) => reason,
            Err(end) => {
                meters::ended("stopped");
                connection.close().await;
                return Err(end);
            }
        };
        self.writer.save(&mut batch, at.era).await?;
        meters::ended(reason.kind());
        let is_healthy = connection.age() >= self.config.waits.healthy_after;
        if is_healthy && !matches!(reason, Reason::FutureCursor(_)) {
            self.accepted();
        }
        let (labeler, kind) = (self.writer.signer.did(), reason.kind());
        if reason.is_wanted() {
            tracing::info!(%labeler, reason = kind, detail = %reason, "connecting to the labeler anew");
            connection.close().await;
            return Ok(Outcome::Wanted);
        }
        tracing::warn!(%labeler, reason = kind, detail = %reason, "connection to the labeler ended");
        if let Reason::FutureCursor(said) = &reason {
            self.position_refused(said).await?;
        }
        Ok(if is_healthy { Outcome::Healthy } else { Outcome::Failed })
    }

    async fn listen(
        &mut self,
        connection: &mut Connection,
        batch: &mut Batch,
        at: LabelerPosition,
    ) -> Result<Reason, End> {
        let stop = self.writer.context.stop.clone();
        let key = self.writer.signer.known().await.key.clone();
        let mut full_by = None;
        loop {
            self.writer.context.progress.made();
            let beat = Instant::now() + BEAT_EVERY;
            let heard = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(End::Stopped),
                () = self.incomplete.notified() => return Ok(Reason::Incomplete),
                () = sleep_until(full_by.unwrap_or(beat)) => None,
                heard = connection.next() => Some(heard),
            };
            match heard {
                Some(Heard::Ended(reason)) => return Ok(reason),
                Some(Heard::TooLong) => self.skip("too_long"),
                Some(Heard::Message(bytes)) => match self.hear(&bytes, batch).await {
                    Some(reason) => return Ok(reason),
                    None => full_by = full_by.or(Some(Instant::now() + BATCH_WAIT)),
                },
                None => {}
            }
            if full_by.is_some_and(|by| Instant::now() >= by) || batch.len() >= LABEL_ROWS_MAX {
                let since = Instant::now();
                self.writer.save(batch, at.era).await?;
                connection.blocked(since.elapsed());
                full_by = None;
                if self.writer.signer.known().await.key != key {
                    return Ok(Reason::OtherKey);
                }
            }
        }
    }

    /// Takes a message into the batch. `Some`: the connection is no use any more.
    async fn hear(&mut self, bytes: &[u8], batch: &mut Batch) -> Option<Reason> {
        match message(bytes) {
            Ok(Message::Labels { seq, labels }) => {
                meters::came();
                self.accepted();
                batch.take(labels, Some(seq), &self.writer.signer).await;
                batch.passed(seq);
            }
            Ok(Message::TooMany { seq }) => {
                batch.passed(seq);
                self.skip("too_many");
            }
            Ok(Message::Info { name, said }) => {
                tracing::warn!(labeler = %self.writer.signer.did(), said, "the labeler says");
                if name == "OutdatedCursor" {
                    self.wishes.whole();
                }
            }
            Ok(Message::Error { name, said }) if name == "FutureCursor" => {
                return Some(Reason::FutureCursor(said));
            }
            Ok(Message::Error { said, .. }) => return Some(Reason::Error(said)),
            Ok(Message::Unknown) => meters::skipped("unknown_kind"),
            Err(bad) => return Some(Reason::BadMessage(bad.to_string())),
        }
        None
    }

    /// A message was not taken; the list has what was in it.
    fn skip(&self, reason: &'static str) {
        meters::skipped(reason);
        tracing::warn!(labeler = %self.writer.signer.did(), reason, "a message of the labeler was skipped");
        self.wishes.whole();
    }

    fn accepted(&mut self) {
        self.refusals.clear();
        meters::position_refused(false);
    }

    /// The labeler has not come to our position: it counts anew, or it is being restored. An alarm at once; given up later.
    async fn position_refused(&mut self, said: &str) -> Result<(), End> {
        meters::position_refused(true);
        let labeler = self.writer.signer.did();
        let is_over = self.refusals.refused(Instant::now(), &self.config.waits);
        tracing::error!(%labeler, said, refusals = self.refusals.count(),
            "the labeler refuses our position as one that it has not come to; new labels do not arrive");
        if is_over {
            tracing::error!(%labeler, "the position is given up; the labeler is heard from its beginning");
            self.writer.restart().await?;
            meters::restarted();
            self.refusals.clear();
        }
        Ok(())
    }
}

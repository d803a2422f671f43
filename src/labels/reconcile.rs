//! The labeler's list, read beside its stream: what a silent or broken stream has left out is found here (S33).
//!
//! Each reading goes on from where the last one ended, by the labeler's own word; now and then, and when a labeler says that
//! it has left something out, all of it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::decode::{Page, page};
use super::write::{Batch, End, Writer};
use super::{Config, meters, rest};
use crate::atproto::guard::Guarded;
use crate::atproto::xrpc::{self, Query, Reply};

const METHOD: &str = "com.atproto.label.queryLabels";

/// The lexicon's bound.
const PAGE_LABELS: &str = "250";

/// Of a full page with the longest labels.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Pages of one reading: a million labels. What is left waits for the next one.
const PAGES_MAX: u32 = 4_000;

/// What others want of the list.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    whole: AtomicBool,
    woken: Notify,
}

impl Wishes {
    /// All of it, now.
    pub(super) fn whole(&self) {
        self.whole.store(true, Ordering::Relaxed);
        self.woken.notify_one();
    }
}

/// Reads the list.
pub(super) struct Reconciler {
    config: Config,
    client: Guarded,
    writer: Writer,
    wishes: Arc<Wishes>,
    incomplete: Arc<Notify>,
    /// Where the last reading ended, by the labeler's word.
    cursor: Option<String>,
    /// When all of it was last begun to be read.
    whole_at: Instant,
}

impl Reconciler {
    pub(super) fn new(
        config: Config,
        client: Guarded,
        writer: Writer,
        wishes: Arc<Wishes>,
        incomplete: Arc<Notify>,
    ) -> Self {
        let whole_at = Instant::now();
        Self { config, client, writer, wishes, incomplete, cursor: None, whole_at }
    }

    /// Runs until told to stop, or until another has the lease.
    pub(super) async fn run(mut self) -> End {
        let wishes = Arc::clone(&self.wishes);
        let mut next = Instant::now() + self.config.check_every;
        loop {
            let due = next.min(Instant::now() + self.config.ask_every);
            let is_on = tokio::select! {
                is_on = rest(&self.writer.context, due) => is_on,
                () = wishes.woken.notified() => true,
            };
            if !is_on {
                return End::Stopped;
            }
            // The stream's next start hears what was not good under the key before.
            if self.writer.signer.catch_up().await {
                self.incomplete.notify_one();
            }
            if Instant::now() >= next || self.wishes.whole.load(Ordering::Relaxed) {
                if let Err(end) = self.check().await {
                    return end;
                }
                next = Instant::now() + self.config.check_every;
            }
        }
    }

    async fn check(&mut self) -> Result<(), End> {
        let is_wished = self.wishes.whole.swap(false, Ordering::Relaxed);
        if is_wished || self.whole_at.elapsed() >= self.config.whole_every {
            self.cursor = None;
            self.whole_at = Instant::now();
        }
        let mut missed = 0;
        for _ in 0..PAGES_MAX {
            let reading = self.read();
            let stop = &self.writer.context.stop;
            let Some(read) = stop.run_until_cancelled(reading).await else { return Err(End::Stopped) };
            let Page { cursor, labels } = match read {
                Ok(page) => page,
                Err(error) => {
                    meters::checked("failed", missed);
                    tracing::warn!(labeler = %self.writer.signer.did(), %error, "the labeler's list was not read");
                    // Without a list, a look at the stream from our position on is the next best.
                    self.incomplete.notify_one();
                    return Ok(());
                }
            };
            if labels.is_empty() {
                break;
            }
            let mut batch = Batch::default();
            batch.take(labels, None, &self.writer.signer).await;
            // No number, so no era.
            missed += self.writer.save(&mut batch, 0).await?;
            // At the end some labelers give no position, some the last one again. What was passed stays passed.
            if cursor.is_none() || cursor == self.cursor {
                break;
            }
            self.cursor = cursor;
        }
        meters::checked("read", missed);
        if missed > 0 {
            tracing::warn!(labeler = %self.writer.signer.did(), labels = missed,
                "the labeler's list had labels that its stream left out; connecting anew");
            self.incomplete.notify_one();
        }
        if let Ok(subjects) = self.writer.database.takedowns().await {
            meters::taken_down(subjects);
        }
        Ok(())
    }

    async fn read(&self) -> Result<Page, String> {
        self.writer.context.progress.made();
        let labeler = self.writer.signer.known().await;
        let mut parameters =
            vec![("uriPatterns", "*"), ("sources", labeler.did.as_str()), ("limit", PAGE_LABELS)];
        parameters.extend(self.cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let query = Query {
            base: &labeler.endpoint,
            method: METHOD,
            parameters: &parameters,
            body_len_max: PAGE_BYTES_MAX,
            timeout: None,
        };
        let Reply { outcome, .. } = xrpc::query(&self.client, &query).await;
        let body = outcome.map_err(|error| error.to_string())?;
        page(&body).ok_or_else(|| "its answer is not the method's".to_owned())
    }
}

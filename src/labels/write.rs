//! Judged labels into rows, and rows into the database: labels and position in one transaction, under the fence. Owns what a
//! label is about, what is kept of it, and when a batch is tried again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leased_actors::worker::Context;
use tokio::time::sleep;

use super::decode::{Fault, Label};
use super::meters;
use super::verify::{Signer, Verdict};
use crate::atproto::records::digest_of_rkey;
use crate::atproto::{AtUri, Collection, Did};
use crate::store::labels::{About, LabelRow, LabelerPosition};
use crate::store::{Database, WriteError};

/// The waits between tries of a batch that the database refused.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The lexicon's bound on a repository's name, in bytes.
const REPOSITORY_LEN_MAX: usize = 256;

/// What a subject is to the registry. A label on anything else is kept, and means nothing here.
pub(super) fn about(uri: &str) -> Option<About> {
    if let Ok(did) = Did::parse(uri) {
        return Some(About::Account(did));
    }
    let (did, path) = uri.strip_prefix("at://")?.split_once('/')?;
    let (collection, rest) = path.split_once('/')?;
    if collection == Collection::Page.nsid() {
        // All that follows is the repository: a name with a slash makes no valid address, and is meant all the same.
        let fits = (1..=REPOSITORY_LEN_MAX).contains(&rest.len());
        return Some(About::Repository(Did::parse(did).ok()?, rest.to_owned())).filter(|_| fits);
    }
    let AtUri { did, rkey, .. } = AtUri::parse(uri).ok()?;
    match collection {
        _ if collection == Collection::Manifest.nsid() => Some(About::Manifest(did, digest_of_rkey(&rkey)?)),
        _ if collection == Collection::Tag.nsid() => Some(About::Tag(did, rkey)),
        _ => None,
    }
}

/// Labels that are on their way into the database, each subject and value once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    rows: HashMap<(String, String), LabelRow>,
    seq: Option<i64>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.seq.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Everything up to this number is in the batch.
    pub(super) fn passed(&mut self, seq: i64) {
        self.seq = self.seq.max(Some(seq));
    }

    /// Judges what came, all at once, and takes what is to be kept of it.
    pub(super) async fn take(&mut self, came: Vec<Result<Label, Fault>>, seq: Option<i64>, signer: &Signer) {
        let mut labels = Vec::with_capacity(came.len());
        for label in came {
            match label {
                Ok(label) => labels.push(label),
                Err(fault) => meters::malformed(signer.did(), fault),
            }
        }
        let verdicts = signer.judge_all(&labels).await;
        for (label, verdict) in labels.into_iter().zip(verdicts) {
            meters::judged(signer.did(), verdict, &label);
            if verdict != Verdict::Foreign {
                self.add(row(label, verdict, seq), signer.verifies());
            }
        }
    }

    fn add(&mut self, row: LabelRow, verify: bool) {
        let key = (row.uri.clone(), row.val.clone());
        let is_later = self.rows.get(&key).is_none_or(|other| row.rank(verify) >= other.rank(verify));
        if is_later {
            self.rows.insert(key, row);
        }
    }
}

fn row(label: Label, verdict: Verdict, seq: Option<i64>) -> LabelRow {
    LabelRow {
        about: about(&label.uri),
        neg: label.neg == Some(true),
        cts: label.cts.1,
        exp: label.exp.map(|(_, exp)| exp),
        verified: verdict == Verdict::Good,
        uri: label.uri,
        val: label.val,
        cid: label.cid,
        seq,
    }
}

/// Why the writing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was told to stop.
    Stopped,
    /// Somebody else has the lease. The supervisor is about to find out; until then, nothing more is done.
    Stale,
}

/// What a write that is repeated until it succeeds does.
#[derive(Clone, Debug)]
enum Write {
    Follow { key: Option<String> },
    Restart,
    Labels { rows: Vec<LabelRow>, seq: Option<i64>, era: i64 },
}

/// Writes under the term of the worker.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) database: Database,
    pub(super) context: Context,
    pub(super) signer: Arc<Signer>,
}

impl Writer {
    /// Puts the labeler into effect, and tells from where to hear it.
    pub(super) async fn follow(&self) -> Result<LabelerPosition, End> {
        let key = self.signer.known().await.key.as_ref().map(ToString::to_string);
        self.insist(Write::Follow { key }).await.map(|(position, _)| position)
    }

    /// The labeler's numbers have begun anew.
    pub(super) async fn restart(&self) -> Result<(), End> {
        self.insist(Write::Restart).await.map(drop)
    }

    /// Writes what has come together, and leaves the batch empty; how many labels were news.
    pub(super) async fn save(&self, batch: &mut Batch, era: i64) -> Result<usize, End> {
        if batch.is_empty() {
            return Ok(0);
        }
        let Batch { rows, seq } = std::mem::take(batch);
        let rows = rows.into_values().collect();
        let (_, changed) = self.insist(Write::Labels { rows, seq, era }).await?;
        meters::changed(changed);
        Ok(changed)
    }

    /// Again and again until it is in: a database error moves no position.
    async fn insist(&self, write: Write) -> Result<(LabelerPosition, usize), End> {
        let mut wait = TRY_AGAIN.0;
        loop {
            self.context.progress.made();
            match self.once(write.clone()).await {
                Ok(done) => return Ok(done),
                Err(WriteError::Stale(term)) => {
                    tracing::warn!(lease.name = %term.name, lease.epoch = term.epoch.0, "write refused: another has the lease");
                    return Err(End::Stale);
                }
                Err(error) => {
                    meters::refused(&error);
                    tracing::warn!(%error, "labels not written; trying again");
                }
            }
            if self.context.stop.run_until_cancelled(sleep(wait)).await.is_none() {
                return Err(End::Stopped);
            }
            wait = (wait * 2).min(TRY_AGAIN.1);
        }
    }

    async fn once(&self, write: Write) -> Result<(LabelerPosition, usize), WriteError> {
        let (src, verify) = (self.signer.did().clone(), self.signer.verifies());
        let work = async move |tx: &mut crate::store::Tx| {
            let mut done = (LabelerPosition::default(), 0);
            match &write {
                Write::Follow { key } => done.0 = tx.follow_labeler(&src, verify, key.as_deref()).await?,
                Write::Restart => tx.restart_labeler(&src).await?,
                Write::Labels { rows, seq, era } => {
                    done.1 = tx.store_labels(&src, *era, verify, rows).await?;
                    if let Some(seq) = seq {
                        tx.save_labeler_seq(&src, *seq).await?;
                    }
                }
            }
            Ok(done)
        };
        self.database.fenced(&self.context.term, work).await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_what_the_registry_knows_by_that_address() {
        let (did, hex) = (Did::parse("did:plc:a").unwrap(), "ab".repeat(32));
        let tag = || About::Tag(did.clone(), "app_v1".parse().unwrap());
        for (uri, expected) in [
            ("did:plc:a".to_owned(), Some(About::Account(did.clone()))),
            (
                "at://did:plc:a/io.atcr.repo.page/app".into(),
                Some(About::Repository(did.clone(), "app".into())),
            ),
            (
                "at://did:plc:a/io.atcr.repo.page/org/app".into(),
                Some(About::Repository(did.clone(), "org/app".into())),
            ),
            (
                format!("at://did:plc:a/io.atcr.manifest/{hex}"),
                Some(About::Manifest(did.clone(), format!("sha256:{hex}"))),
            ),
            ("at://did:plc:a/io.atcr.tag/app_v1".into(), Some(tag())),
            ("at://did:plc:a/io.atcr.manifest/abc".into(), None),
            ("at://did:plc:a/io.atcr.tag/a/b".into(), None),
            ("at://did:plc:a/io.atcr.sailor.star/x".into(), None),
            ("at://did:plc:a/io.atcr.repo.page/".into(), None),
            ("at://alice.test/io.atcr.tag/x".into(), None),
            ("at://did:plc:a".into(), None),
            ("https://example.com".into(), None),
        ] {
            assert_eq!(about(&uri), expected, "{uri}");
        }
    }
}

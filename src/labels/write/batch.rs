//! What is kept of labels that came, until it is written.

use std::collections::HashMap;

use super::about::about;
use crate::labels::decode::{Fault, Label};
use crate::labels::meters;
use crate::labels::verify::{Signer, Verdict};
use crate::store::labels::LabelRow;

/// Labels that are on their way into the database, each subject and value once.
#[derive(Debug, Default)]
pub(in crate::labels) struct Batch {
    pub(super) rows: HashMap<(String, String), LabelRow>,
    pub(super) seq: Option<i64>,
}

impl Batch {
    pub(in crate::labels) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.seq.is_none()
    }

    pub(in crate::labels) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Everything up to this number is in the batch.
    pub(in crate::labels) fn passed(&mut self, seq: i64) {
        self.seq = self.seq.max(Some(seq));
    }

    /// Judges what came, all at once, and takes what is to be kept of it.
    pub(in crate::labels) async fn take(
        &mut self,
        came: Vec<Result<Label, Fault>>,
        seq: Option<i64>,
        signer: &Signer,
    ) {
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

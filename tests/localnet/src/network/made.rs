//! Repositories that are made up on request, so that a network of ten thousand of them costs neither memory nor time. What
//! a request is answered with follows from the number of the repository alone.

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::account::{Account, PageOf, Record};
use crate::ids;
use crate::records::{self, MANIFEST, PROFILE, Push, TAG};

/// What the hold of all made images is.
const HOLD: &str = "did:web:hold01.test";

/// How a repository is made up: a profile, then images and tags by halves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Records of each repository.
    pub records: usize,
    /// Bytes that each manifest carries beyond those of a real one.
    pub padding: usize,
    pub(super) number: u64,
}

impl Made {
    /// 2026-08-01T00:00:00Z: revisions of made repositories are those of the microseconds from here.
    pub(super) const AT_US: i64 = 1_785_542_400_000_000;

    /// So many records in each repository.
    pub fn records(records: usize) -> Self {
        Self { records, ..Self::default() }
    }

    /// Each manifest carries so many bytes more.
    pub fn padded(self, padding: usize) -> Self {
        Self { padding, ..self }
    }

    pub(super) fn collections(&self) -> impl Iterator<Item = &'static str> + use<> {
        let made = self.clone();
        [PROFILE, MANIFEST, TAG].into_iter().filter(move |collection| made.count(collection) > 0)
    }

    /// Records of a collection.
    fn count(&self, collection: &str) -> usize {
        match collection {
            PROFILE => self.records.min(1),
            MANIFEST => self.records.saturating_sub(1) / 2,
            TAG => self.records.saturating_sub(1).div_ceil(2),
            _ => 0,
        }
    }

    pub(super) fn page(&self, account: &Account, of: &PageOf<'_>) -> Vec<(String, Record)> {
        let count = self.count(of.collection);
        let key = |i: usize| self.key(of.collection, i);
        // Keys rise with the number, so the first beyond a key is found by halving.
        let numbers = match (of.beyond, of.reverse) {
            (None, _) => 0..count,
            (Some(beyond), true) => partition(count, |i| *key(i) <= *beyond)..count,
            (Some(beyond), false) => 0..partition(count, |i| *key(i) < *beyond),
        };
        let made = |i: usize| (key(i), self.record(account, of.collection, i));
        if of.reverse {
            numbers.take(of.limit).map(made).collect()
        } else {
            numbers.rev().take(of.limit).map(made).collect()
        }
    }

    pub(super) fn record_at(&self, account: &Account, collection: &str, rkey: &str) -> Option<Record> {
        let count = self.count(collection);
        let at = partition(count, |i| *self.key(collection, i) < *rkey);
        (at < count && self.key(collection, at) == rkey).then(|| self.record(account, collection, at))
    }

    fn key(&self, collection: &str, i: usize) -> String {
        match collection {
            PROFILE => "self".to_owned(),
            MANIFEST => self.digest_hex(i),
            _ => records::tag_rkey("made", &Self::tag(i)),
        }
    }

    fn digest_hex(&self, i: usize) -> String {
        format!("{:032x}{i:032x}", self.number + 1)
    }

    fn tag(i: usize) -> String {
        format!("v{i:06}")
    }

    fn record(&self, account: &Account, collection: &str, i: usize) -> Record {
        let at_us = Self::AT_US + i as i64;
        let value = match collection {
            PROFILE => records::profile(HOLD, at_us),
            MANIFEST => self.manifest(i, at_us),
            _ => {
                let digest = format!("sha256:{}", self.digest_hex(i / 2));
                records::tag(&account.did, "made", &Self::tag(i), &digest, at_us)
            }
        };
        // Of what the record follows from: hashing large ones would make a network in small slow.
        let cid = ids::cid(&json!([collection, self.number, i, self.padding]));
        Record { rev: account.rev.clone().unwrap_or_default(), cid, value }
    }

    fn manifest(&self, i: usize, at_us: i64) -> Value {
        let mut random = StdRng::seed_from_u64(self.number << 32 | i as u64);
        let mut manifest = records::image(Push { repository: "made", hold: HOLD, at_us }, &mut random);
        manifest["digest"] = format!("sha256:{}", self.digest_hex(i)).into();
        if self.padding > 0 {
            manifest["padding"] = "x".repeat(self.padding).into();
        }
        manifest
    }
}

/// How many of the numbers below `count` the condition holds for; it holds for none after the first that it does not.
fn partition(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

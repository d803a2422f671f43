//! What was found of a repository, on its way into the database. Owns what is written of it, in which order, and what of that
//! counts as news, and as news that the stream should have brought.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::meters;
use super::progress::Missed;
use crate::atproto::identity::Identity;
use crate::atproto::{Collection, Did, Micros, Rev};
use crate::store::backfill::{Changed, Gone, ListedPart, RepoOutcome, RepoRead, RepoState, RunTotals, Whole};
use crate::store::{BackfillRequest, IdentityDue, IdentityFound, MERGE_ROWS_MAX, Tx, WriteError};

/// What came of a repository.
pub(super) struct Done {
    pub(super) outcome: RepoOutcome,
    /// Whether it is served, and the word for why not.
    pub(super) standing: Option<(bool, Option<String>)>,
    pub(super) identity: Option<Identity>,
    /// But for what is only known once it is written.
    pub(super) totals: RunTotals,
}

impl Done {
    /// It is in this state, and nothing else is known.
    pub(super) fn new(state: RepoState) -> Self {
        let outcome = RepoOutcome {
            state,
            rev: None,
            is_listed: false,
            failures: 0,
            error: None,
            next_in: None,
            gone: Gone::AsBefore,
        };
        Self { outcome, standing: None, identity: None, totals: RunTotals::default() }
    }
}

/// What was found of one repository, or a part of it.
pub(super) struct Finding {
    pub(super) did: Did,
    /// The run that it counts for; 0: none.
    pub(super) run: i64,
    pub(super) wish: Option<BackfillRequest>,
    /// When its reading began.
    pub(super) began: Micros,
    /// The account's look-up, if one is due.
    pub(super) identity_due: Option<IdentityDue>,
    pub(super) listed: Option<Listed>,
    /// None: more of it follows.
    pub(super) done: Option<Done>,
}

/// What a listing showed.
pub(super) struct Listed {
    pub(super) part: ListedPart,
    /// Collections that were read to their end, once this is the last part.
    pub(super) complete: Vec<Collection>,
    /// Whether the index has had it whole before: what is older than the index, no stream has brought.
    pub(super) was_whole: bool,
    /// Bytes, as they came.
    pub(super) len: usize,
}

impl Finding {
    /// Records that it brings.
    pub(super) fn rows(&self) -> usize {
        self.listed.as_ref().map_or(0, |listed| listed.part.records.len())
    }

    /// Bytes that it holds.
    pub(super) fn len(&self) -> usize {
        self.listed.as_ref().map_or(0, |listed| listed.len)
    }

    /// None if nothing was read to its end.
    fn whole(&self) -> Option<Whole> {
        let listed = self.listed.as_ref().filter(|listed| !listed.complete.is_empty())?;
        let collections = listed.complete.clone();
        Some(Whole { did: self.did.clone(), rev: listed.part.rev, collections })
    }
}

/// What the writing of a finding changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) changed: Changed,
    /// Whether the stream should have brought what changed.
    is_missed: bool,
    over_limit: usize,
    /// The look-up that became due because the account is new.
    pub(super) identity_due: Option<IdentityDue>,
}

impl Tally {
    fn add(&mut self, changed: Changed) {
        for (collection, count) in changed {
            *self.changed.entry(collection).or_default() += count;
        }
    }

    /// What it adds to a run.
    pub(super) fn count_into(&self, totals: &mut RunTotals) {
        let changed = self.changed.values().sum::<usize>() as u64;
        totals.changed += changed;
        totals.missed += if self.is_missed { changed } else { 0 };
    }

    /// Tells the metrics, once it is committed.
    pub(super) fn tell(&self, did: &Did, missed: &Missed) {
        meters::over_limit(self.over_limit);
        for (collection, count) in &self.changed {
            meters::changed(*collection, *count);
            if self.is_missed {
                meters::missed(*collection, *count);
                missed.note(did, *collection, *count);
            }
        }
    }
}

/// The writing of findings of different repositories, all in one transaction; but for what their listings lack, if that is
/// more than one may delete: then a further one goes on.
#[derive(Clone)]
pub(super) struct Writing {
    findings: Vec<Arc<Finding>>,
    tallies: Vec<Tally>,
    is_merged: bool,
    /// How far the stream has to be past a change for having left it out.
    missed_after: Duration,
}

impl Writing {
    pub(super) fn new(findings: Vec<Arc<Finding>>, missed_after: Duration) -> Self {
        let tallies = vec![Tally::default(); findings.len()];
        Self { findings, tallies, is_merged: false, missed_after }
    }

    /// What changed by each of the findings.
    pub(super) fn into_tallies(self) -> Vec<Tally> {
        self.tallies
    }

    /// One transaction's part. True: it was the last.
    pub(super) async fn go_on(&mut self, tx: &mut Tx) -> Result<bool, WriteError> {
        if !self.is_merged {
            self.merge(tx).await?;
            self.is_merged = true;
        }
        if self.delete_unlisted(tx).await? == MERGE_ROWS_MAX {
            return Ok(false);
        }
        self.conclude(tx).await?;
        Ok(true)
    }

    /// The stream's position is read after the listing and before the merge: what the stream has brought by it is there.
    async fn merge(&mut self, tx: &mut Tx) -> Result<(), WriteError> {
        if self.findings.iter().all(|finding| finding.listed.is_none()) {
            return Ok(());
        }
        let passed = tx.stream_passed().await?;
        let all = self.findings.iter().zip(&mut self.tallies);
        let mut listed: Vec<(&Listed, &mut Tally)> =
            all.filter_map(|(finding, tally)| Some((finding.listed.as_ref()?, tally))).collect();
        let parts: Vec<&ListedPart> = listed.iter().map(|(listed, _)| &listed.part).collect();
        let merged = tx.merge(&parts).await?;
        for ((listed, tally), changed) in listed.iter_mut().zip(merged.changed) {
            tally.add(changed);
            tally.is_missed = listed.was_whole && has_passed(passed, listed.part.rev, self.missed_after);
            let due = merged.identities_due.iter().find(|due| due.did == listed.part.did);
            tally.identity_due = due.cloned();
        }
        if let Some((_, tally)) = listed.first_mut() {
            tally.over_limit = merged.over_limit;
        }
        Ok(())
    }

    /// How many records that was.
    async fn delete_unlisted(&mut self, tx: &mut Tx) -> Result<usize, WriteError> {
        let all = self.findings.iter().zip(&mut self.tallies);
        let (wholes, tallies): (Vec<Whole>, Vec<&mut Tally>) =
            all.filter_map(|(finding, tally)| Some((finding.whole()?, tally))).unzip();
        if wholes.is_empty() {
            return Ok(0);
        }
        let mut count = 0;
        for (tally, deleted) in tallies.into_iter().zip(tx.delete_unlisted(&wholes).await?) {
            count += deleted.values().sum::<usize>();
            tally.add(deleted);
        }
        Ok(count)
    }

    async fn conclude(&self, tx: &mut Tx) -> Result<(), WriteError> {
        let mut runs: BTreeMap<i64, RunTotals> = BTreeMap::new();
        let mut reads = Vec::with_capacity(self.findings.len());
        for (finding, tally) in self.findings.iter().zip(&self.tallies) {
            let Some(done) = &finding.done else { continue };
            reads.push(RepoRead {
                did: finding.did.clone(),
                at: finding.began,
                standing: done.standing.clone(),
                identity: done.identity.clone().map(IdentityFound::from),
                identity_due: tally.identity_due.clone().or_else(|| finding.identity_due.clone()),
                outcome: done.outcome.clone(),
            });
            let totals = runs.entry(finding.run).or_default();
            totals.records += done.totals.records;
            totals.changed += done.totals.changed;
            totals.missed += done.totals.missed;
            totals.requests += done.totals.requests;
            tally.count_into(totals);
        }
        tx.repos_read(&reads).await?;
        for wish in
            self.findings.iter().filter_map(|finding| finding.done.as_ref().and(finding.wish.as_ref()))
        {
            tx.backfill_done(wish).await?;
        }
        for (run, totals) in runs {
            tx.add_to_run(run, &totals).await?;
        }
        Ok(())
    }
}

/// Whether the stream has passed the time of this revision by so much that it should have brought what is found to differ.
fn has_passed(passed_us: Option<i64>, rev: Rev, by: Duration) -> bool {
    let margin = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    passed_us.is_some_and(|passed| passed.saturating_sub(margin) > rev.time().0)
}

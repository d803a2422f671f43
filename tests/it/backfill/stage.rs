//! The worker in this process, a network in small, and a database with its lease taken.

use std::sync::Arc;
use std::time::Duration;

use atcr_workers::atproto::Did;
use atcr_workers::atproto::guard::{GuardSettings, Guarded};
use atcr_workers::atproto::identity::{Dns, Resolver};
use atcr_workers::backfill::ask::Asker;
use atcr_workers::backfill::enumerate::Relays;
use atcr_workers::backfill::fetch::Fetcher;
use atcr_workers::backfill::pace::{Limits, Pace};
use atcr_workers::backfill::{Backfill, MISSED_AFTER};
use atcr_workers::store::Tx;
use leased_actors::lease::Term;
use localnet::{Net, NetOptions, records};
use serde_json::json;

use crate::store::fixture::Fixture;
use crate::support::eventually::eventually;
use crate::support::working::Working;

/// For what takes milliseconds, on a loaded machine.
pub(super) const SOON: Duration = Duration::from_secs(90);

pub(super) struct Stage {
    pub(super) fixture: Fixture,
    pub(super) net: Net,
    pub(super) term: Term,
}

impl Stage {
    /// Two PDSes, one relay, and nobody at work.
    pub(super) async fn new(fixture: Fixture) -> Self {
        let options = NetOptions { pdses: 2, named_pdses: true, ..NetOptions::default() };
        let (net, term) = (Net::start(options).await.unwrap(), fixture.term().await);
        Self { fixture, net, term }
    }

    /// A worker that runs once and stays.
    pub(super) fn worker(&self) -> Backfill {
        self.worker_that_waits(Duration::from_millis(500))
    }

    /// The same, whose requests wait so long for a host's pause.
    pub(super) fn worker_that_waits(&self, wait_max: Duration) -> Backfill {
        let guard = GuardSettings {
            allow_loopback: true,
            test_hosts: Some(self.net.test_hosts()),
            user_agent: "test".into(),
            timeout: Duration::from_secs(2),
            per_host: 2,
        };
        let (guarded, operator) = (Guarded::new(guard.clone()).unwrap(), Guarded::trusting(guard).unwrap());
        let millis = Duration::from_millis;
        let limits = Limits { per_host: 2, first: millis(20), last: millis(200), wait_max };
        let dns = Arc::new(Dns::new().unwrap());
        let resolver = Resolver::new(guarded.clone(), operator.clone(), &self.net.plc_url(), dns);
        Backfill {
            database: self.fixture.database.clone(),
            relays: Relays::new(self.net.relay_urls(), Asker::new(operator, Pace::new(limits))),
            fetcher: Fetcher::new(resolver, guarded, Pace::new(limits)),
            seeds: Vec::new(),
            interval: Duration::ZERO,
            concurrency: 4,
            missed_after: MISSED_AFTER,
        }
    }

    pub(super) fn start(&self, worker: Backfill) -> Working {
        Working::start(worker, self.term.clone())
    }

    /// One run from its beginning to its end.
    pub(super) async fn run_once(&self) {
        self.run_once_with(self.worker()).await;
    }

    pub(super) async fn run_once_with(&self, worker: Backfill) {
        let before = self.runs_ended().await;
        let working = self.start(worker);
        self.until_ended(before + 1).await;
        working.stop().await;
    }

    /// Waits until so many runs have ended.
    pub(super) async fn until_ended(&self, runs: usize) {
        eventually("the run ends", SOON, async || match self.runs_ended().await {
            ended if ended >= runs => Ok(()),
            _ => Err(self.fixture.lines(WAITING).await),
        })
        .await;
    }

    pub(super) async fn runs_ended(&self) -> usize {
        self.lines("SELECT reason AS line FROM backfill_run WHERE ended_at > 0 AND NOT given_up").await.len()
    }

    pub(super) async fn lines(&self, query: &str) -> Vec<String> {
        let mut lines = self.fixture.lines(query).await;
        lines.sort();
        lines
    }

    /// What the backfill knows of a repository.
    pub(super) async fn state(&self, did: &str) -> String {
        let query = format!("SELECT state AS line FROM backfill_repo WHERE did = '{did}'");
        self.lines(&query).await.join(",")
    }

    /// The tags that the index shows of an account.
    pub(super) async fn tags(&self, did: &str) -> Vec<String> {
        self.lines(&format!("SELECT rkey AS line FROM tags WHERE did = '{did}'")).await
    }

    /// Whether an account is shown, and the word for why not; nothing if there is none.
    pub(super) async fn shown(&self, did: &str) -> Vec<String> {
        let query = format!(
            "SELECT CASE WHEN active THEN 'shown' ELSE COALESCE(status, '-') END AS line FROM users WHERE did = '{did}'"
        );
        self.lines(&query).await
    }

    /// An account on this PDS with a tag, which relays list and no stream has brought.
    pub(super) fn account(&self, name: &str, pds: usize) -> String {
        let did = self.net.add_account(name);
        if pds > 0 {
            self.net.move_account(&did, pds);
        }
        self.tag(&did, "first");
        did
    }

    /// Writes a tag.
    pub(super) fn tag(&self, did: &str, tag: &str) {
        self.net.put(did, records::TAG, tag, self.tag_record(did, tag));
    }

    /// Writes a tag that no stream carries.
    pub(super) fn tag_unseen(&self, did: &str, tag: &str) {
        self.net.put_unseen(did, records::TAG, tag, self.tag_record(did, tag));
    }

    fn tag_record(&self, did: &str, tag: &str) -> serde_json::Value {
        let manifest = format!("at://{did}/io.atcr.manifest/{}", "ab".repeat(32));
        json!({
            "$type": "io.atcr.tag", "repository": "app", "tag": tag, "manifest": manifest,
            "createdAt": "2026-09-01T12:00:00Z", "updatedAt": "2026-09-01T12:00:00Z",
        })
    }

    /// Makes everything due now that is due later.
    pub(super) async fn let_it_be_due(&self) {
        self.fixture.execute("UPDATE backfill_repo SET next_at = 0 WHERE next_at IS NOT NULL").await;
    }

    /// Asks as the stream does, or an operator.
    pub(super) async fn ask(&self, did: Option<&str>, reason: &'static str) {
        let did = did.map(|did| Did::parse(did).unwrap());
        let work = async move |tx: &mut Tx| tx.ask_backfill(did.as_ref(), reason).await;
        self.fixture.database.fenced(&self.term, work).await.unwrap();
    }

    /// Waits until a query gives these lines.
    pub(super) async fn until(&self, query: &str, expected: &[&str]) {
        eventually(query, SOON, async || {
            let lines = self.lines(query).await;
            if lines == expected { Ok(()) } else { Err(lines) }
        })
        .await;
    }
}

const WAITING: &str = "SELECT did || ' ' || state || ' ' || COALESCE(last_error, '') AS line FROM backfill_repo
    WHERE state <> 'read'
    UNION ALL
    SELECT source || ' ' || collection || ' ' || COALESCE(last_error, '') FROM backfill_list WHERE state <> 'read'";

//! The outbox: what the stream brings is put in once, what is due is taken out with the same id and bytes each time, and
//! what may not go out is withheld with the reason.

mod any;
mod endpoints;
mod going_out;
mod pushes;
mod scans;

use std::collections::BTreeMap;
use std::time::Duration;

use atcr_workers::atproto::records::Scan;
use atcr_workers::atproto::{Change, Micros, Record};
use atcr_workers::outbox::{Attempted, DueDelivery, Rules, Site, Tiers, Trigger};
use atcr_workers::settings::{Secret, Tier};
use atcr_workers::store::outbox::{Due, Look};
use atcr_workers::store::webhooks::{Added, NewWebhook, User};
use atcr_workers::store::{Outcome, Tx};
use leased_actors::lease::Term;

use super::fixture::Fixture;
use super::samples::*;

const USER: &str = "did:plc:user";
const HOLD: &str = "did:web:hold.example";

/// For what takes two seconds, on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

/// What a user may have who pays.
fn all_triggers(max_webhooks: u32) -> Tiers {
    Tiers::of(&[Tier { name: "all".into(), price_ids: vec![], max_webhooks, all_triggers: true }])
}

fn rules(tiers: Tiers) -> Rules {
    Rules { tiers, site: Site::default(), give_up_after: Duration::from_secs(86_400) }
}

/// A database with one webhook of one user, who hosts `app` at a known hold.
struct Stage {
    fixture: Fixture,
    term: Term,
    webhook: i64,
}

impl Stage {
    /// With these triggers.
    async fn new(fixture: Fixture, triggers: &[Trigger]) -> Self {
        let term = fixture.term().await;
        let known = [present(USER, "self", 1, profile(None, 1)), present(HOLD, "self", 1, captain(USER))];
        fixture.apply(&term, &known).await;
        let webhook = add(&fixture, USER, triggers).await;
        Self { fixture, term, webhook }
    }

    /// As the stream does: one batch. How many deliveries it put in.
    async fn apply(&self, changes: &[Change]) -> usize {
        self.fixture.apply(&self.term, changes).await.put.values().sum()
    }

    /// As the sender does, with every trigger allowed.
    async fn due(&self) -> Due {
        self.due_with(rules(all_triggers(100))).await
    }

    async fn due_with(&self, rules: Rules) -> Due {
        self.look(rules, Look { busy: vec![], per_webhook: 20_000, limit: 20_000 }).await
    }

    async fn look(&self, rules: Rules, look: Look) -> Due {
        let work = async move |tx: &mut Tx| tx.due_deliveries(&rules, &look).await;
        self.fixture.database.fenced(&self.term, work).await.unwrap()
    }

    async fn attempted(&self, id: &str, result: Attempted) -> Outcome {
        let id = id.to_owned();
        let work = async move |tx: &mut Tx| tx.delivery_attempted(&id, &result).await;
        self.fixture.database.fenced(&self.term, work).await.unwrap()
    }

    /// Takes what is due, and has it delivered.
    async fn deliver(&self) -> Vec<DueDelivery> {
        let due = self.due().await.deliveries;
        for delivery in &due {
            self.attempted(&delivery.id, Attempted::Delivered { code: 200 }).await;
        }
        due
    }

    /// Deliveries as trigger, digest's number and tag, in the order in which they were put in.
    async fn put_in(&self) -> Vec<String> {
        let all =
            "SELECT trigger || ' ' || SUBSTR(digest, 68, 4) || ' ' || tag AS line FROM webhook_deliveries
            ORDER BY created_at, trigger";
        self.fixture.lines(all).await.iter().map(|line| line.trim_end().to_owned()).collect()
    }

    /// How deliveries stand.
    async fn standing(&self) -> BTreeMap<String, usize> {
        let all = "SELECT status || COALESCE(': ' || reason, '') AS line FROM webhook_deliveries";
        let mut counts = BTreeMap::new();
        for line in self.fixture.lines(all).await {
            *counts.entry(line).or_default() += 1;
        }
        counts
    }
}

async fn add(fixture: &Fixture, user: &str, triggers: &[Trigger]) -> i64 {
    let new = NewWebhook {
        user: User::Did(did(user)),
        url: "https://ci.example/hook".into(),
        secret: Some(Secret::stored("whsec_c2VjcmV0".into())),
        triggers: triggers.to_vec(),
    };
    match fixture.leases.add_webhook(new, all_triggers(100)).await.unwrap() {
        Added::As(id) => id,
        refused => panic!("{refused:?}"),
    }
}

/// A scan of the manifest number `n` with so many critical findings.
fn scanned(n: i64, critical: i64, at: i64) -> Record {
    let Record::Scan(scan) = scan(USER, "app", 1_000 + n) else { panic!("a scan is a scan") };
    let total = critical + 1;
    Record::Scan(Scan { critical, total, scanned_at: Micros(at), ..scan })
}

fn json(delivery: &DueDelivery) -> serde_json::Value {
    serde_json::from_str(&delivery.payload).unwrap()
}

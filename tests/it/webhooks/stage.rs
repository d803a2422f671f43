//! The worker in this process, a receiver, and a database with its lease taken. Deliveries are put into the outbox as the
//! index puts them, with their payloads made.

use std::sync::Arc;
use std::time::Duration;

use atcr_workers::atproto::guard::{GuardSettings, Guarded};
use atcr_workers::outbox::{Rules, Site, Tiers};
use atcr_workers::settings::Tier;
use atcr_workers::webhooks::{ChatHosts, LANES_PER_HOST, Webhooks};
use leased_actors::lease::Term;
use localnet::ids::now_us;
use localnet::webhooks::{Received, Receiver};
use serde_json::{Value, json};

use crate::store::fixture::Fixture;
use crate::support::eventually::eventually;
use crate::support::working::Working;

/// For what takes milliseconds, on a loaded machine.
pub(super) const SOON: Duration = Duration::from_secs(90);

/// The example of Standard Webhooks.
pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(super) struct Stage {
    pub(super) fixture: Fixture,
    pub(super) receiver: Receiver,
    pub(super) term: Term,
}

impl Stage {
    pub(super) async fn new(fixture: Fixture) -> Self {
        let (receiver, term) = (Receiver::start(0).await.unwrap(), fixture.term().await);
        Self { fixture, receiver, term }
    }

    /// The worker, for which this machine is part of the public network.
    pub(super) fn worker(&self) -> Webhooks {
        self.worker_with(|_| {})
    }

    pub(super) fn worker_with(&self, change: impl FnOnce(&mut GuardSettings)) -> Webhooks {
        let mut guard = GuardSettings {
            allow_loopback: true,
            test_hosts: None,
            user_agent: "test".into(),
            timeout: Duration::from_secs(10),
            per_host: LANES_PER_HOST,
        };
        change(&mut guard);
        let tier = Tier { name: "all".into(), price_ids: Vec::new(), max_webhooks: 10, all_triggers: true };
        let rules = Rules {
            tiers: Tiers::of(&[tier]),
            site: Site::default(),
            give_up_after: Duration::from_secs(24 * 3600),
        };
        let host = |host: String| vec![host.parse().unwrap()];
        Webhooks {
            database: self.fixture.database.clone(),
            rules: Arc::new(rules),
            timeout: guard.timeout,
            guarded: Guarded::new(guard).unwrap(),
            chat_hosts: ChatHosts { discord: host(self.receiver.host()), slack: host("slack.test".into()) },
        }
    }

    pub(super) fn start(&self, worker: Webhooks) -> Working {
        self.start_under(worker, self.term.clone())
    }

    pub(super) fn start_under(&self, worker: Webhooks, term: Term) -> Working {
        Working::start(worker, term)
    }

    /// A user of its own with a webhook to this path of the receiver.
    pub(super) async fn webhook(&self, id: i64, path: &str) {
        self.webhook_to(id, &format!("{}{path}", self.receiver.url()), Some(SECRET)).await;
    }

    pub(super) async fn webhook_to(&self, id: i64, url: &str, secret: Option<&str>) {
        let secret = secret.map_or("NULL".to_owned(), |secret| format!("'{secret}'"));
        let user = format!("did:plc:user{id}");
        self.fixture.execute(&format!("INSERT INTO users (did, first_seen) VALUES ('{user}', 1)")).await;
        self.fixture
            .execute(&format!(
                "INSERT INTO webhooks (id, user_did, url, secret, triggers, created_at, updated_at)
                 VALUES ({id}, '{user}', '{url}', {secret}, 15, 1, 1)"
            ))
            .await;
    }

    /// Deliveries of the webhook by their numbers, due now.
    pub(super) async fn deliveries(&self, webhook: i64, numbers: std::ops::Range<u32>) {
        let now = now_us();
        let numbers: Vec<u32> = numbers.collect();
        for some in numbers.chunks(500) {
            let row = |number: &u32| row(webhook, *number, now, "push", &payload_of(*number));
            let rows: Vec<String> = some.iter().map(row).collect();
            self.put(&rows.join(", ")).await;
        }
    }

    /// A delivery with this payload.
    pub(super) async fn delivery_of(&self, webhook: i64, number: u32, trigger: &str, payload: &Value) {
        self.put(&row(webhook, number, now_us(), trigger, payload)).await;
    }

    async fn put(&self, rows: &str) {
        self.fixture
            .execute(&format!(
                "INSERT INTO webhook_deliveries (id, webhook_id, trigger, dedupe_key, repository, digest, tag, event,
                 payload, status, next_attempt_at, created_at, asked_at) VALUES {rows}"
            ))
            .await;
    }

    /// Waits until the receiver has so many requests at a path, and gives them.
    pub(super) async fn until_received(&self, path: &str, count: usize) -> Vec<Received> {
        eventually(&format!("{count} requests at {path}"), SOON, async || {
            let received = self.receiver.received_at(path);
            if received.len() >= count { Ok(received) } else { Err(received.len()) }
        })
        .await
    }

    /// Waits until so many deliveries of the webhook have this status.
    pub(super) async fn until_status(&self, webhook: i64, status: &str, count: usize) {
        eventually(&format!("{count} are {status}"), SOON, async || {
            let all = self.statuses(webhook).await;
            let found = all.iter().filter(|one| one.starts_with(&format!("{status} "))).count();
            if found == count { Ok(()) } else { Err(all.into_iter().take(5).collect::<Vec<_>>()) }
        })
        .await;
    }

    /// Status, attempts and error of each delivery of the webhook.
    pub(super) async fn statuses(&self, webhook: i64) -> Vec<String> {
        let query = format!(
            "SELECT status || ' ' || attempt || ' ' || COALESCE(last_error, '') AS line FROM webhook_deliveries
             WHERE webhook_id = {webhook} ORDER BY id"
        );
        self.fixture.lines(&query).await
    }

    /// Makes due now what is due later.
    pub(super) async fn let_it_be_due(&self) {
        let due = "UPDATE webhook_deliveries SET next_attempt_at = 1 WHERE status = 'pending'";
        self.fixture.execute(due).await;
    }
}

/// The id of a delivery.
pub(super) fn id(webhook: i64, number: u32) -> String {
    format!("whd_{:0>26}", format!("{webhook}x{number:06}"))
}

fn payload_of(number: u32) -> Value {
    json!({
        "trigger": "push",
        "push_data": {
            "pushed_at": "2026-09-01T12:00:00Z", "pusher": "alice.test", "pusher_did": "did:plc:alice",
            "tag": "latest", "digest": format!("sha256:{number:064x}"),
        },
        "repository": { "name": "hello", "repo_name": "alice.test/hello", "repo_url": "https://atcr.example/r/hello" },
        "hold": { "did": "did:web:hold01.test", "endpoint": "https://hold01.test" },
    })
}

fn row(webhook: i64, number: u32, now: i64, trigger: &str, payload: &Value) -> String {
    let (id, payload) = (id(webhook, number), payload.to_string().replace('\'', "''"));
    let event = json!({ "kind": "test", "at": 1 });
    format!(
        "('{id}', {webhook}, '{trigger}', 'key{number}', 'hello', 'sha256:{number}', 'latest', '{event}', '{payload}', 'pending',
         {now}, {now}, {now})"
    )
}

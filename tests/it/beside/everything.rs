//! An instance with every worker on, and a network that gives each of them something to do.

use std::{fs, io::Write};

use localnet::{
    network::{Curve, STRIPE_KEY},
    records::{self, Push},
};
use rand::{SeedableRng, rngs::StdRng};
use tempfile::NamedTempFile;

use crate::{
    billing::TIERS,
    support::{
        eventually::eventually_blocking,
        http,
        place::Kind,
        process::Instance,
        stage::{PATIENCE, SETTINGS, Stage},
    },
};

/// One metric of each worker that has something to tell only once it has worked.
const WORKED: &[&str] = &[
    "atcr_index_records_changed_total",
    "atcr_backfill_last_run_end_timestamp_seconds",
    "atcr_labeler_labels_total",
    "atcr_outbox_deliveries_put_total",
    "atcr_billing_last_refresh_timestamp_seconds",
    "atcr_cleanup_last_sweep_timestamp_seconds",
    "atcr_hold_health_holds",
];

pub(super) struct Everything {
    pub(super) stage: Stage,
    user: String,
    _settings: NamedTempFile,
    _key: NamedTempFile,
}

impl Everything {
    /// On a file of its own, with a hold, a user with a webhook that pays, and a label.
    pub(super) async fn new() -> Self {
        let [mut settings, mut key] = std::array::from_fn(|_| NamedTempFile::new().unwrap());
        write!(settings, "{}{TIERS}", fs::read_to_string(SETTINGS).unwrap()).unwrap();
        let stage = Stage::new(Kind::Sqlite).await.with_file(settings.path());
        let net = stage.net.clone();
        let registry = net.trust_registry(Curve::P256, 3);
        writeln!(key, "{}", registry.signing_key).unwrap();
        let user = net.add_account("pusher");
        let customer = net.add_customer("did", &user);
        net.subscribe(&customer, &["price_pro"]);
        net.labeler().say(&user, "!warn");
        let webhook = format!(
            "INSERT INTO users (did, first_seen) VALUES ('{user}', 1);
             INSERT INTO webhooks (id, user_did, url, triggers, created_at, updated_at)
             VALUES (1, '{user}', '{}/hook', 8, 1, 1)",
            net.webhooks().url()
        );
        stage.place.execute(&webhook).await;
        let stage = ["BACKFILL", "WEBHOOKS", "CLEANUP", "HOLD_HEALTH"]
            .iter()
            .fold(stage, |stage, worker| stage.with(&format!("ATCR__{worker}__ENABLED"), "true"))
            .with("ATCR__BACKFILL__RELAY_URLS", &net.relay_urls().join(","))
            .with("ATCR__LABELER__DID", &net.labeler().did())
            .with("ATCR__HOLD_HEALTH__INTERVAL", "1s")
            .with("ATCR__BILLING__STRIPE_URL", &net.stripe_url())
            .with("ATCR__BILLING__STRIPE_SECRET_KEY", STRIPE_KEY)
            .with("ATCR__REGISTRY__DID", &registry.did)
            .with("ATCR__REGISTRY__SIGNING_KEY", key.path().to_str().unwrap())
            .with("ATCR__REGISTRY__MANAGED_HOLDS", &net.add_hold("hold1", &["swabbie", "deckhand", "bosun"]));
        Self { stage, user, _settings: settings, _key: key }
    }

    /// An instance of which every worker has done something; it is alone.
    pub(super) fn worked(&self) -> Instance {
        let instance = self.stage.start("all");
        self.stage.changes(1, 100);
        self.push();
        eventually_blocking("every worker has worked", PATIENCE * 2, || {
            let text = metrics(&instance);
            let missing: Vec<_> = WORKED.iter().filter(|name| !text.contains(**name)).collect();
            if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}")) }
        });
        instance
    }

    fn push(&self) {
        let push =
            Push { repository: "hello", hold: &self.stage.seeded.hold, at_us: localnet::ids::now_us() };
        let manifest = records::image(push, &mut StdRng::seed_from_u64(1));
        let rkey = records::digest_rkey(manifest["digest"].as_str().unwrap()).to_owned();
        self.stage.net.put(&self.user, records::MANIFEST, &rkey, manifest);
    }
}

/// What `/metrics` says.
pub(super) fn metrics(instance: &Instance) -> String {
    http::get(&format!("http://{}/metrics", instance.admin_address())).unwrap().body
}

//! Instances of the program: two holds of which one is away, a take-over in the middle of a refresh, and what is never logged.

use std::collections::BTreeMap;
use std::io::Write;

use localnet::network::{Curve, Fault, On, STRIPE_KEY, Site};
use rustix::process::Signal;
use tempfile::NamedTempFile;

use crate::support::eventually::{eventually, eventually_blocking};
use crate::support::place::{Kind, Place, on_both_databases};
use crate::support::process::{Exit, Instance};
use crate::support::stage::{PATIENCE, SETTINGS, Stage};

on_both_databases!(
    from_subscribing_to_canceling_with_two_holds_of_which_one_is_away,
    after_a_kill_in_the_middle_of_a_refresh_the_successor_does_it_all,
    no_part_of_a_secret_is_logged,
);

/// What users pay for in these tests.
pub(crate) const TIERS: &str = r#"
[billing]
tiers = [
    { name = "free", price_ids = [], max_webhooks = 1, all_triggers = false },
    { name = "pro", price_ids = ["price_pro", "price_pro_year"], max_webhooks = 5, all_triggers = false },
    { name = "team", price_ids = ["price_team", "price_team_year"], max_webhooks = 50, all_triggers = true },
]
"#;

/// A stage with holds that trust a registry, and the settings for billing.
pub(super) struct Office {
    pub(super) stage: Stage,
    settings: NamedTempFile,
    pub(super) key: NamedTempFile,
    pub(super) holds: [String; 2],
}

impl Office {
    /// Each 300 ms a refresh, from the Stripe of the network in small.
    pub(super) async fn open(kind: Kind) -> Office {
        Office::open_with(kind, TIERS).await
    }

    pub(super) async fn open_with(kind: Kind, tiers: &str) -> Office {
        let stage = Stage::bare(Place::fresh(kind).await).await.quick();
        let (exit, text) = stage.command(&["migrate"]);
        assert_eq!(exit, Exit::Code(0), "{text}");
        let holds =
            ["hold1", "hold2"].map(|name| stage.net.add_hold(name, &["swabbie", "deckhand", "bosun"]));
        let registry = stage.net.trust_registry(Curve::P256, 3);
        let [mut settings, mut key] = std::array::from_fn(|_| NamedTempFile::new().unwrap());
        write!(settings, "{}{tiers}", std::fs::read_to_string(SETTINGS).unwrap()).unwrap();
        writeln!(key, "{}", registry.signing_key).unwrap();
        let stripe = stage.net.stripe_url();
        let stage = stage
            .with("ATCR__JETSTREAM__ENABLED", "false")
            .with("ATCR__BILLING__STRIPE_URL", &stripe)
            .with("ATCR__BILLING__STRIPE_SECRET_KEY", STRIPE_KEY)
            .with("ATCR__BILLING__INTERVAL", "300ms")
            .with("ATCR__REGISTRY__DID", &registry.did)
            .with("ATCR__REGISTRY__SIGNING_KEY", key.path().to_str().unwrap())
            .with("ATCR__REGISTRY__MANAGED_HOLDS", &holds.join(","));
        Office { stage, settings, key, holds }
    }

    /// The same with a setting by its environment variable.
    pub(super) fn with(mut self, variable: &str, value: &str) -> Office {
        self.stage = self.stage.with(variable, value);
        self
    }

    pub(super) fn start(&self, label: &str) -> Instance {
        let environment: BTreeMap<_, _> = self.stage.environment(label);
        let environment: Vec<_> = environment.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        Instance::spawn(&["--settings", self.settings.path().to_str().unwrap(), "run"], &environment)
    }

    /// Makes an account a member of both holds.
    pub(super) fn member(&self, did: &str) {
        for hold in &self.holds {
            let crew = localnet::records::crew(did, 1_788_264_000_000_000);
            self.stage.net.put_unseen(hold, localnet::records::CREW, &did[did.len() - 8..], crew);
        }
    }

    /// Waits until the holds say so of a user.
    pub(super) async fn until_tiers(&self, did: &str, expected: [&str; 2]) {
        eventually(&format!("{did} is {expected:?}"), PATIENCE, async || {
            let tiers =
                self.holds.each_ref().map(|hold| self.stage.net.tier_of(hold, did).unwrap_or_default());
            if tiers == expected { Ok(()) } else { Err(tiers) }
        })
        .await;
    }
}

/// Waits until one of them has the lease, and tells which by its place.
#[track_caller]
fn until_one_has_it(instances: &[&Instance]) -> usize {
    let has_it = |instance: &Instance| {
        instance.metric("lease_state", &[("lease", "billing"), ("state", "running")]) == Some(1.0)
    };
    eventually_blocking("one instance runs billing", PATIENCE, || {
        instances.iter().position(|instance| has_it(instance)).ok_or("nobody")
    })
}

async fn from_subscribing_to_canceling_with_two_holds_of_which_one_is_away(kind: Kind) {
    let office = Office::open(kind).await;
    let net = office.stage.net.clone();
    let did = office.stage.seeded.users[0].clone();
    office.member(&did);
    let second = On::site(Site::Hosts).host("hold2.test");
    net.set_fault(second, Fault::Status(503));
    let mut instance = office.start("one");
    let customer = net.add_customer("did", &did);
    let sub = net.subscribe(&customer, &["price_pro"]);
    office.until_tiers(&did, ["deckhand", "free"]).await;
    net.set_prices(&sub, &["price_team"]);
    office.until_tiers(&did, ["bosun", "free"]).await;
    assert_eq!(instance.metric("atcr_billing_holds_away", &[]), Some(1.0));
    net.clear_faults();
    office.until_tiers(&did, ["bosun", "bosun"]).await;
    // Late, but not for too long.
    net.set_subscription(&sub, "past_due");
    eventually_blocking("the late one is seen", PATIENCE, || {
        match instance.metric("atcr_billing_subscriptions", &[("status", "past_due")]) {
            Some(1.0) => Ok(()),
            other => Err(other),
        }
    });
    office.until_tiers(&did, ["bosun", "bosun"]).await;
    net.set_subscription(&sub, "canceled");
    office.until_tiers(&did, ["swabbie", "swabbie"]).await;
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(0));
}

/// The lists of both are cut into pages, and the second page of the first never comes.
async fn after_a_kill_in_the_middle_of_a_refresh_the_successor_does_it_all(kind: Kind) {
    let office = Office::open(kind).await;
    let net = office.stage.net.clone();
    for n in 0..150 {
        let customer = net.add_customer("did", &format!("did:plc:user{n:03}"));
        net.subscribe(&customer, &["price_pro"]);
    }
    let list = On::site(Site::Stripe).path("/v1/subscriptions");
    net.set_fault(list.clone().after(1), Fault::Never);
    let mut instances = vec![office.start("one"), office.start("other")];
    let first = until_one_has_it(&instances.iter().collect::<Vec<_>>());
    eventually("the second page is awaited", PATIENCE, async || {
        if net.requests(&list) >= 2 { Ok(()) } else { Err(()) }
    })
    .await;
    let count = "SELECT CAST(COUNT(*) AS TEXT) AS line FROM billing_subscriptions";
    assert_eq!(office.stage.place.lines(count).await, ["0"], "half a list changes nothing");
    let mut killed = instances.remove(first);
    killed.signal(Signal::KILL);
    killed.wait_exit(PATIENCE);
    net.clear_faults();
    eventually("the successor has read it all", PATIENCE, async || {
        let lines = office.stage.place.lines(count).await;
        if lines == ["150"] { Ok(()) } else { Err(lines) }
    })
    .await;
    let history = "SELECT DISTINCT CAST(epoch AS TEXT) AS line FROM lease_event WHERE name = 'billing' AND what = 'acquired'";
    assert_eq!(office.stage.place.lines(history).await.len(), 2);
}

/// The Stripe of the network in small repeats the whole key in its refusals.
async fn no_part_of_a_secret_is_logged(kind: Kind) {
    let wrong = "rk_live_51Oh0WrongKeyThatNobodyMaySee";
    let office = Office::open(kind).await.with("ATCR__BILLING__STRIPE_SECRET_KEY", wrong);
    let office = office.with("ATCR__TELEMETRY__LEVEL", "trace");
    let private = std::fs::read_to_string(office.key.path()).unwrap();
    let mut instance = office.start("one");
    instance.wait_for_line("the refusal is told", PATIENCE, |line| {
        line.contains("stripe does not take billing.stripe_secret_key")
    });
    instance.signal(Signal::TERM);
    instance.wait_exit(PATIENCE);
    // The right one, and tokens on their way.
    let office = office.with("ATCR__BILLING__STRIPE_SECRET_KEY", STRIPE_KEY);
    let did = office.stage.seeded.users[0].clone();
    office.member(&did);
    office.stage.net.subscribe(&office.stage.net.add_customer("did", &did), &["price_pro"]);
    let mut other = office.start("other");
    office.until_tiers(&did, ["deckhand", "deckhand"]).await;
    other.signal(Signal::TERM);
    other.wait_exit(PATIENCE);
    for line in instance.lines().into_iter().chain(other.lines()) {
        for secret in ["WrongKey", "rk_live", &STRIPE_KEY[8..], private.trim(), "Bearer ", "eyJ"] {
            assert!(!line.contains(secret), "{secret} in {line}");
        }
    }
}

//! The worker in this process, Stripe and holds in small, and a database with its lease taken.

use std::sync::Arc;
use std::time::Duration;

use atcr_workers::atproto::guard::{GuardSettings, Guarded};
use atcr_workers::atproto::identity::{Dns, Resolver};
use atcr_workers::atproto::key::signing::PrivateKey;
use atcr_workers::atproto::{Change, Did};
use atcr_workers::billing::Billing;
use atcr_workers::billing::desired::Ranks;
use atcr_workers::billing::holds::Holds;
use atcr_workers::billing::stripe::Stripe;
use atcr_workers::billing::token::Signer;
use atcr_workers::settings::{Secret, Tier};
use leased_actors::lease::Term;
use localnet::network::{Curve, On, Registry, STRIPE_KEY, Site};
use localnet::{Net, NetOptions, records};

use crate::store::fixture::Fixture;
use crate::support::eventually::eventually;
use crate::support::working::Working;

/// For what takes milliseconds, on a loaded machine.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// Every user's rank, by the last letters of their DID's name.
pub(super) const RANKS: &str =
    "SELECT user_did || ' ' || status || ' ' || CAST(tier_rank AS TEXT) AS line FROM billing_subscriptions";

/// What holds know: user, hold, desired and applied rank, the tier's name, and whether they wait for a crew record.
pub(super) const TOLD: &str = "SELECT user_did || ' ' || hold_did || ' ' || CAST(desired_rank AS TEXT) || ' '
    || COALESCE(CAST(applied_rank AS TEXT), '-') || ' ' || COALESCE(tier_name, '-')
    || CASE WHEN awaits_crew THEN ' awaits crew' ELSE '' END
    || CASE WHEN next_attempt IS NULL THEN '' ELSE ' due' END AS line FROM crew_tier_sync";

pub(super) struct Stage {
    pub(super) fixture: Fixture,
    pub(super) net: Net,
    pub(super) term: Term,
    pub(super) registry: Registry,
}

pub(super) fn tiers() -> Vec<Tier> {
    let tier = |name: &str, prices: &[&str]| Tier {
        name: name.to_owned(),
        price_ids: prices.iter().map(|price| (*price).to_owned()).collect(),
        max_webhooks: 1,
        all_triggers: false,
    };
    vec![tier("free", &[]), tier("pro", &["price_pro", "price_pro_year"]), tier("team", &["price_team"])]
}

impl Stage {
    /// A hold `hold1.test` with three tiers, and nobody at work.
    pub(super) async fn new(fixture: Fixture) -> Self {
        let net = Net::start(NetOptions::default()).await.unwrap();
        let registry = net.trust_registry(Curve::K256, 1);
        net.add_hold("hold1", &["swabbie", "deckhand", "bosun"]);
        let term = fixture.term().await;
        Self { fixture, net, term, registry }
    }

    /// A worker that refreshes each 300 ms and manages these holds.
    pub(super) fn worker(&self, holds: &[&str]) -> Billing {
        let guard = GuardSettings {
            allow_loopback: true,
            test_hosts: Some(self.net.test_hosts()),
            user_agent: "test".into(),
            timeout: Duration::from_secs(2),
            per_host: 2,
        };
        let (guarded, operator) = (Guarded::new(guard.clone()).unwrap(), Guarded::trusting(guard).unwrap());
        let dns = Arc::new(Dns::new().unwrap());
        let resolver = Resolver::new(guarded.clone(), operator.clone(), &self.net.plc_url(), dns);
        let key: Secret = STRIPE_KEY.parse().unwrap();
        let signer = Signer {
            issuer: Did::parse(&self.registry.did).unwrap(),
            key: PrivateKey::read(&self.registry.signing_key).unwrap(),
        };
        Billing {
            database: self.fixture.database.clone(),
            stripe: Stripe::new(operator, &self.net.stripe_url(), &key),
            ranks: Ranks::new(&tiers(), Duration::from_secs(7 * 86_400)),
            holds: Holds::new(resolver, guarded, signer),
            managed: holds.iter().map(|did| Did::parse(did).unwrap()).collect(),
            interval: Duration::from_millis(300),
            look_every: Duration::from_millis(30),
            timeout: Duration::from_secs(2),
        }
    }

    pub(super) fn start(&self, worker: Billing) -> Working {
        self.start_under(worker, self.term.clone())
    }

    pub(super) fn start_under(&self, worker: Billing, term: Term) -> Working {
        Working::start(worker, term)
    }

    /// An account that is of the crew of these holds, and a customer of its own; DID and customer.
    pub(super) fn member(&self, name: &str, holds: &[&str]) -> (String, String) {
        let did = self.net.add_account(name);
        for hold in holds {
            self.join(hold, name, &did);
        }
        let customer = self.net.add_customer("did", &did);
        (did, customer)
    }

    /// The hold writes a crew record, which the index does not hear of.
    pub(super) fn join(&self, hold: &str, rkey: &str, did: &str) {
        let mut crew = records::crew(did, 1_788_264_000_000_000);
        crew.as_object_mut().unwrap().remove("tier");
        self.net.put_unseen(hold, records::CREW, rkey, crew);
    }

    /// The index hears of records.
    pub(super) async fn index(&self, changes: &[Change]) {
        self.fixture.apply(&self.term, changes).await;
    }

    /// Waits until a query gives these lines, in any order.
    pub(super) async fn until(&self, query: &str, expected: &[String]) {
        let mut expected = expected.to_vec();
        expected.sort();
        eventually(query, SOON, async || {
            let lines = self.lines(query).await;
            if lines == expected { Ok(()) } else { Err(lines) }
        })
        .await;
    }

    pub(super) async fn lines(&self, query: &str) -> Vec<String> {
        let mut lines = self.fixture.lines(query).await;
        lines.sort();
        lines
    }

    /// How often Stripe's list was asked for, or one of them by id.
    pub(super) fn asked(&self) -> u64 {
        self.net.requests(&On::site(Site::Stripe).path("/v1/subscriptions"))
    }

    /// Waits until Stripe was asked so many times more.
    pub(super) async fn until_asked(&self, more: u64) {
        let before = self.asked();
        eventually("stripe is asked", SOON, async || {
            let asked = self.asked() - before;
            if asked >= more { Ok(()) } else { Err(asked) }
        })
        .await;
    }

    /// What a hold was told, as `rank` or `rank error`, in order.
    pub(super) fn updates(&self, hold: &str) -> Vec<String> {
        let of = self.net.tier_updates().into_iter().filter(|update| update.hold == hold);
        let line = |update: localnet::network::TierUpdate| match update.refused {
            None => update.rank.to_string(),
            Some(error) => format!("{} {error}", update.rank),
        };
        of.map(line).collect()
    }
}

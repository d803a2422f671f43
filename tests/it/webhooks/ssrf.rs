//! Addresses that strangers choose and that lead to where they must not: as they are, by names that resolve to them, and by
//! a name that leads elsewhere the second time. The test runs in a network of its own, in which every one of them would
//! answer.

mod world;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use atcr_workers::atproto::Did;
use atcr_workers::atproto::guard::{GuardSettings, Guarded};
use atcr_workers::atproto::identity::{Dns, HandleCheck, IdentityCache, IdentityError, Resolver};
use atcr_workers::backfill::fetch::Fetcher;
use atcr_workers::backfill::pace::{Limits, Pace};
use atcr_workers::health::{Asker, HoldHealth, Options, State};
use tokio_util::sync::CancellationToken;

use self::world::{PUBLIC, World};
use super::stage::{SOON, Stage};
use crate::store::fixture::Fixture;
use crate::support::eventually::eventually;

const INSIDE: &str = "ATCR_TEST_OWN_NETWORK";

/// The ranges of IANA's special-purpose registries, one address of each, and the clouds' metadata service.
pub(super) const FORBIDDEN: [&str; 32] = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "3fff::1",
    "fc00::1",
    "fd00::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
];

// S40: go-gitea/gitea#4624, gogs#5366, gogs#7031
#[test]
fn nothing_that_a_stranger_names_leads_off_the_public_network() {
    if std::env::var_os(INSIDE).is_none() {
        let mut inside = Command::new("unshare");
        inside.args(["--user", "--map-root-user", "--net", "--mount"]).arg(std::env::current_exe().unwrap());
        let name = "webhooks::ssrf::nothing_that_a_stranger_names_leads_off_the_public_network";
        inside.args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
        let output = inside.output().expect("unshare (util-linux) runs");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{inside:?}:\n{said}");
        return;
    }
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let world = World::start().await;
        webhooks(&world).await;
        identities_and_holds(&world).await;
        health_of_holds(&world).await;
        a_name_that_changes(&world).await;
        a_name_that_leads_to_both(&world).await;
    });
}

/// The settings of an operator who has changed nothing.
fn guard() -> GuardSettings {
    GuardSettings {
        allow_loopback: false,
        test_hosts: None,
        user_agent: "test".into(),
        timeout: Duration::from_secs(10),
        per_host: 16,
    }
}

async fn stage(urls: &[String]) -> Stage {
    let stage = Stage::new(Fixture::sqlite().await).await;
    for (at, url) in urls.iter().enumerate() {
        let webhook = i64::try_from(at).unwrap() + 1;
        stage.webhook_to(webhook, url, None).await;
        stage.deliveries(webhook, 0..1).await;
    }
    stage
}

async fn webhooks(world: &World) {
    let literal = |address: &str| match address.parse().unwrap() {
        IpAddr::V4(address) => format!("https://{address}/hook"),
        IpAddr::V6(address) => format!("https://[{address}]/hook"),
    };
    let mut urls: Vec<String> = FORBIDDEN.iter().map(|address| literal(address)).collect();
    urls.extend(FORBIDDEN.iter().enumerate().map(|(at, _)| format!("https://{}/hook", world::name_of(at))));
    let others = ["localhost", "LOCALHOST:443", "127.1", "2130706433", "0x7f.0.0.1", "127.0.0.1."];
    urls.extend(others.map(|host| format!("https://{host}/hook")));
    urls.extend(
        ["http://93.184.216.34/hook", "https://user@93.184.216.34/", "ftp://93.184.216.34/"]
            .map(str::to_owned),
    );
    let stage = stage(&urls).await;
    let working = stage.start(stage.worker_with(|settings| *settings = guard()));
    for (at, url) in urls.iter().enumerate() {
        let webhook = i64::try_from(at).unwrap() + 1;
        stage.until_status(webhook, "failed", 1).await;
        let statuses = stage.statuses(webhook).await;
        let why = &statuses[0];
        let refused =
            why.contains("not on the public network") || why.contains("the address cannot be asked");
        assert!(refused, "{url}: {why}");
    }
    working.stop().await;
    assert_eq!(world.reached(), BTreeMap::new());
    println!("{} webhook addresses refused", urls.len());
}

/// A did:web, a handle, and the PDS that a hold's document names.
async fn identities_and_holds(world: &World) {
    let (guarded, operator) = (Guarded::new(guard()).unwrap(), Guarded::trusting(guard()).unwrap());
    let dns = Arc::new(Dns::new().unwrap());
    let resolver = Resolver::new(guarded.clone(), operator, &world.directory(), dns);
    let fetcher = Fetcher::new(resolver.clone(), guarded, Pace::new(Limits::of(2)));
    for (at, address) in FORBIDDEN.iter().enumerate() {
        let name = world::name_of(at);
        let did: Did = format!("did:web:{name}").parse().unwrap();
        let error = resolver.resolve(&did).await.unwrap_err();
        assert!(matches!(error, IdentityError::Refused { .. }), "{address}: {error}");
        let hold: Did = world::hold(at).parse().unwrap();
        let identity = resolver.resolve(&hold).await.unwrap();
        assert_eq!(identity.handle, HandleCheck::Invalid, "{address}");
        assert_eq!(identity.pds, Some(format!("https://{name}")));
        let error = fetcher.fetch(&hold, None).await.unwrap_err();
        assert!(error.to_string().contains("not on the public network"), "{address}: {error}");
    }
    assert_eq!(world.reached(), BTreeMap::new());
}

/// What asks holds whether they answer: those at names, and those whose documents name a server.
async fn health_of_holds(world: &World) {
    let (guarded, operator) = (Guarded::new(guard()).unwrap(), Guarded::trusting(guard()).unwrap());
    let resolver =
        Resolver::new(guarded.clone(), operator, &world.directory(), Arc::new(Dns::new().unwrap()));
    let asker = Asker { guarded, identities: IdentityCache::new(resolver.clone()), resolver };
    let at_names = (0..FORBIDDEN.len()).map(|at| format!("did:web:{}", world::name_of(at)));
    let holds: Vec<Did> = at_names
        .chain((0..FORBIDDEN.len()).map(world::hold))
        .chain(["did:web:localhost".to_owned()])
        .map(|did| did.parse().unwrap())
        .collect();
    let options =
        Options { interval: Duration::from_secs(3_600), concurrency: 4, of_registry: holds.clone() };
    let fixture = Fixture::sqlite().await;
    let health = HoldHealth::new(fixture.database.clone(), asker, options);
    let (found, stop) = (health.holds(), CancellationToken::new());
    let running = tokio::spawn(health.run(stop.clone()));
    let list = eventually("every hold was asked", SOON, async || {
        let list = found.list();
        if list.round_ended_at.is_some() { Ok(list) } else { Err(list) }
    })
    .await;
    stop.cancel();
    running.await.unwrap();
    assert_eq!(list.holds.len(), holds.len());
    for hold in &list.holds {
        let error = hold.error.as_deref().unwrap_or_default();
        let refused = error.contains("not on the public network") || error.contains("localhost is for tests");
        assert!(hold.state == State::Unreachable && refused, "{hold:?}");
    }
    assert_eq!(world.reached(), BTreeMap::new());
    println!("{} holds refused", holds.len());
}

/// The first look-up says a public address, every later one this machine: what was judged is what is connected to.
async fn a_name_that_changes(world: &World) {
    let stage = stage(&[format!("https://{}/hook", world::CHANGES)]).await;
    let working = stage.start(stage.worker_with(|settings| *settings = guard()));
    eventually("the public address was tried", SOON, async || {
        let statuses = stage.statuses(1).await;
        if statuses[0].starts_with("pending 1 asking changes") { Ok(()) } else { Err(statuses) }
    })
    .await;
    let reached = world.reached();
    assert_eq!(reached.keys().collect::<Vec<_>>(), [&PUBLIC], "and nothing else");
    stage.let_it_be_due().await;
    stage.until_status(1, "failed", 1).await;
    working.stop().await;
    let statuses = stage.statuses(1).await;
    assert!(statuses[0].contains("leads to 127.0.0.1, which is not on the public network"), "{statuses:?}");
    assert_eq!(world.reached(), reached);
}

/// Of a name with both kinds of addresses only the public ones are tried.
async fn a_name_that_leads_to_both(world: &World) {
    let stage = stage(&[format!("https://{}/hook", world::BOTH)]).await;
    let working = stage.start(stage.worker_with(|settings| *settings = guard()));
    eventually("the public address was tried", SOON, async || {
        let statuses = stage.statuses(1).await;
        if statuses[0].starts_with("pending 1 asking both") { Ok(()) } else { Err(statuses) }
    })
    .await;
    working.stop().await;
    assert_eq!(world.reached().keys().collect::<Vec<_>>(), [&PUBLIC]);
}

//! What no value can tell by itself: relations between settings. Pure; the values are known to be good one by one.

use super::Settings;
use super::database::{Backend, DatabaseUrl};

/// Every broken relation: the key at fault, and what was expected.
pub(super) fn broken(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut broken = lease_timing(settings);
    broken.extend(plain_addresses(settings));
    broken.extend(billing(settings));
    let mut refuse_if = |condition: bool, key, expected: &str| {
        if condition {
            broken.push((key, expected.to_owned()));
        }
    };

    let direct = settings.database.direct_url.as_ref();
    refuse_if(
        matches!(direct, Some(DatabaseUrl::Sqlite(_))),
        "database.direct_url",
        "expected a PostgreSQL URL, or nothing",
    );
    refuse_if(
        direct.is_some() && settings.backend() == Backend::Sqlite,
        "database.direct_url",
        "expected nothing: database.url is a SQLite file, and no pooler stands before that",
    );
    refuse_if(
        settings.jetstream.enabled && settings.jetstream.urls.is_empty(),
        "jetstream.urls",
        "expected at least one address while jetstream.enabled is true",
    );
    refuse_if(
        settings.network.test_hosts.is_some() && !settings.network.allow_loopback,
        "network.test_hosts",
        "expected nothing unless network.allow_loopback is true: it is for tests alone",
    );
    refuse_if(
        has_twice(settings.billing.tiers.iter().map(|tier| tier.name.as_str())),
        "billing.tiers",
        "expected a different name for each tier",
    );
    refuse_if(
        has_twice(settings.billing.tiers.iter().flat_map(|tier| &tier.price_ids).map(String::as_str)),
        "billing.tiers",
        "expected each price in one tier: a price must lead to one rank",
    );
    broken
}

/// What billing cannot do without. Managed holds it can: ranks decide about webhooks as well.
fn billing(settings: &Settings) -> Vec<(&'static str, String)> {
    let (billing, registry) = (&settings.billing, &settings.registry);
    if billing.stripe_secret_key.is_none() {
        return Vec::new();
    }
    let has_price = billing.tiers.iter().any(|tier| !tier.price_ids.is_empty());
    let needed = [
        (registry.did.is_none(), "registry.did", "the registry's DID"),
        (registry.signing_key.is_none(), "registry.signing_key", "a file with the registry's private key"),
        (!has_price, "billing.tiers", "at least one tier with a price"),
        (
            billing.tiers.first().is_some_and(|tier| !tier.price_ids.is_empty()),
            "billing.tiers",
            "a first tier without prices, for everybody who pays nothing",
        ),
    ];
    let broken = needed.into_iter().filter(|(is_broken, ..)| *is_broken);
    broken
        .map(|(_, key, expected)| {
            (key, format!("expected {expected} while billing.stripe_secret_key is set"))
        })
        .collect()
}

fn lease_timing(settings: &Settings) -> Vec<(&'static str, String)> {
    let backend = settings.backend();
    // Always with the external workers, even if none is enabled here: another instance may enable them, and reads F + S
    // of this one.
    let broken = settings.leases.timing(backend).broken(backend == Backend::Postgres);
    let row = format!("(\"auto\" is the row of {backend})");
    broken.iter().map(|relation| (relation.key(), format!("{relation} {row}"))).collect()
}

/// A password, a key or an identity must not travel in the clear to another machine.
fn plain_addresses(settings: &Settings) -> Vec<(&'static str, String)> {
    if settings.network.allow_loopback {
        return Vec::new();
    }
    let plain = [
        ("identity.plc_url", "https", settings.identity.plc_url.is_plain_to_elsewhere()),
        ("jetstream.urls", "wss", settings.jetstream.urls.iter().any(|url| url.is_plain_to_elsewhere())),
        (
            "backfill.relay_urls",
            "https",
            settings.backfill.relay_urls.iter().any(|url| url.is_plain_to_elsewhere()),
        ),
        ("labeler.did", "https", settings.labeler.did.as_ref().is_some_and(|at| at.is_plain_to_elsewhere())),
        ("billing.stripe_url", "https", settings.billing.stripe_url.is_plain_to_elsewhere()),
    ];
    let broken = plain.into_iter().filter(|(_, _, is_plain)| *is_plain);
    let expected = |scheme| {
        format!(
            "expected {scheme}: plain addresses may lead only to this machine, unless network.allow_loopback is true"
        )
    };
    broken.map(|(key, scheme, _)| (key, expected(scheme))).collect()
}

fn has_twice<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    let mut names = names;
    names.any(|name| !seen.insert(name))
}

//! What is listed, and what is masked.

use super::*;
use crate::settings::secret::masked;

fn listed<'a>(settings: &'a Settings, key: &str) -> &'a Listed {
    settings.listing().iter().find(|listed| listed.key == key).unwrap()
}

#[test]
fn every_value_knows_where_it_came_from() {
    let file = file("[network]\ntimeout = '7s'\n");
    let settings = Settings::load(Some(file.path()), env(&[("ATCR__LEASES__SPREAD", "false")])).unwrap();
    assert_eq!(listed(&settings, "network.timeout").origin, file.path().display().to_string());
    assert_eq!(listed(&settings, "network.timeout").value, "7s");
    assert_eq!(listed(&settings, "leases.spread").origin, "ATCR__LEASES__SPREAD");
    assert_eq!(listed(&settings, "leases.spread").value, false);
    assert_eq!(listed(&settings, "cleanup.interval").origin, "default");
}

#[test]
fn values_are_listed_as_they_are_in_effect() {
    let settings = load("", &[("ATCR__DATABASE__URL", "postgres://u@h/d")]).unwrap();
    assert_eq!(listed(&settings, "leases.ttl").value, "5s");
    assert_eq!(listed(&settings, "leases.renew_every").value, "500ms");
    assert_eq!(listed(&settings, "instance.label").value, settings.instance.label.as_str());
    assert_eq!(listed(&Settings::load(None, []).unwrap(), "leases.ttl").value, "10s");
    assert_eq!(listed(&settings, "admin.listen").value, "auto");
}

/// What billing asks for, but for its key.
const WITH_BILLING: &str = "[registry]\ndid = 'did:web:registry.example'\nsigning_key = '/run/key'\n[billing]\ntiers = [\
    { name = 'free', price_ids = [], max_webhooks = 1, all_triggers = false },\
    { name = 'pro', price_ids = ['p'], max_webhooks = 9, all_triggers = true }]\n";

#[test]
fn no_secret_is_shown_by_the_listing_or_by_debug() {
    let settings = load(
        WITH_BILLING,
        &[
            ("ATCR__ADMIN__TOKEN", "hunter2"),
            ("ATCR__BILLING__STRIPE_SECRET_KEY", "hunter2"),
            ("ATCR__DATABASE__URL", "postgres://u:hunter2@pooler/d"),
            ("ATCR__DATABASE__DIRECT_URL", "postgres://u@h/d?password=hunter2"),
        ],
    )
    .unwrap();
    let shown = format!("{settings:?} {} {}", settings.database.url, settings.admin.token.as_ref().unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(listed(&settings, "database.url").value, "postgres://u:***@pooler/d");
    assert_eq!(listed(&settings, "admin.token").value, "***");
    // None set is worth knowing, and no secret.
    assert_eq!(listed(&Settings::load(None, []).unwrap(), "admin.token").value, "");
}

#[test]
fn a_password_is_masked_wherever_it_stands_in_an_address() {
    let cases = [
        ("postgres://u:hunter2@h:5432/d", "postgres://u:***@h:5432/d"),
        ("postgres://u:hunter2@2@h/d", "postgres://u:***@h/d"),
        ("postgres://u:hunter2/x?y#z@h/d", "postgres://u:***@h/d"),
        ("postgres://u:hunter2", "postgres://u:***"),
        (
            "postgres://u@h/d?sslmode=require&password=hunter2",
            "postgres://u@h/d?sslmode=require&password=***",
        ),
        ("postgres://h/d?sslPassword=hunter2&a=b", "postgres://h/d?sslPassword=***&a=b"),
        ("host=h user=u password=hunter2", "host=h user=u password=***"),
        ("postgres:u:hunter2@h", "postgres:u:***@h"),
        ("postgres://h:5432/d", "postgres://h:5432/d"),
        ("postgres://[::1]:5432/d", "postgres://[::1]:5432/d"),
        ("sqlite:///a/b.db", "sqlite:///a/b.db"),
    ];
    for (text, shown) in cases {
        assert_eq!(masked("database.url", text), shown, "{text}");
    }
    assert_eq!(masked("telemetry.level", "info,a::b=debug"), "info,a::b=debug");
}

#[test]
fn a_long_value_is_cut_in_a_message() {
    let said = message(&format!("[registry]\ndid = '{}'", "ü".repeat(100_000)), &[]);
    assert!(said.len() < 700 && said.contains('…'), "{}", said.len());
}

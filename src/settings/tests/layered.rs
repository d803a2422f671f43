//! Defaults, file and environment, one over the other.

use std::collections::BTreeSet;
use std::time::Duration;

use leased_actors::lease::timing::Timing;

use super::*;

fn default_keys() -> Vec<String> {
    Settings::load(None, []).unwrap().listing().iter().map(|listed| listed.key.clone()).collect()
}

#[test]
fn the_defaults_are_those_of_the_design() {
    let settings = Settings::load(None, []).unwrap();
    assert_eq!(settings.database.url, DatabaseUrl::Sqlite("atcr.db".into()));
    assert_eq!(settings.admin.listen, Listen::Auto);
    assert_eq!(settings.network.user_agent, concat!("atcr-workers/", env!("CARGO_PKG_VERSION")));
    assert_eq!(settings.jetstream.urls.len(), 4);
    assert_eq!(settings.leases.timing(Backend::Sqlite), Timing::SQLITE);
    assert_eq!(settings.leases.timing(Backend::Postgres), Timing::POSTGRES);
    assert_eq!(settings.leases.history_for, Duration::from_secs(30 * 86_400));
    assert!(settings.leases.enabled && settings.leases.spread);
    assert!(!settings.network.allow_loopback);
    assert!(settings.billing.stripe_secret_key.is_none() && settings.labeler.did.is_none());
}

/// A key of the file without a field is refused by the struct, a field without a key is missing for it: the file and
/// the structs have exactly the same keys, or nothing would load. This shows that both halves do refuse.
#[test]
fn the_default_file_has_exactly_the_keys_of_the_structs() {
    let defaults = Layer::defaults();
    let keys = default_keys();
    for missing in &keys {
        let rest: Vec<_> = keys.iter().filter(|key| *key != missing).map(|key| defaults.only(key)).collect();
        let error = layers::merge(&rest).try_deserialize::<Settings>().unwrap_err().to_string();
        let name = missing.split('.').next_back().unwrap();
        assert!(error.contains("missing"), "{missing}: {error}");
        assert!(
            error.contains(name) || error.contains(missing.split('.').next().unwrap()),
            "{missing}: {error}"
        );
    }
    let sections: BTreeSet<_> = keys.iter().map(|key| key.split('.').next().unwrap()).collect();
    for section in sections {
        let extra = config::File::from_str(&format!("[{section}]\nextra = 1\n"), config::FileFormat::Toml);
        let both = Config::builder().add_source(defaults.clone()).add_source(extra).build().unwrap();
        let error = both.try_deserialize::<Settings>().unwrap_err().to_string();
        assert!(error.contains("unknown field `extra`"), "{section}: {error}");
    }
}

#[test]
fn every_key_of_the_default_file_has_its_comment() {
    let mut commented = false;
    for line in Settings::default_toml().lines() {
        let is_key = line
            .split_once(" = ")
            .is_some_and(|(key, _)| key.bytes().all(|b| b == b'_' || b.is_ascii_lowercase()));
        // A comment may serve a run of keys that belong together; a section begins without one.
        assert!(!is_key || commented, "{line}");
        commented = line.starts_with('#') || (commented && !line.is_empty() && !line.starts_with('['));
    }
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
    let text = "[network]\ntimeout = '7s'\nuser_agent = 'mine/VERSION'\n[leases]\nspread = false\n";
    let settings = load(text, &[("ATCR__NETWORK__TIMEOUT", "8s"), ("HOME", "/nowhere")]).unwrap();
    assert_eq!(settings.network.timeout, Duration::from_secs(8));
    assert!(settings.network.user_agent.starts_with("mine/0."));
    assert!(!settings.leases.spread);
    assert_eq!(settings.cleanup.interval, Duration::from_secs(300));
}

#[test]
fn every_kind_of_value_can_come_from_the_environment() {
    let settings = load(
        "",
        &[
            ("ATCR__LEASES__ENABLED", "false"),
            ("ATCR__CLEANUP__ENABLED", "false"),
            ("ATCR__BACKFILL__CONCURRENCY", "3"),
            ("ATCR__BACKFILL__INTERVAL", "0s"),
            ("ATCR__BACKFILL__RELAY_URLS", " https://one.example/ , https://two.example/x/,"),
            ("ATCR__REGISTRY__DOMAINS", ""),
            ("ATCR__ADMIN__LISTEN", ""),
            ("ATCR__ADMIN__TOKEN", "t0ken"),
            ("ATCR__LABELER__DID", "did:web:labeler.example%3A8080"),
            ("ATCR__DATABASE__URL", "sqlite:///var/lib/atcr/a.db"),
        ],
    )
    .unwrap();
    assert!(!settings.leases.enabled && !settings.cleanup.enabled);
    assert_eq!(settings.backfill.concurrency, 3);
    assert_eq!(settings.backfill.interval, Duration::ZERO);
    let relays: Vec<_> = settings.backfill.relay_urls.iter().map(HttpUrl::as_str).collect();
    assert_eq!(relays, ["https://one.example", "https://two.example/x"]);
    assert!(settings.registry.domains.is_empty());
    assert_eq!(settings.admin.listen, Listen::Off);
    assert_eq!(settings.admin.token.unwrap().reveal(), "t0ken");
    assert!(matches!(settings.labeler.did, Some(DidOrUrl::Did(_))));
    assert_eq!(settings.database.url, DatabaseUrl::Sqlite("/var/lib/atcr/a.db".into()));
}

#[test]
fn tiers_are_read_from_the_file_in_rank_order() {
    let text = "[[billing.tiers]]\nname = 'free'\nprice_ids = []\nmax_webhooks = 1\nall_triggers = false\n\
                [[billing.tiers]]\nname = 'bosun'\nprice_ids = ['price_1', 'price_2']\nmax_webhooks = 10\nall_triggers = true\n";
    let tiers = load(text, &[]).unwrap().billing.tiers;
    assert_eq!(tiers.iter().map(|tier| tier.name.as_str()).collect::<Vec<_>>(), ["free", "bosun"]);
    assert_eq!(tiers[1].price_ids, ["price_1", "price_2"]);
    assert_eq!((tiers[1].max_webhooks, tiers[1].all_triggers), (10, true));
}

#[test]
fn the_shipped_files_load() {
    for name in ["default", "development", "production", "test"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("settings/{name}.toml"));
        let loaded = Settings::load(Some(&path), []);
        assert!(loaded.is_ok(), "{name}: {}", loaded.unwrap_err());
    }
}

#[test]
fn auto_follows_the_database_and_an_explicit_timing_stays() {
    let postgres = ("ATCR__DATABASE__URL", "postgres://u@h/d");
    let settings = load("[leases]\nttl = '6s'\n", &[postgres]).unwrap();
    let timing = settings.leases.timing(settings.backend());
    assert_eq!(timing, Timing { ttl: Duration::from_secs(6), ..Timing::POSTGRES });
}

#[test]
fn an_empty_label_is_the_host_name() {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(Settings::load(None, []).unwrap().instance.label, host);
    assert_eq!(load("[instance]\nlabel = 'blue'", &[]).unwrap().instance.label, "blue");
}

#[test]
fn durations_are_read_as_people_write_them() {
    let cases = [
        ("500ms", 500),
        ("0.5s", 500),
        ("1.5h", 5_400_000),
        ("1m30s", 90_000),
        ("2h0.5m", 7_230_000),
        ("007s", 7_000),
        ("0s", 0),
        ("3650d", 315_360_000_000),
        ("0.000001ms", 0),
    ];
    for (text, millis) in cases {
        assert_eq!(duration::parse(text).map(|d| d.as_millis()), Ok(millis), "{text}");
    }
    assert_eq!(duration::parse("0.000001s"), Ok(Duration::from_micros(1)));
}

#[test]
fn this_process_hands_over_its_whole_environment() {
    assert_eq!(environment().count(), std::env::vars_os().count());
}

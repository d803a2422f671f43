//! Every refusal, by what must be in its message.

use super::*;

/// (file, what the message says): each value with its key, itself, and what was expected.
const IN_A_FILE: &[(&str, &[&str])] = &[
    // Keys.
    ("[databse]\nurl = 'sqlite://a.db'", &["databse (", "unknown; did you mean database?"]),
    ("[database]\nurll = 'sqlite://a.db'", &["database.urll (", "unknown; did you mean database.url?"]),
    ("[lease]\nttl = '5s'", &["lease (", "did you mean leases?"]),
    ("[leases]\nentirely_else = 1", &["leases.entirely_else (", "): unknown\n"]),
    ("'a.b' = 1", &["a.b (", "): unknown"]),
    ("'[0]' = 1\n['']\n[database]\n'url[0]' = ''", &["[0] (", "database.url[0] ("]),
    ("\"\\u001b[2J\" = 1", &["\\u{1b}[2J (", "): unknown"]),
    ("database = 1", &["database (", "expected a section, [database]"]),
    ("[[admin]]\nlisten = ''", &["admin (", "expected a section, [admin]"]),
    // Types.
    ("[leases]\nenabled = 1", &["leases.enabled = 1 (", "expected true or false"]),
    ("[leases]\nenabled = 'true'", &["leases.enabled = \"true\" (", "expected true or false"]),
    ("[backfill]\nconcurrency = 2.5", &["backfill.concurrency = 2.5 (", "expected a whole number"]),
    ("[backfill]\nconcurrency = '2'", &["backfill.concurrency = \"2\" (", "expected a whole number"]),
    ("[jetstream]\nurls = 'wss://h/subscribe'", &["jetstream.urls = ", "expected a list"]),
    ("[jetstream]\nurls = [1]", &["jetstream.urls[0] = [1] (", "expected a text in quotes"]),
    ("[admin]\nlisten = 9464", &["admin.listen = 9464 (", "expected a text in quotes"]),
    ("[network]\ntimeout = 60", &["network.timeout = 60 (", "with a unit, such as \"60s\""]),
    ("[database.url]\npath = 'a'", &["database.url = {", "expected a text in quotes"]),
    ("[registry]\ndid = nan", &["registry.did", "expected a text in quotes"]),
    // Durations.
    (
        "[network]\ntimeout = '60'",
        &["network.timeout = \"60\" (", "expected a duration with a unit such as \"60s\""],
    ),
    ("[network]\ntimeout = ''", &["network.timeout = \"\" (", "expected a duration with a unit"]),
    ("[network]\ntimeout = '10 s'", &["expected a duration with a unit"]),
    ("[network]\ntimeout = '-1s'", &["expected a duration with a unit"]),
    ("[network]\ntimeout = '1.s'", &["expected a duration with a unit"]),
    ("[network]\ntimeout = '.5s'", &["expected a duration with a unit"]),
    ("[network]\ntimeout = '1.2.3s'", &["expected a duration with a unit"]),
    ("[network]\ntimeout = '1w'", &["expected a duration with a unit"]),
    ("[network]\ntimeout = '1S'", &["expected a duration with a unit"]),
    ("[network]\ntimeout = '1m30'", &["expected a duration with a unit"]),
    ("[network]\ntimeout = '0s'", &["network.timeout = \"0s\" (", "longer than 0s"]),
    ("[network]\ntimeout = '3651d'", &["at most 3650d"]),
    ("[network]\ntimeout = '99999999999999999999999999999999999999999d'", &["at most 3650d"]),
    ("[leases]\nttl = '5'", &["leases.ttl = \"5\" (", "such as \"5s\"", "or \"auto\""]),
    ("[cleanup]\ninterval = '0s'", &["cleanup.interval = \"0s\" (", "longer than 0s"]),
    ("[leases]\nhistory_for = '0s'", &["leases.history_for = \"0s\" (", "longer than 0s"]),
    ("[leases]\nhistory_for = '30'", &["leases.history_for = \"30\" (", "with a unit"]),
    ("[leases]\nhistory_for = 'auto'", &["leases.history_for = \"auto\" (", "with a unit"]),
    // Numbers.
    ("[backfill]\nconcurrency = 0", &["backfill.concurrency = 0 (", "from 1 to 256"]),
    ("[backfill]\nper_host = 257", &["backfill.per_host = 257 (", "from 1 to 256"]),
    ("[database]\nmax_connections = -1", &["database.max_connections = -1 (", "from 1 to 1000"]),
    ("[hold_health]\nconcurrency = 9223372036854775807", &["from 1 to 256"]),
    (
        "[admin]\n\n[database]\nmax_connections = 99999999999999999999\n[leases]",
        &["line 4: ", "at most 64 bits"],
    ),
    // The database.
    ("[database]\nurl = ''", &["database.url = \"\" (", "expected \"sqlite://FILE\""]),
    ("[database]\nurl = 'mysql://u:hunter2@h/d'", &["mysql://u:***@h/d", "expected \"sqlite://FILE\""]),
    ("[database]\nurl = 'atcr.db'", &["expected \"sqlite://FILE\""]),
    ("[database]\nurl = 'sqlite::memory:'", &["several processes share the database"]),
    ("[database]\nurl = 'sqlite://:memory:'", &["several processes share the database"]),
    ("[database]\nurl = 'sqlite://'", &["expected a file"]),
    ("[database]\nurl = 'sqlite://a.db?mode=ro'", &["expected a file"]),
    ("[database]\nurl = 'postgres://u:hunter2@h:port/d'", &["u:***@h:port", "expected a PostgreSQL URL"]),
    ("[database]\nurl = 'postgres://h/d?nonsense=1'", &["expected a PostgreSQL URL"]),
    (
        "[database]\ndirect_url = 'postgres://u@h/d'",
        &["database.direct_url = ", "database.url is a SQLite file"],
    ),
    (
        "[database]\nurl = 'postgres://u@h/d'\ndirect_url = 'sqlite://a.db'",
        &["database.direct_url = ", "expected a PostgreSQL URL, or nothing"],
    ),
    // Addresses.
    (
        "[admin]\nlisten = 'localhost:80'",
        &["admin.listen = \"localhost:80\" (", "expected \"auto\", an IP address"],
    ),
    ("[admin]\nlisten = '127.0.0.1'", &["expected \"auto\", an IP address"]),
    ("[admin]\nlisten = '127.0.0.1:65536'", &["expected \"auto\", an IP address"]),
    (
        "[identity]\nplc_url = 'plc.directory'",
        &["identity.plc_url = \"plc.directory\" (", "\"https://example.com\""],
    ),
    ("[identity]\nplc_url = ''", &["identity.plc_url = \"\" ("]),
    ("[identity]\nplc_url = 'https://u:hunter2@h'", &["https://u:***@h", "without a login"]),
    (
        "[identity]\nplc_url = 'http://plc.example'",
        &["identity.plc_url", "expected https", "network.allow_loopback"],
    ),
    ("[identity]\nplc_url = 'ftp://plc.example'", &["\"https://example.com\""]),
    ("[billing]\nstripe_url = 'http://10.0.0.1'", &["billing.stripe_url", "expected https"]),
    (
        "[backfill]\nrelay_urls = ['https://a.example', 'x']",
        &["backfill.relay_urls = ", "item 2: expected an address"],
    ),
    ("[backfill]\nrelay_urls = ['http://127.0.0.1.example']", &["backfill.relay_urls", "expected https"]),
    ("[labeler]\ndid = 'http://labeler.example'", &["labeler.did", "expected https"]),
    ("[jetstream]\nurls = ['ws://h.example/subscribe']", &["jetstream.urls = ", "expected wss"]),
    ("[jetstream]\nurls = ['https://h/subscribe']", &["jetstream.urls", "\"wss://example.com/subscribe\""]),
    ("[jetstream]\nurls = ['wss://h/']", &["path ending in /subscribe"]),
    (
        "[jetstream]\nurls = []",
        &["jetstream.urls = [] (", "at least one address while jetstream.enabled is true"],
    ),
    (
        "[network]\ntest_hosts = '127.0.0.1:80'",
        &["network.test_hosts = ", "unless network.allow_loopback is true"],
    ),
    ("[network]\nallow_loopback = true\ntest_hosts = '127.0.0.1'", &["expected HOST:PORT"]),
    ("[network]\nallow_loopback = true\ntest_hosts = 'h:0'", &["expected HOST:PORT"]),
    ("[webhooks]\ndiscord_hosts = ['https://discord.com']", &["webhooks.discord_hosts", "expected a host"]),
    ("[registry]\ndomains = ['a/b']", &["registry.domains", "item 1: expected a host"]),
    // Identities.
    ("[registry]\ndid = 'plc:abc'", &["registry.did = \"plc:abc\" (", "expected a DID"]),
    ("[registry]\ndefault_hold_did = 'did:plc:short'", &["registry.default_hold_did", "expected a DID"]),
    ("[registry]\nmanaged_holds = ['did:key:z6Mk']", &["registry.managed_holds", "item 1: expected a DID"]),
    ("[registry]\ndid = 'did:web:a.example/path'", &["expected a DID"]),
    ("[labeler]\ndid = 'did:plc:short'", &["labeler.did", "expected a DID such as", "or an address"]),
    // Lease relations, for the backend of database.url.
    (
        "[database]\nurl = 'postgres://u@h/d'\n[leases]\nttl = '4s'\nstop_within = '3s'\ngrace = '5s'",
        &[
            "leases.ttl (4s) must be at least leases.trust_for (2s) + leases.stop_within (3s) = 5s",
            "row of PostgreSQL",
        ],
    ),
    ("[leases]\nttl = '7s'", &["leases.trust_for (7s) + leases.stop_within (1s) = 8s", "row of SQLite"]),
    ("[leases]\nstop_within = '250ms'", &["leases.stop_within = \"250ms\" (", "must be longer than"]),
    ("[database]\nurl = 'postgres://u@h/d'\n[leases]\ngrace = '2s'", &["leases.grace (2s) must be at least"]),
    (
        "[leases]\nrenew_timeout = '5.9s'",
        &["leases.trust_for (7s) must be longer than leases.renew_every (1s)"],
    ),
    ("[leases]\npoll_every = '0s'", &["leases.poll_every (0s) must be longer than 0s"]),
    // Tiers.
    ("[billing]\ntiers = [1]", &["billing.tiers[0] = ", "expected a table"]),
    ("[[billing.tiers]]\nname = 'a'", &["billing.tiers[0] = ", "expected a key", "price_ids"]),
    (
        "[billing]\ntiers = [{ name = 'a', price_ids = [], max_webhooks = '1', all_triggers = true }]",
        &["billing.tiers[0].max_webhooks = ", "expected a whole number"],
    ),
    (
        "[billing]\ntiers = [{ name = '', price_ids = [], max_webhooks = 1, all_triggers = true }]",
        &["billing.tiers[0].name = ", "expected a name"],
    ),
    (
        "[billing]\ntiers = [{ name = 'a', price_ids = [], max_webhooks = -1, all_triggers = true, colour = 'red' }]",
        &["billing.tiers[0]"],
    ),
    (
        "[[billing.tiers]]\nname = 'a'\nprice_ids = ['p']\nmax_webhooks = 1\nall_triggers = true\n\
         [[billing.tiers]]\nname = 'a'\nprice_ids = ['p']\nmax_webhooks = 1\nall_triggers = true\n",
        &["a different name for each tier", "each price in one tier"],
    ),
    (
        "[billing]\nstripe_secret_key = 'k'",
        &[
            "registry.did = \"\" (default): expected the registry's DID while billing.stripe_secret_key is set",
            "registry.signing_key = \"\" (default): expected a file with the registry's private key",
            "billing.tiers = [] (default): expected at least one tier with a price",
        ],
    ),
    // Texts.
    ("[instance]\nlabel = \"a\\nb\"", &["instance.label = \"a\\nb\" (", "expected at most 64 characters"]),
    ("[network]\nuser_agent = ''", &["network.user_agent = \"\" (", "printable ASCII"]),
    ("[network]\nuser_agent = 'ü'", &["printable ASCII"]),
    ("[admin]\ntoken = \"hunter2\\n\"", &["admin.token = \"***\" (", "expected visible ASCII characters"]),
    (
        "[billing]\nstripe_secret_key = 5",
        &["billing.stripe_secret_key = \"***\" (", "expected a text in quotes"],
    ),
    (
        "[telemetry]\nformat = 'xml'",
        &["telemetry.format = \"xml\" (", "expected \"auto\", \"pretty\" or \"json\""],
    ),
    ("[telemetry]\nlevel = 'inof'", &["telemetry.level = \"inof\" (", "expected off, error, warn"]),
    ("[telemetry]\nlevel = 'info,hyper=loud'", &["telemetry.level", "expected off, error, warn"]),
    ("[telemetry]\nlevel = ''", &["telemetry.level = \"\" ("]),
    (
        "[jetstream]\nzstd_dictionary = \"a\\u0000\"",
        &["jetstream.zstd_dictionary", "expected the path of a file"],
    ),
    // Not TOML.
    ("[admin]\ntoken = \"hunter2", &["is not TOML at line 2, column "]),
    ("[admin", &["is not TOML at line 1, column "]),
    ("[admin]\nlisten = ''\nlisten = ''", &["is not TOML at line 3, column ", "duplicate key"]),
];

const IN_THE_ENVIRONMENT: &[(&str, &str, &str)] = &[
    (
        "ATCR__NETWORK__TIMOUT",
        "9s",
        "ATCR__NETWORK__TIMOUT (environment): unknown; did you mean ATCR__NETWORK__TIMEOUT?",
    ),
    ("ATCR__", "", "ATCR__ (environment): unknown"),
    ("ATCR__NETWORK", "", "ATCR__NETWORK (environment): unknown"),
    ("ATCR__network__timeout", "9s", "ATCR__network__timeout (environment): unknown"),
    (
        "ATCR__NETWORK__TIMEOUT",
        "60",
        "network.timeout = \"60\" (ATCR__NETWORK__TIMEOUT): expected a duration with a unit",
    ),
    (
        "ATCR__LEASES__ENABLED",
        "yes",
        "leases.enabled = \"yes\" (ATCR__LEASES__ENABLED): expected true or false",
    ),
    ("ATCR__BACKFILL__CONCURRENCY", "8x", "(ATCR__BACKFILL__CONCURRENCY): expected a whole number"),
    (
        "ATCR__BACKFILL__CONCURRENCY",
        "99999999999999999999",
        "(ATCR__BACKFILL__CONCURRENCY): expected a whole number",
    ),
    (
        "ATCR__JETSTREAM__URLS",
        ",",
        "jetstream.urls = [] (ATCR__JETSTREAM__URLS): expected at least one address",
    ),
    (
        "ATCR__BILLING__TIERS",
        "a,b",
        "billing.tiers = \"a,b\" (ATCR__BILLING__TIERS): expected in the settings file",
    ),
    ("ATCR__ADMIN__TOKEN", "hunter2 ", "admin.token = \"***\" (ATCR__ADMIN__TOKEN): expected visible ASCII"),
    ("ATCR__LEASES__TTL", "1s", "leases.ttl = \"1s\" (ATCR__LEASES__TTL): leases.ttl (1s) must be at least"),
];

#[test]
fn what_a_file_gets_wrong_is_told_with_key_value_origin_and_expectation() {
    for (text, fragments) in IN_A_FILE {
        let file = file(text);
        let said = match Settings::load(Some(file.path()), []) {
            Ok(_) => panic!("accepted: {text}"),
            Err(error) => format!("{error}\n"),
        };
        assert!(said.contains(file.path().to_str().unwrap()) || said.contains("(default)"), "{text}: {said}");
        assert!(!said.contains("hunter2"), "{text}: {said}");
        for fragment in *fragments {
            assert!(said.contains(fragment), "{text}\nlacks {fragment:?}: {said}");
        }
    }
}

#[test]
fn what_a_variable_gets_wrong_is_told_with_its_name() {
    for (name, value, fragment) in IN_THE_ENVIRONMENT {
        let said = message("", &[(name, value)]);
        assert!(said.contains(fragment), "{name}={value}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let said = |path: &Path| Settings::load(Some(path), []).unwrap_err().to_string();
    assert!(said(&folder.path().join("none.toml")).contains("none.toml: cannot be opened: No such file"));
    assert!(said(folder.path()).contains("cannot be read: Is a directory"));
    let binary = folder.path().join("binary.toml");
    std::fs::write(&binary, b"\xff\xfe").unwrap();
    assert!(said(&binary).contains("is not UTF-8 text"));
    let large = folder.path().join("large.toml");
    std::fs::write(&large, "#".repeat((1 << 20) + 1)).unwrap();
    assert!(said(&large).contains("is larger than 1048576 bytes"));
}

#[test]
fn all_problems_are_told_at_once() {
    let text = "[network]\ntimeout = '60'\nuser_agent = ''\nextra = 1\n[leases]\nttl = '1s'\nenabled = 1\n";
    let error = load(text, &[("ATCR__NOPE", "1"), ("ATCR__CLEANUP__INTERVAL", "x")]).unwrap_err();
    // Not the relation that ttl breaks: two of the values beside it are not the operator's.
    let said = error.to_string();
    assert_eq!(error.problems().len(), 6, "{said}");
    for key in
        ["network.timeout", "network.user_agent", "network.extra", "leases.enabled", "ATCR__NOPE", "cleanup"]
    {
        assert!(said.contains(key), "{key}: {said}");
    }
    let relations = message("[leases]\nttl = '1s'\npoll_every = '0s'\n[jetstream]\nurls = []\n[x]\n", &[]);
    assert_eq!(relations.lines().count(), 5, "{relations}");
}

#[test]
fn plain_addresses_are_for_this_machine_or_for_allow_loopback() {
    let plain = |host: &str| {
        format!("[identity]\nplc_url = 'http://{host}:1'\n[jetstream]\nurls = ['ws://{host}/subscribe']\n")
    };
    for here in ["127.0.0.1", "[::1]", "localhost", "plc.localhost", "127.8.9.1"] {
        assert!(load(&plain(here), &[]).is_ok(), "{here}");
    }
    for elsewhere in ["10.0.0.1", "example.com", "localhost.example", "[2001:db8::1]", "0.0.0.0"] {
        assert_eq!(load(&plain(elsewhere), &[]).unwrap_err().problems().len(), 2, "{elsewhere}");
        assert!(load(&plain(elsewhere), &[("ATCR__NETWORK__ALLOW_LOOPBACK", "true")]).is_ok(), "{elsewhere}");
    }
}

#[test]
fn any_listen_address_is_the_operators_to_choose() {
    for (address, at) in
        [("0.0.0.0:9464", "0.0.0.0:9464"), ("[::]:0", "[::]:0"), ("192.0.2.1:80", "192.0.2.1:80")]
    {
        let settings = load("", &[("ATCR__ADMIN__LISTEN", address)]).unwrap();
        assert_eq!(settings.admin.listen, Listen::At(at.parse().unwrap()));
    }
}

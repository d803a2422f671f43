//! No input makes a load panic.

use proptest::prelude::*;

use super::*;

fn known_keys() -> Vec<String> {
    Settings::load(None, []).unwrap().listing().iter().map(|listed| listed.key.clone()).collect()
}

/// Texts that look like values of some key, and texts that look like nothing.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{0,25}(\\.[0-9]{0,12})?(ms|s|m|h|d|w|)([0-9]{1,3}(ms|s))?",
        "(sqlite|postgres|http|https|ws|wss|did:plc|did:web)?:?/{0,3}[a-z0-9@:/?=%\\[\\].-]{0,30}",
        "(info|debug|loud|a::b|\\[x\\]|=|,|\\{){0,5}",
        "\\PC{0,20}",
        any::<String>(),
    ]
}

/// Some of a tier's keys, or all.
fn tier() -> impl Strategy<Value = String> {
    let keys = vec![
        "name = 'a'",
        "price_ids = []",
        "max_webhooks = 1",
        "all_triggers = true",
        "colour = 'red'",
        "name = 1",
    ];
    prop::sample::subsequence(keys, 0..=6).prop_map(|keys| format!("{{ {} }}", keys.join(", ")))
}

/// A piece of TOML, mostly well formed.
fn value() -> impl Strategy<Value = String> {
    let literal = prop_oneof![
        text().prop_map(|text| serde_json::to_string(&text).unwrap()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}").to_lowercase()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        Just("1979-05-27".to_owned()),
        Just("99999999999999999999".to_owned()),
        tier(),
    ];
    literal.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|values| format!("[{}]", values.join(", "))),
            ("[a-z_]{1,8}", inner).prop_map(|(key, value)| format!("{{ {key} = {value} }}")),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![8 => prop::sample::select(known_keys()), 1 => "[a-z_]{0,6}\\.[a-z_]{1,8}", 1 => any::<String>()]
}

fn settings_file() -> impl Strategy<Value = String> {
    let tiers = prop::collection::vec(tier(), 0..3).prop_map(|tiers| format!("[{}]", tiers.join(", ")));
    let entry = prop_oneof![8 => (key(), value()), 1 => (Just("billing.tiers".to_owned()), tiers)];
    let entry = entry.prop_map(|(key, value)| format!("{key} = {value}\n"));
    prop_oneof![9 => prop::collection::vec(entry, 0..6).prop_map(|lines| lines.concat()), 1 => any::<String>()]
}

fn variable() -> impl Strategy<Value = (String, String)> {
    let name = prop_oneof![
        8 => prop::sample::select(known_keys()).prop_map(|key| layers::variable(&key)),
        1 => any::<String>().prop_map(|rest| format!("ATCR__{rest}")),
        1 => any::<String>(),
    ];
    (name, text())
}

proptest! {
    #[test]
    fn no_input_makes_loading_panic(text in settings_file(), env in prop::collection::vec(variable(), 0..4)) {
        let file = file(&text);
        match Settings::load(Some(file.path()), env) {
            Ok(settings) => prop_assert_eq!(settings.listing().len(), known_keys().len()),
            Err(error) => prop_assert!(!error.problems().is_empty() && !error.to_string().is_empty()),
        }
    }

    #[test]
    fn a_duration_is_read_back_as_it_was_written(nanos in 0..=315_360_000_000_000_000u64) {
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let written = format!("{}d{}.{rest:09}s", seconds / 86_400, seconds % 86_400);
        prop_assert_eq!(duration::parse(&written), Ok(std::time::Duration::from_nanos(nanos)));
    }
}

#[test]
fn deeply_nested_input_is_refused_and_not_a_crash() {
    let said = message(&format!("[jetstream]\nurls = {}", "[".repeat(100_000)), &[]);
    assert!(said.contains("is not TOML at line 2"), "{said}");
}

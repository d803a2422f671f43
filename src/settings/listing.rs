//! The effective settings for people and programs: every key, its value with secrets masked, and its origin.

use config::{Config, Value, ValueKind};
use serde::Serialize;

use super::secret::{MASK, is_secret, masked};
use super::{Settings, duration};

/// One key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// `section.key`.
    pub key: String,
    /// Its value in effect: `auto` resolved, secrets masked.
    pub value: serde_json::Value,
    /// `default`, the settings file's path, or the variable's name.
    pub origin: String,
}

/// Lists `merged`, which `settings` was read from.
pub(super) fn list(settings: &Settings, merged: &Config) -> Vec<Listed> {
    let mut listed = Vec::new();
    for (section, keys) in table(&merged.cache) {
        for (key, value) in table(keys) {
            let key = format!("{section}.{key}");
            let origin = value.origin().unwrap_or_default().to_owned();
            let resolved = resolved(settings, &key, &value.kind);
            let value = resolved.map_or_else(|| shown(&key, &value.kind), serde_json::Value::from);
            listed.push(Listed { key, value, origin });
        }
    }
    listed.sort_by(|one, other| one.key.cmp(&other.key));
    listed
}

/// The value of `key` in `merged`, with its origin.
pub(super) fn entry<'a>(merged: &'a Config, key: &str) -> Option<&'a Value> {
    let (section, key) = key.split_once('.')?;
    let (_, keys) = table(&merged.cache).find(|(name, _)| *name == section)?;
    table(keys).find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn table(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let table = if let ValueKind::Table(table) = &value.kind { Some(table) } else { None };
    table.into_iter().flatten()
}

/// What stands for the value in effect, where that is worked out from others.
fn resolved(settings: &Settings, key: &str, kind: &ValueKind) -> Option<String> {
    let timing = settings.leases.timing(settings.backend());
    let auto = |effective| (*kind == ValueKind::from("auto")).then(|| duration::text(effective));
    match key {
        "instance.label" => Some(settings.instance.label.clone()),
        "network.user_agent" => Some(settings.network.user_agent.clone()),
        "leases.ttl" => auto(timing.ttl),
        "leases.renew_every" => auto(timing.renew_every),
        "leases.renew_timeout" => auto(timing.renew_timeout),
        "leases.trust_for" => auto(timing.trust_for),
        "leases.stop_within" => auto(timing.stop_within),
        "leases.server_drop" => auto(timing.server_drop),
        "leases.grace" => auto(timing.grace),
        "leases.poll_every" => auto(timing.poll_every),
        _ => None,
    }
}

/// The value of `key` as it may be shown.
pub(super) fn shown(key: &str, kind: &ValueKind) -> serde_json::Value {
    match kind {
        ValueKind::String(text) if text.is_empty() => "".into(),
        _ if is_secret(key) => MASK.into(),
        ValueKind::String(text) => masked(key, text).into(),
        ValueKind::Boolean(value) => (*value).into(),
        ValueKind::I64(value) => (*value).into(),
        ValueKind::Float(value) => (*value).into(),
        ValueKind::Array(values) => values.iter().map(|value| shown(key, &value.kind)).collect(),
        ValueKind::Table(values) => {
            values.iter().map(|(name, value)| (name.clone(), shown(key, &value.kind))).collect()
        }
        other => other.to_string().into(),
    }
}

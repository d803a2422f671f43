//! The shape of a value (yes or no, number, text, list) is that of its default. Stricter than the `config` crate, which
//! reads 1 and "on" as true, and rounds 2.5: here a value means what it says or is refused.

use config::{FileFormat, Format, Map, Value, ValueKind};

/// The one list that is not a list of texts; it has no form as a variable.
pub(super) const TIERS: &str = "billing.tiers";

const A_TIER: &str = r#"tiers = [{ name = "", price_ids = [""], max_webhooks = 0, all_triggers = false }]"#;

/// Where in `key` the value's shape differs from its default's, and what was expected there.
pub(super) fn mismatch(key: &str, value: &ValueKind, default: &ValueKind) -> Option<(String, &'static str)> {
    if key == TIERS {
        let sample = FileFormat::Toml.parse(None, A_TIER).expect("the sample is TOML");
        return differs(key, value, &sample["tiers"].kind);
    }
    match default {
        ValueKind::Array(_) => differs(key, value, &vec![Value::new(None, "")].into()),
        other => differs(key, value, other),
    }
}

fn differs(path: &str, value: &ValueKind, like: &ValueKind) -> Option<(String, &'static str)> {
    use ValueKind::{Array, Boolean, I64, String, Table};
    match (value, like) {
        (Boolean(_), Boolean(_)) | (I64(_), I64(_)) | (String(_), String(_)) => None,
        (Array(values), Array(likes)) => {
            let like = likes.first()?;
            values
                .iter()
                .enumerate()
                .find_map(|(n, value)| differs(&format!("{path}[{n}]"), &value.kind, &like.kind))
        }
        (Table(values), Table(likes)) => in_table(path, values, likes),
        (_, like) => Some((path.to_owned(), expected(value, like))),
    }
}

/// Keys that a table has too many or too few are for its struct to tell.
fn in_table(
    path: &str,
    values: &Map<String, Value>,
    likes: &Map<String, Value>,
) -> Option<(String, &'static str)> {
    values
        .iter()
        .find_map(|(key, value)| differs(&format!("{path}.{key}"), &value.kind, &likes.get(key)?.kind))
}

fn expected(value: &ValueKind, like: &ValueKind) -> &'static str {
    match (value, like) {
        (_, ValueKind::Boolean(_)) => "expected true or false",
        (_, ValueKind::I64(_)) => "expected a whole number",
        (ValueKind::I64(_) | ValueKind::Float(_), ValueKind::String(_)) => {
            r#"expected a text in quotes; a duration is written with a unit, such as "60s""#
        }
        (_, ValueKind::String(_)) => "expected a text in quotes",
        (_, ValueKind::Array(_)) => r#"expected a list, such as ["one", "two"]"#,
        _ => "expected a table",
    }
}

/// Reads a variable's text in the shape of the key's default.
pub(super) fn from_text(key: &str, text: &str, default: &ValueKind) -> Result<ValueKind, &'static str> {
    match default {
        _ if key == TIERS => {
            Err("expected in the settings file: a list of tables does not fit into a variable")
        }
        ValueKind::Boolean(_) => text.parse().map(ValueKind::Boolean).map_err(|_| "expected true or false"),
        ValueKind::I64(_) => text.parse().map(ValueKind::I64).map_err(|_| "expected a whole number"),
        ValueKind::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(items.map(str::to_owned).collect::<Vec<_>>().into())
        }
        _ => Ok(ValueKind::String(text.to_owned())),
    }
}

//! `atcr-workers settings`: what is in effect and where it came from, secrets masked.

use std::io::{self, Write};

use serde_json::Value;

use crate::app::{Exit, Refusal};
use crate::settings::{Listed, Settings};

/// The width that every terminal has.
const COLUMNS: usize = 80;
/// Between two columns.
const GAP: usize = 2;
/// An origin is as wide as it needs, to this: paths go on in the next line rather than squeeze the values.
const ORIGIN_COLUMNS_MAX: usize = 22;

/// Prints every setting.
///
/// # Errors
/// None: the settings were read before.
pub fn run(settings: &Settings, json: bool) -> Result<Exit, Refusal> {
    let listing = settings.listing();
    Ok(super::print(
        |mut out| if json { print_json(listing, &mut out) } else { print_table(listing, &mut out) },
    ))
}

/// Prints key, value and origin in 80 columns. What is too long for its column goes on below.
///
/// # Errors
/// Those of `out`.
pub fn print_table(listing: &[Listed], out: &mut impl Write) -> io::Result<()> {
    let widest =
        |text: fn(&Listed) -> &str| listing.iter().map(|l| text(l).chars().count()).max().unwrap_or(0);
    let keys = widest(|listed| &listed.key);
    let origins = widest(|listed| &listed.origin).min(ORIGIN_COLUMNS_MAX);
    let values = COLUMNS - (keys + GAP + GAP + origins);
    for listed in listing {
        let value_lines: Vec<_> =
            items(&listed.value).iter().flat_map(|item| wrapped(item, values)).collect();
        let origin_lines = wrapped(&listed.origin, origins);
        for n in 0..value_lines.len().max(origin_lines.len()) {
            let key = if n == 0 { listed.key.as_str() } else { "" };
            let value = value_lines.get(n).map_or("", String::as_str);
            let origin = origin_lines.get(n).map_or("", String::as_str);
            let line = format!("{key:keys$}{:GAP$}{value:values$}{:GAP$}{origin}", "", "");
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    Ok(())
}

/// Prints an array of `{key, value, origin}`.
///
/// # Errors
/// Those of `out`.
pub fn print_json(listing: &[Listed], out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, listing)?;
    writeln!(out)
}

/// A list's items, or the one value; what is empty is shown as such.
fn items(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.is_empty() => vec!["\"\"".to_owned()],
        Value::String(text) => vec![text.clone()],
        Value::Array(values) if !values.is_empty() => values.iter().flat_map(items).collect(),
        other => vec![other.to_string()],
    }
}

/// Cuts `text` into lines of at most `columns`, after a slash, a comma or a space where there is one in the second half.
/// Control characters are escaped: a value cannot draw on the terminal.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let mut rest: Vec<char> = text.chars().map(escaped).collect::<String>().chars().collect();
    let mut lines = Vec::new();
    while rest.len() > columns {
        let fair = (columns / 2..columns).rev().find(|n| matches!(rest[*n], '/' | ',' | ' '));
        let tail = rest.split_off(fair.map_or(columns, |n| n + 1));
        lines.push(rest.into_iter().collect());
        rest = tail;
    }
    lines.push(rest.into_iter().collect());
    lines
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn printed(listing: &[Listed]) -> String {
        let mut out = Vec::new();
        print_table(listing, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_fits_80_columns_and_loses_nothing() {
        let file = tempfile::Builder::new().prefix(&"long-".repeat(20)).tempfile().unwrap();
        std::fs::write(
            &file,
            "[instance]\nlabel = 'here'\n[registry]\ndomains = ['a.example', 'b.example']\n",
        )
        .unwrap();
        let user = "u".repeat(200);
        let env = [
            ("ATCR__NETWORK__USER_AGENT".to_owned(), user.clone()),
            ("ATCR__BILLING__STRIPE_SECRET_KEY".to_owned(), "sk_live_1".to_owned()),
        ];
        let settings = Settings::load(Some(file.path()), env).unwrap();
        let table = printed(settings.listing());
        assert!(table.lines().all(|line| line.chars().count() <= COLUMNS), "{table}");
        let lines: Vec<_> = table.lines().collect();
        let first = lines.iter().find(|line| line.starts_with("instance.label")).unwrap();
        assert!(first.split_whitespace().nth(1) == Some("here"), "{first}");
        assert!(table.contains("wss://jetstream1.us-east.bsky.network/"), "{table}");
        assert_eq!(
            table.matches('u').count() - printed_without_user(&settings).matches('u').count(),
            user.len()
        );
        assert!(!table.contains("sk_live"), "{table}");
    }

    fn printed_without_user(settings: &Settings) -> String {
        let mut listing = settings.listing().to_vec();
        for listed in &mut listing {
            if listed.key == "network.user_agent" {
                listed.value = "".into();
            }
        }
        printed(&listing)
    }

    #[test]
    fn a_value_cannot_draw_on_the_terminal() {
        let listed = Listed { key: "k".into(), value: "\u{1b}[2J".into(), origin: "default".into() };
        assert!(printed(&[listed]).starts_with("k  \\u{1b}[2J"));
    }

    #[test]
    fn the_json_is_an_array_of_key_value_and_origin() {
        let env = [("ATCR__REGISTRY__DOMAINS".to_owned(), "a.example, b.example".to_owned())];
        let settings = Settings::load(None, env).unwrap();
        let mut out = Vec::new();
        print_json(settings.listing(), &mut out).unwrap();
        let array: Vec<Value> = serde_json::from_slice(&out).unwrap();
        assert_eq!(array.len(), settings.listing().len());
        let domains = array.iter().find(|entry| entry["key"] == "registry.domains").unwrap();
        assert_eq!(domains["value"], serde_json::json!(["a.example", "b.example"]));
        assert_eq!(domains["origin"], "ATCR__REGISTRY__DOMAINS");
    }
}

//! `atcr-workers settings`: what is in effect and where it came from, secrets masked.

use std::io::{self, Write};

use serde_json::Value;

use crate::app::{Exit, Refusal};
use crate::settings::{Listed, Settings};

/// The width that every terminal has.
const COLUMNS: usize = 80;
/// Between two columns.
const GAP: usize = 2;
/// An origin is as wide as it needs, to this: the shipped files' paths fit, and a duration still fits beside it.
const ORIGIN_COLUMNS_MAX: usize = 24;

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

/// Prints key, value and origin in 80 columns. Where a value does not fit beside its origin it stands below.
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
        let origin_lines = wrapped(&escaped(&listed.origin), origins);
        let items = items(&listed.value);
        let beside = items.iter().all(|item| item.chars().count() <= values);
        let value_lines: Vec<String> = if beside {
            items
        } else {
            let above = origin_lines.iter().map(|_| String::new());
            above.chain(items.iter().flat_map(|item| wrapped(item, COLUMNS - keys - GAP))).collect()
        };
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
        Value::String(text) => vec![escaped(text)],
        Value::Array(values) if !values.is_empty() => values.iter().flat_map(items).collect(),
        other => vec![other.to_string()],
    }
}

/// With control characters escaped: neither a value nor a path can draw on the terminal.
fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// Cuts `text` into lines of at most `columns`, after a separator where there is one in the second half.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut rest: Vec<char> = text.chars().collect();
    let mut lines = Vec::new();
    while rest.len() > columns {
        let fair = (columns / 2..columns).rev().find(|n| matches!(rest[*n], '/' | ',' | ' ' | '_'));
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

    fn printed(listing: &[Listed]) -> String {
        let mut out = Vec::new();
        print_table(listing, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const WITH_BILLING: &str = "[registry]\ndid = 'did:web:registry.example'\nsigning_key = '/run/key'\n\
        domains = ['a.example', 'b.example']\n[[billing.tiers]]\nname = 'free'\nprice_ids = []\nmax_webhooks = 1\n\
        all_triggers = false\n[[billing.tiers]]\nname = 'pro'\nprice_ids = ['p']\nmax_webhooks = 9\nall_triggers = true\n";

    #[test]
    fn the_table_fits_80_columns_whatever_stands_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(format!("{}.toml", "long-".repeat(20)));
        std::fs::write(&file, WITH_BILLING).unwrap();
        let env = [
            ("ATCR__NETWORK__USER_AGENT".to_owned(), "u".repeat(200)),
            ("ATCR__BILLING__STRIPE_SECRET_KEY".to_owned(), "sk_live_1".to_owned()),
        ];
        let table = printed(Settings::load(Some(&file), env).unwrap().listing());
        assert!(
            table.contains("\n                           wss://jetstream2.us-west.bsky.network/subscribe\n"),
            "{table}"
        );
        assert!(table.lines().all(|line| line.chars().count() <= COLUMNS), "{table}");
        assert!(!table.contains("sk_live"), "{table}");
    }

    #[test]
    fn a_line_shows_key_value_and_origin_and_a_list_goes_on_below() {
        let table = printed(Settings::load(None, []).unwrap().listing());
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let at = lines.iter().position(|words| words[0] == "webhooks.discord_hosts").unwrap();
        assert_eq!(lines[at], ["webhooks.discord_hosts", "discord.com", "default"]);
        assert_eq!(lines[at + 1], ["discordapp.com"]);
        assert!(lines.contains(&vec!["admin.token", "\"\"", "default"]), "{table}");
    }

    #[test]
    fn a_wrapped_text_loses_nothing() {
        let text = "wss://jetstream1.us-east.bsky.network/subscribe";
        assert_eq!(wrapped(text, 44), ["wss://jetstream1.us-east.bsky.network/", "subscribe"]);
        for columns in 1..60 {
            let lines = wrapped(text, columns);
            assert_eq!(lines.concat(), text);
            assert!(lines.iter().all(|line| line.len() <= columns));
        }
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

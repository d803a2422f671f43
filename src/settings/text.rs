//! How a text in the settings becomes a value: each reader takes what a field's `deserialize_with` names.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};

/// By the type's own rule.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// An empty text is none.
pub(super) fn optional<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = String::deserialize(from)?;
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(D::Error::custom) }
}

/// Every item by the type's own rule; the message says which one broke it.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let texts = Vec::<String>::deserialize(from)?;
    let parsed = texts.iter().enumerate().map(|(n, text)| {
        text.parse().map_err(|expected| D::Error::custom(format!("item {}: {expected}", n + 1)))
    });
    parsed.collect()
}

/// An empty text is none; no check that the file is there, for another user may load it.
pub(super) fn optional_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(from)?;
    if text.contains('\0') {
        return Err(D::Error::custom("expected the path of a file"));
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

/// A whole number from `MIN` to `MAX`.
pub(super) fn between<'de, const MIN: u32, const MAX: u32, D>(from: D) -> Result<u32, D::Error>
where
    D: Deserializer<'de>,
{
    let number = i64::deserialize(from)?;
    let fits = u32::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number));
    fits.ok_or_else(|| D::Error::custom(format!("expected a whole number from {MIN} to {MAX}")))
}

/// What people read in a line of a list: at most 64 characters, none of them a control character.
pub(super) fn label<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    let good = text.chars().count() <= 64 && !text.chars().any(char::is_control);
    good.then_some(text)
        .ok_or_else(|| D::Error::custom("expected at most 64 characters, none a control character"))
}

/// What may stand in an HTTP header.
pub(super) fn user_agent<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    let good = (1..=256).contains(&text.trim().len()) && text.bytes().all(|b| (b' '..=b'~').contains(&b));
    let named = || text.replace("VERSION", env!("CARGO_PKG_VERSION"));
    good.then(named).ok_or_else(|| D::Error::custom("expected 1 to 256 printable ASCII characters"))
}

/// Log directives. Stricter than their parser, which takes a misspelt level for the name of a target to log in full.
pub(super) fn log_directives<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let text = String::deserialize(from)?;
    let level = |name: &str| LEVELS.contains(&name.to_ascii_lowercase().as_str());
    let good =
        text.split(',').all(|directive| directive.contains(['=', '[', ']']) || level(directive.trim()));
    if good && tracing_subscriber::EnvFilter::try_new(&text).is_ok() {
        return Ok(text);
    }
    Err(D::Error::custom(
        "expected off, error, warn, info, debug or trace, or directives such as \"info,hyper=warn\"",
    ))
}

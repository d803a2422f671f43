//! Durations as people write them: `500ms`, `1.5s`, `1m30s`, `30d`. Always with a unit, so that nobody guesses it.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// Ten years. A limit, so that a moment plus any setting can never overflow a clock.
const DAYS_MAX: u64 = 3_650;

const DAY_NANOS: u128 = 86_400_000_000_000;

/// Zero or longer.
pub(super) fn any<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// Longer than zero.
pub(super) fn above_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let duration = any(from)?;
    if duration.is_zero() {
        Err(D::Error::custom("expected a duration longer than 0s"))
    } else {
        Ok(duration)
    }
}

/// `auto` is none.
pub(super) fn or_auto<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "auto" {
        return Ok(None);
    }
    parse(&text).map(Some).map_err(|expected| D::Error::custom(format!("{expected}, or \"auto\"")))
}

/// As it would be written: `500ms`, `2s`.
pub(super) fn text(duration: Duration) -> String {
    if duration.is_zero() { "0s".into() } else { format!("{duration:?}") }
}

pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let expected = || {
        let digits = (1..6).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        let example = if digits { text } else { "60" };
        format!("expected a duration with a unit such as \"{example}s\" (units: ms, s, m, h, d)")
    };
    let mut nanos: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() || text.is_empty() {
        let (part, after) = first_part(rest).ok_or_else(expected)?;
        // One part is below 2^64 days, which a u128 holds; a text may have very many parts.
        nanos = nanos.saturating_add(part);
        rest = after;
    }
    match u64::try_from(nanos) {
        Ok(nanos_u64) if nanos <= u128::from(DAYS_MAX) * DAY_NANOS => Ok(Duration::from_nanos(nanos_u64)),
        _ => Err(format!("expected a duration of at most {DAYS_MAX}d")),
    }
}

/// The first number with its unit, in nanoseconds, and what follows it.
fn first_part(text: &str) -> Option<(u128, &str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(number_end);
    let unit_end = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit = match unit {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => DAY_NANOS,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(w, f)| (w, Some(f)));
    // A number too long for a u64 is no slip of the unit, but too long a duration.
    let whole = if whole.is_empty() { None } else { Some(whole.parse().unwrap_or(u64::MAX)) };
    let nanos = u128::from(whole?) * unit + fraction.map_or(Some(0), |digits| part_of(unit, digits))?;
    Some((nanos, rest))
}

/// 0.`digits` of `unit`; at most nine digits, which is a nanosecond of a second.
fn part_of(unit: u128, digits: &str) -> Option<u128> {
    let count = u32::try_from(digits.len()).ok().filter(|count| (1..=9).contains(count))?;
    let digits: u32 = digits.parse().ok()?;
    Some(u128::from(digits) * unit / 10u128.pow(count))
}

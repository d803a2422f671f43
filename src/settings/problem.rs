//! What is wrong with the settings, each problem in one line with all that an operator needs to mend it.

use std::fmt;

use config::{Config, ConfigError, ValueKind};

use super::layers::key_of;
use super::listing::{entry, shown};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    /// The settings file as a whole.
    #[error("settings file {path}: {reason}")]
    File {
        /// As given.
        path: String,
        /// What is wrong with it, with line and column where it is the text.
        reason: String,
    },
    /// A value stands where a section belongs.
    #[error("{section} ({origin}): expected a section, [{section}]")]
    NoSection {
        /// The section's name.
        section: String,
        /// Where it came from.
        origin: String,
    },
    /// Nobody knows this key. Its value is not shown: it may be a secret under a misspelt name.
    #[error("{name} ({origin}): unknown{hint}")]
    Unknown {
        /// The key or the variable.
        name: String,
        /// Where it came from.
        origin: String,
        /// The nearest name that is known, or nothing.
        hint: String,
    },
    /// A value that cannot be, by itself or beside the others.
    #[error("{key} = {value} ({origin}): {expected}")]
    Value {
        /// The key, with the place inside its value where that is a list.
        key: String,
        /// As given, secrets masked.
        value: String,
        /// A file, a variable, or `default`.
        origin: String,
        /// What would have been right.
        expected: String,
    },
}

/// Longer values and names are cut in messages.
const CHARS_MAX: usize = 120;

impl Problem {
    pub(super) fn new(path: &str, value: &ValueKind, origin: &str, expected: impl Into<String>) -> Problem {
        let value = cut(&shown(key_of(path), value).to_string());
        Problem::Value { key: path.into(), value, origin: origin.into(), expected: expected.into() }
    }

    /// About the value that `merged` has at `path`.
    pub(super) fn value(merged: &Config, path: &str, expected: &str) -> Problem {
        match entry(merged, key_of(path)) {
            Some(value) => Problem::new(path, &value.kind, value.origin().unwrap_or_default(), expected),
            None => Problem::new(path, &ValueKind::Nil, "nowhere", expected),
        }
    }

    pub(super) fn unknown<N: AsRef<str>>(
        name: &str,
        origin: &str,
        known: impl Iterator<Item = N>,
    ) -> Problem {
        let hint = nearest(name, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        Problem::Unknown { name: cut(&name.escape_debug().to_string()), origin: origin.into(), hint }
    }

    /// Whether every value is as the operator wrote it, in spite of this problem.
    pub(super) fn leaves_the_values(&self) -> bool {
        matches!(self, Problem::Unknown { .. })
    }
}

fn cut(text: &str) -> String {
    text.char_indices()
        .nth(CHARS_MAX)
        .map_or_else(|| text.to_owned(), |(end, _)| format!("{}…", &text[..end]))
}

/// The known name that differs least, if that is little enough to be a slip: a third of its length.
fn nearest<N: AsRef<str>>(name: &str, known: impl Iterator<Item = N>) -> Option<String> {
    // The distance costs the product of the lengths, and a name may be as long as the file.
    let distance = |known: &str| (name.len() < 100).then(|| strsim::damerau_levenshtein(name, known));
    let near =
        known.filter_map(|known| Some((distance(known.as_ref())?, known.as_ref().to_owned()))).min()?;
    (near.0 <= near.1.len() / 3).then_some(near.1)
}

/// The path of the value that a struct refused, and what it expected.
pub(super) fn place(error: &ConfigError) -> (String, String) {
    match error {
        ConfigError::At { error, key: Some(key), .. } => (dotted(key), error.to_string()),
        ConfigError::Type { key: Some(key), expected, .. } => (dotted(key), format!("expected {expected}")),
        ConfigError::NotFound(path) => {
            let path = dotted(path);
            let (table, key) = path.rsplit_once('.').unwrap_or(("", &path));
            (table.to_owned(), format!("expected a key {key:?} in it"))
        }
        other => (String::new(), other.to_string()),
    }
}

/// The crate leaves out the dot after an item of a list: `billing.tiers[0]name`.
fn dotted(path: &str) -> String {
    path.replace(']', "].").trim_end_matches('.').to_owned()
}

/// Why the settings are refused: every problem that was found, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    problems: Vec<Problem>,
}

impl SettingsError {
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        // Tables have no order of their own here, and the same mistakes must read the same each time.
        problems.sort();
        assert!(!problems.is_empty(), "an error without a problem would refuse good settings");
        Self { problems }
    }

    /// Every problem: the file first, then unknown names, then values; each by name.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings refused")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for SettingsError {}

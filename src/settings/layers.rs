//! Where values come from. A layer maps full keys (`section.key`) to values that remember their origin; what is not a
//! known key, or has the wrong shape, never gets into one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use config::{Config, ConfigError, FileFormat, Format, Map, Source, Value, ValueKind};

use super::problem::Problem;
use super::{Settings, shape};

/// The prefix of our environment variables.
const PREFIX: &str = "ATCR__";

/// A settings file is a few kilobytes. At half of this nothing would break; at double it is still somebody's disk
/// image, given by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One source of values, by full key.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer(Map<String, Value>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}

impl Layer {
    /// The embedded file: the list of known keys, too.
    pub(super) fn defaults() -> Layer {
        let sections = FileFormat::Toml.parse(Some(&"default".to_owned()), Settings::default_toml());
        let sections = sections.expect("a test loads the embedded file");
        let flat = sections.into_iter().flat_map(|(section, value)| {
            let keys = value.into_table().unwrap_or_default();
            keys.into_iter().map(move |(key, value)| (format!("{section}.{key}"), value))
        });
        Layer(flat.collect())
    }

    /// The operator's file. Empty, and a problem told, if it cannot be read.
    pub(super) fn file(path: &Path, known: &Layer, problems: &mut Vec<Problem>) -> Layer {
        let origin = path.display().to_string();
        let sections = match read_text(path).and_then(|text| parse(&origin, &text)) {
            Ok(sections) => sections,
            Err(reason) => {
                problems.push(Problem::File { path: origin, reason });
                return Layer::default();
            }
        };
        let mut layer = Layer::default();
        for (section, value) in sections {
            let is_section = known.0.keys().any(|key| key.split('.').next() == Some(&section));
            match value.kind {
                ValueKind::Table(keys) if is_section => {
                    for (key, value) in keys {
                        layer.add(format!("{section}.{key}"), value, known, problems);
                    }
                }
                _ if is_section => problems.push(Problem::NoSection { section, origin: origin.clone() }),
                _ => problems.push(Problem::unknown(&section, &origin, known.sections())),
            }
        }
        layer
    }

    /// The variables that begin with `ATCR__`.
    pub(super) fn environment(
        env: impl IntoIterator<Item = (String, String)>,
        known: &Layer,
        problems: &mut Vec<Problem>,
    ) -> Layer {
        let keys: BTreeMap<String, &String> = known.0.keys().map(|key| (variable(key), key)).collect();
        let mut layer = Layer::default();
        for (name, text) in env.into_iter().filter(|(name, _)| name.starts_with(PREFIX)) {
            let Some(&key) = keys.get(&name) else {
                problems.push(Problem::unknown(&name, "environment", keys.keys()));
                continue;
            };
            match shape::from_text(key, &text, &known.0[key.as_str()].kind) {
                Ok(kind) => layer.add(key.clone(), Value::new(Some(&name), kind), known, problems),
                Err(expected) => problems.push(Problem::new(key, &text.into(), &name, expected)),
            }
        }
        layer
    }

    fn add(&mut self, key: String, value: Value, known: &Layer, problems: &mut Vec<Problem>) {
        let origin = value.origin().unwrap_or_default().to_owned();
        let Some(default) = known.0.get(&key) else {
            return problems.push(Problem::unknown(&key, &origin, known.0.keys()));
        };
        match shape::mismatch(&key, &value.kind, &default.kind) {
            None => drop(self.0.insert(key, value)),
            Some((path, expected)) => problems.push(Problem::new(&path, &value.kind, &origin, expected)),
        }
    }

    /// A layer of the value of `key` alone; empty if there is none.
    pub(super) fn only(&self, key: &str) -> Layer {
        Layer(
            self.0.get_key_value(key).map(|(key, value)| (key.clone(), value.clone())).into_iter().collect(),
        )
    }

    /// How many keys.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn sections(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|key| key.split('.').next())
    }
}

/// Later layers win.
pub(super) fn merge(layers: &[Layer]) -> Config {
    let builder = layers.iter().fold(Config::builder(), |builder, layer| builder.add_source(layer.clone()));
    builder.build().expect("a layer never fails to hand out its values")
}

/// `section.key` of a path that may lead on into the value, as `billing.tiers[0].name` does.
pub(super) fn key_of(path: &str) -> &str {
    path.split('[').next().unwrap_or(path)
}

/// `network.timeout` is `ATCR__NETWORK__TIMEOUT` in the environment.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_ascii_uppercase())
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is larger than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(text).map_err(|_| "is not UTF-8 text".to_owned())
}

fn parse(origin: &str, text: &str) -> Result<Map<String, Value>, String> {
    let toml = |text: &str| {
        FileFormat::Toml.parse(Some(&origin.to_owned()), text).map_err(|error| error.to_string())
    };
    toml(text).map_err(|report| {
        let place = "TOML parse error at ";
        if let Some(report) = report.strip_prefix(place) {
            return format!("is not TOML at {}", without_the_source(report));
        }
        // The parser accepts a number of any size and its reader then refuses it without a place: the place is the
        // first line with which the file is refused in this way.
        let lines: Vec<&str> = text.lines().collect();
        let refused = |count: &usize| toml(&lines[..*count].join("\n")).is_err_and(|again| again == report);
        let line = (1..=lines.len()).collect::<Vec<_>>().partition_point(|count| !refused(count)) + 1;
        format!("line {line}: {report}; expected a number of at most 64 bits")
    })
}

/// The parser's report in one line, less the excerpt of the file that it draws: the excerpt may show a secret.
fn without_the_source(report: &str) -> String {
    let is_margin = |text: &str| text.chars().all(|c| c == ' ' || c.is_ascii_digit());
    let is_told = |line: &&str| !line.split_once('|').is_some_and(|(margin, _)| is_margin(margin));
    report.lines().filter(is_told).collect::<Vec<_>>().join(": ")
}

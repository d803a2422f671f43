//! The metrics of the operator's guide are those of the program, with their labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::documents::shown::{document, documents, spans};
use crate::style::none;

/// Keeps the names that are described.
#[derive(Default)]
struct Described(Mutex<BTreeSet<String>>);

impl Recorder for Described {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.lock().unwrap().insert(name.as_str().to_owned());
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.lock().unwrap().insert(name.as_str().to_owned());
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.lock().unwrap().insert(name.as_str().to_owned());
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn described() -> BTreeSet<String> {
    let recorder = Described::default();
    metrics::with_local_recorder(&recorder, atcr_workers::metrics::describe);
    recorder.0.into_inner().unwrap()
}

/// The metrics in the guide's tables, with their labels.
pub(super) fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let rows = document("settings/README.md").rows();
    let first = rows.iter().filter_map(|(_, cells)| cells.first());
    let metrics = first.flat_map(|cell| spans(cell)).filter(|span| is_metric(span));
    metrics
        .map(|span| {
            let (name, labels) = span.split_once('{').unwrap_or((&span, "}"));
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            (name.to_owned(), labels.map(str::to_owned).collect())
        })
        .collect()
}

fn is_metric(word: &str) -> bool {
    let name = word.split('{').next().unwrap_or_default();
    let starts = ["atcr_", "lease_", "actor_"].iter().any(|start| name.starts_with(start));
    starts && name.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !TABLES.contains(&name)
}

/// Tables of the database whose names begin as metrics do.
const TABLES: &[&str] =
    &["lease_instance", "lease_wish", "lease_cooldown", "lease_event", "lease_store_suite"];

#[test]
fn the_guide_has_every_metric_and_no_other() {
    let (described, documented) = (described(), documented());
    assert!(described.len() > 80, "{described:?}");
    none(
        described.iter().filter(|name| !documented.contains_key(*name)).cloned(),
        "metrics that the guide lacks",
    );
    none(documented.into_keys().filter(|name| !described.contains(name)), "metrics that only the guide has");
}

#[test]
fn no_document_names_a_metric_that_there_is_not() {
    let described = described();
    let unknown = documents().into_iter().flat_map(|document| {
        let named = document.spans().into_iter().filter(|span| is_metric(span));
        let unknown: Vec<_> =
            named.filter(|span| !described.contains(span.split('{').next().unwrap())).collect();
        unknown.into_iter().map(move |span| format!("{}: {span}", document.path))
    });
    let whole = unknown.filter(|line| !line.ends_with('_'));
    none(whole, "metrics that there are not");
}

/// What an instance really tells must be in the guide, with the very labels.
pub(super) fn compare(told: &str) {
    let documented = documented();
    let mut wrong = BTreeSet::new();
    for line in told.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels: BTreeSet<String> = labels
            .split("\",")
            .filter_map(|label| Some(label.split_once('=')?.0.to_owned()))
            .filter(|label| label != "le")
            .collect();
        let base =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        match documented.get(name).or_else(|| documented.get(base)) {
            Some(expected) if *expected == labels => {}
            other => {
                wrong.insert(format!("{name} has the labels {labels:?}, the guide says {other:?}"));
            }
        }
    }
    assert!(told.len() > 1000, "hardly a metric: {told}");
    none(wrong.into_iter(), "metrics that the guide has otherwise");
}

//! What Prometheus makes of us: the metrics and the alert rules.

use std::{collections::BTreeSet, fs, path::Path};

use super::{
    deployed,
    everything::{Everything, metrics},
    read,
};
use crate::support::programs::Judge;

/// What the rules do as time passes; see there.
const RULES_IN_TIME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/beside/alerts.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn promtool_finds_nothing_to_say_about_the_metrics_of_an_instance_with_every_worker() {
    let everything = Everything::new().await;
    let instance = everything.worked();
    let text = metrics(&instance);
    let families = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert!(families("# TYPE ") > 50, "{text}");
    assert_eq!(families("# TYPE "), families("# HELP "), "{text}");
    let Some(verdict) = Judge::Promtool.ask(&["check", "metrics"], &text) else { return };
    assert!(verdict.passed && verdict.said.trim().is_empty(), "{verdict:?}");
}

#[test]
fn promtool_takes_the_alert_rules() {
    let rules = deployed("alerts.yaml");
    let Some(verdict) = Judge::Promtool.ask(&["check", "rules", rules.to_str().unwrap()], "") else { return };
    assert!(verdict.passed && !verdict.said.contains("FAILED"), "{verdict:?}");
}

#[test]
fn each_alert_fires_when_it_should_and_is_silent_when_not() {
    let times = fs::read_to_string(RULES_IN_TIME).unwrap();
    let names = |text: &str, before: &str, until: char| -> BTreeSet<String> {
        let parts = text.split(before).skip(1);
        parts.map(|part| part.split(until).next().unwrap().trim().to_owned()).collect()
    };
    let rules = names(&read("alerts.yaml"), "- alert:", '\n');
    assert!(rules.len() >= 15, "{rules:?}");
    assert_eq!(names(&times, "{alertname=\"", '"'), rules, "each rule has its times in {RULES_IN_TIME}");
    let Some(verdict) = Judge::Promtool.ask(&["test", "rules", RULES_IN_TIME], "") else { return };
    assert!(verdict.passed, "{}", verdict.said);
}

/// What alert rules and the dashboard ask for and nobody measures would never show anything.
#[test]
fn every_metric_in_the_files_for_operators_is_one_of_ours() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut source = String::new();
    for folder in ["src", "actors/src"] {
        read_all(&root.join(folder), &mut source);
    }
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = read(file);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_metric =
            |word: &&str| ["atcr_", "lease_", "actor_"].iter().any(|start| word.starts_with(start));
        let asked: BTreeSet<&str> =
            words.filter(is_metric).map(|word| word.trim_end_matches("_bucket")).collect();
        assert!(asked.len() > 10, "{file}: {asked:?}");
        let unknown: Vec<_> = asked.iter().filter(|name| !source.contains(&format!("\"{name}\""))).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}");
    }
}

fn read_all(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

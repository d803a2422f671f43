//! The Grafana dashboard: what Grafana needs of it, as far as that can be told without Grafana, and its queries.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::read;
use crate::support::programs::Judge;

/// Grafana's grid.
const COLUMNS: u64 = 24;
/// What its panels may be measured in, of the units that Grafana has.
const UNITS: &[&str] = &["none", "ops", "s", "short", "bytes", "percentunit"];
/// Built into Grafana.
const BUILT_IN: &[&str] = &["$__rate_interval", "$__interval", "$__range"];

#[test]
fn the_dashboard_has_what_grafana_needs() {
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    for key in ["title", "uid"] {
        assert!(dashboard[key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
    }
    assert!(dashboard["uid"].as_str().unwrap().len() <= 40, "Grafana's limit");
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36), "before it, a source was named by its name");
    assert_eq!(dashboard.get("id"), None, "an id is another Grafana's");
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let mut taken = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert_eq!(panel["datasource"], json!({"type": "prometheus", "uid": "${source}"}), "{title}");
        assert!(["timeseries", "state-timeline"].contains(&panel["type"].as_str().unwrap()), "{title}");
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap();
        assert!(UNITS.contains(&unit), "{title}: {unit}");
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap_or_else(|| panic!("{title}: {key}"));
        assert!(at("x") + at("w") <= COLUMNS && at("w") > 0 && at("h") > 0, "{title}");
        for column in at("x")..at("x") + at("w") {
            for row in at("y")..at("y") + at("h") {
                assert!(taken.insert((column, row)), "{title} lies over another panel");
            }
        }
        let targets = panel["targets"].as_array().unwrap();
        let references: BTreeSet<&str> = targets.iter().map(|t| t["refId"].as_str().unwrap()).collect();
        assert_eq!(references.len(), targets.len(), "{title}: each query has a letter of its own");
        assert!(!targets.is_empty(), "{title}");
    }
}

#[test]
fn promtool_takes_every_query_of_the_dashboard() {
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variables: Vec<String> =
        variables.iter().map(|variable| format!("${}", variable["name"].as_str().unwrap())).collect();
    let mut rules = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let mut query = target["expr"].as_str().unwrap().to_owned();
            for variable in BUILT_IN {
                query = query.replace(variable, "5m");
            }
            for variable in &variables {
                query = query.replace(variable.as_str(), "x");
            }
            assert!(!query.contains('$'), "{query}: a variable that there is not");
            rules.push(json!({"record": format!("query:{}", rules.len()), "expr": query}));
        }
    }
    assert!(rules.len() > 15, "{rules:?}");
    let rules = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, rules.to_string()).unwrap();
    let Some(verdict) = Judge::Promtool.ask(&["check", "rules", file.to_str().unwrap()], "") else { return };
    assert!(verdict.passed && !verdict.said.contains("FAILED"), "{verdict:?}");
}

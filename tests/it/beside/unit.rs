//! The systemd unit, judged by systemd, and true to what the program does.

use std::{fs, time::Duration};

use leased_actors::lease::timing::Timing;

use super::read;
use crate::support::{
    place::Kind,
    process::Exit,
    programs::{Judge, Verdict},
    stage::Stage,
};

/// Ten times what `systemd-analyze security` calls the exposure; 0 is a unit that can do nothing. Ours needs the network
/// and nothing else.
const EXPOSURE_MAX: &str = "15";

#[test]
fn systemd_has_nothing_to_say_about_the_unit() {
    let Some(verdict) = analyze(&["verify"]) else { return };
    assert!(verdict.passed && verdict.said.trim().is_empty(), "{}", verdict.said);
}

#[test]
fn the_unit_is_exposed_to_the_network_and_to_little_else() {
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let Some(verdict) = analyze(&["security", "--offline=true", &threshold, "--no-pager"]) else { return };
    assert!(verdict.passed, "{}", verdict.said);
}

/// The unit with our binary in the place where it would be installed.
fn analyze(arguments: &[&str]) -> Option<Verdict> {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("atcr-workers.service");
    let installed = "/usr/local/bin/atcr-workers";
    let text = read("atcr-workers.service");
    assert!(text.contains(installed));
    fs::write(&unit, text.replace(installed, env!("CARGO_BIN_EXE_atcr-workers"))).unwrap();
    Judge::SystemdAnalyze.ask(&[arguments, &[unit.to_str().unwrap()]].concat(), "")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_units_times_and_codes_are_those_of_the_program() {
    let text = read("atcr-workers.service");
    let of = |key: &str| -> Vec<&str> {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(name, _)| *name == key).map(|(_, value)| value).collect()
    };
    assert_eq!(of("Type"), ["notify"]);
    assert_eq!(of("RestartPreventExitStatus"), [(atcr_workers::app::Exit::Settings as i32).to_string()]);
    let stop = seconds(of("TimeoutStopSec")[0]);
    let stage = Stage::new(Kind::Sqlite).await;
    assert!(stop >= stops_within(&stage) * 5, "{stop:?}");
    let stage = of("Environment").iter().fold(stage, |stage, variable| {
        let (name, value) = variable.split_once('=').unwrap();
        stage.with(name, value)
    });
    let (exit, said) = stage.command(&["settings", "--json"]);
    assert_eq!(exit, Exit::Code(0), "{said}");
}

/// S, which is the same for both databases unless it is set.
pub(super) fn stops_within(stage: &Stage) -> Duration {
    let (exit, text) = stage.command(&["settings", "--json"]);
    assert_eq!(exit, Exit::Code(0), "{text}");
    let settings: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let set = settings.iter().find(|setting| setting["key"] == "leases.stop_within").unwrap();
    match set["value"].as_str().unwrap() {
        "auto" => Timing::POSTGRES.stop_within,
        given => seconds(given),
    }
}

/// `20s`, as systemd, Compose and our settings write it.
pub(super) fn seconds(text: &str) -> Duration {
    let number = text.trim().strip_suffix('s').unwrap_or_else(|| panic!("{text}: expected seconds"));
    Duration::from_secs_f64(number.parse().unwrap())
}

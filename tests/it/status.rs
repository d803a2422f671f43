//! `atcr-workers status`: one object for programs, whose keys are kept, and a table for people, that fits their terminal.

use localnet::{ids, network::Fault};
use serde_json::Value;

use crate::{
    health,
    support::{
        eventually::eventually_blocking,
        place::{Kind, Place, on_both_databases},
        process::{Exit, Instance},
        stage::{PATIENCE, Stage, until_ready},
    },
};

on_both_databases!(
    an_empty_database_has_every_section_and_nothing_in_them,
    two_instances_are_told_of_from_anywhere
);

/// The keys of the whole object, as it is documented.
const SECTIONS: &[&str] = &["backfill", "holds", "instances", "labels", "leases", "outbox", "streams"];

/// Those of the labels.
const LABELS: &[&str] = &[
    "answered",
    "connected",
    "era",
    "in_effect",
    "labeler",
    "last_check_at",
    "last_label_at",
    "not_verified",
    "position_refused",
    "reason",
    "saved_at",
    "saved_seconds_ago",
    "seq",
    "taken_down",
    "verify_signatures",
];

async fn an_empty_database_has_every_section_and_nothing_in_them(kind: Kind) {
    let stage = Stage::bare(Place::fresh(kind).await).await;
    let (exit, text) = stage.command(&["status", "--json"]);
    assert!(exit == Exit::Code(1) && text.contains("atcr-workers migrate"), "{text}");
    assert_eq!(stage.command(&["migrate"]).0, Exit::Code(0));
    let report = json(&stage);
    assert_eq!(keys(&report), SECTIONS);
    for section in ["holds", "instances", "leases", "streams"] {
        assert_eq!(report[section], Value::Array(Vec::new()), "{section}");
    }
    assert_eq!(report["backfill"]["run"], Value::Null);
    assert_eq!((&report["labels"]["labeler"], &report["labels"]["taken_down"]), (&Value::Null, &0.into()));
    let table = table(&stage);
    assert!(table.contains("no instance has run on this database"), "{table}");
}

async fn two_instances_are_told_of_from_anywhere(kind: Kind) {
    let stage = health::stage::stage(kind).await.with("ATCR__CLEANUP__ENABLED", "true");
    health::stage::fails(&stage, "down.test", Fault::Status(500));
    health::stage::has_captain(&stage, "did:web:up.test").await;
    health::stage::has_captain(&stage, "did:web:down.test").await;
    has_read_and_backfilled(&stage).await;
    let instances = [stage.start("here"), stage.start("there")];
    instances.iter().for_each(until_ready);
    health::stage::after_a_round(&instances[0]);
    // As one on another machine looks in the database.
    let pid = instances[1].pid();
    stage.place.execute(&format!("UPDATE lease_instance SET host = 'elsewhere' WHERE pid = {pid}")).await;

    let report = eventually_blocking("the worker runs", PATIENCE, || {
        let report = json(&stage);
        if report["leases"][0]["state"] == "running" { Ok(report) } else { Err(report) }
    });
    has_the_documented_keys(&report);
    let [here, there] = &report["instances"].as_array().unwrap()[..] else { panic!("{report}") };
    let of = |instance: &Instance| (Value::from(instance.pid()), Value::from(instance.admin_address()));
    let shown = |instance: &Value| (instance["pid"].clone(), instance["admin_address"].clone());
    assert_eq!([shown(here), shown(there)], [of(&instances[0]), of(&instances[1])]);
    assert_eq!((here["label"].as_str(), here["state"].as_str()), (Some("here"), Some("up")));
    assert!(here["renewed_seconds_ago"].as_f64().unwrap() < 10.0, "{here}");
    assert_eq!([&here["version"], &there["version"]], [&env!("CARGO_PKG_VERSION").into(), &Value::Null]);
    assert_eq!(report["leases"][0]["name"], "cleanup");
    let worker = report["leases"][0]["holder"]["label"].as_str().unwrap();
    assert!(["here", "there"].contains(&worker), "{report}");
    let stream = &report["streams"][0];
    let (wire, host) = (stream["wire"].as_str(), stream["host"].as_str());
    assert_eq!((wire, host, &stream["seq"]), (Some("v2"), Some("stream.example"), &42.into()));
    let (position, saved) = (&stream["position_seconds_ago"], &stream["saved_seconds_ago"]);
    let between = position.as_f64().unwrap() - saved.as_f64().unwrap();
    assert!((49.9..50.1).contains(&between) && saved.as_f64().unwrap() >= 50.0, "{stream}");
    assert_eq!(report["backfill"]["run"]["repositories_done"], 2);
    assert_eq!(report["backfill"]["requests"], 1);
    assert_eq!((&report["outbox"]["waiting"], &report["outbox"]["webhooks"]), (&1.into(), &1.into()));
    let [ours, theirs] = &report["holds"].as_array().unwrap()[..] else { panic!("{report}") };
    let counts = ["reachable", "unreachable", "unknown"].map(|state| ours[state].as_i64().unwrap());
    assert_eq!(counts, [1, 1, 0]);
    assert_eq!(ours["down"][0]["did"], "did:web:down.test");
    let elsewhere = format!("ask the instance at {} on elsewhere", instances[1].admin_address());
    assert_eq!((&theirs["answered"], theirs["reason"].as_str()), (&false.into(), Some(&*elsewhere)));

    let table = table(&stage);
    let expected = [
        worker,
        "cleanup",
        "v2 stream.example",
        "2 of 3 repositories",
        "1 deliveries wait",
        "did:web:down.test",
        "status 500",
        &elsewhere,
    ];
    for part in expected {
        assert!(table.contains(part), "{part:?} is not in\n{table}");
    }
}

/// A position, a run of which two of three repositories are done, a wish, and a delivery that waits.
async fn has_read_and_backfilled(stage: &Stage) {
    let now_us = ids::now_us();
    let (read_us, saved_us) = (now_us - 100_000_000, now_us - 50_000_000);
    let repo = |did: &str, state: &str| {
        format!(
            "INSERT INTO backfill_repo (did, run, state, found_at) VALUES ('did:plc:{did}', 1, '{state}', {now_us});"
        )
    };
    let sql = format!(
        "INSERT INTO stream_cursor (wire, host, time_us, seq, saved_at)
         VALUES ('v2', 'stream.example', {read_us}, 42, {saved_us});
         INSERT INTO users (did, first_seen) VALUES ('did:plc:user', 1);
         INSERT INTO webhooks (id, user_did, url, triggers, created_at, updated_at)
         VALUES (1, 'did:plc:user', 'https://hook.example', 8, 1, 1);
         INSERT INTO webhook_deliveries (id, webhook_id, trigger, dedupe_key, repository, digest, tag, event, status,
             next_attempt_at, created_at, asked_at)
         VALUES ('d1', 1, 'push', 'k', 'app', 'sha256:0', '', '{{}}', 'pending', 1, 1, 1);
         INSERT INTO backfill_run (id, reason, forced, started_at, records) VALUES (1, 'start', FALSE, {now_us}, 7);
         INSERT INTO backfill_request (did, reason, asked_at) VALUES ('*', 'operator', 1);
         {}{}{}",
        repo("a", "read"),
        repo("b", "failed"),
        repo("c", "waiting"),
    );
    stage.place.execute(&sql).await;
}

/// What programs rely on. A key may come; none may go.
fn has_the_documented_keys(report: &Value) {
    assert_eq!(keys(report), SECTIONS);
    let instance = [
        "admin_address",
        "host",
        "incarnation",
        "label",
        "pid",
        "renewed_seconds_ago",
        "since",
        "state",
        "version",
    ];
    assert_eq!(keys(&report["instances"][0]), instance);
    assert_eq!(
        keys(&report["leases"][0]),
        ["desired", "epoch", "holder", "name", "paused", "since", "state"]
    );
    let stream = ["host", "position", "position_seconds_ago", "saved_at", "saved_seconds_ago", "seq", "wire"];
    assert_eq!(keys(&report["streams"][0]), stream);
    let backfill = ["requests", "requests_every", "requests_oldest_seconds_ago", "run"];
    assert_eq!(keys(&report["backfill"]), backfill);
    let run = [
        "ended_at",
        "forced",
        "id",
        "lists_waiting",
        "reason",
        "records",
        "records_changed",
        "records_missed",
        "repositories",
        "repositories_done",
        "repositories_failed",
        "started_at",
        "state",
    ];
    assert_eq!(keys(&report["backfill"]["run"]), run);
    assert_eq!(keys(&report["outbox"]), ["due_seconds", "waiting", "webhooks", "webhooks_disabled"]);
    assert_eq!(keys(&report["labels"]), LABELS);
    let holds = [
        "admin_address",
        "answered",
        "down",
        "enabled",
        "incarnation",
        "label",
        "left_out",
        "reachable",
        "reason",
        "round_ended_at",
        "unknown",
        "unreachable",
    ];
    assert_eq!(keys(&report["holds"][0]), holds);
    assert_eq!(keys(&report["holds"][0]["down"][0]), ["checked_at", "did", "error", "reachable", "state"]);
}

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn json(stage: &Stage) -> Value {
    let (exit, text) = stage.command(&["status", "--json"]);
    assert_eq!(exit, Exit::Code(0), "{text}");
    serde_json::from_str(&text).unwrap()
}

fn table(stage: &Stage) -> String {
    let (exit, table) = stage.command(&["status"]);
    assert_eq!(exit, Exit::Code(0), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    table
}

//! Each worker runs on exactly one of several processes, and moves when that one leaves, dies or hangs.

use std::{collections::BTreeSet, time::Duration};

use localnet::ids::now_us;
use rustix::process::Signal;

use crate::support::{
    eventually::{eventually, eventually_blocking},
    place::{Kind, Place, on_both_databases},
    process::{Exit, Instance},
    stage::{PATIENCE, Stage, until_in, until_standby},
};

on_both_databases!(
    one_of_two_instances_runs_the_worker,
    one_of_five_instances_runs_the_worker,
    one_of_two_instances_of_the_same_host_and_label_runs_the_worker,
    a_stopped_instance_releases_before_it_exits,
    a_killed_instance_is_replaced_long_before_its_ttl,
    a_frozen_instance_writes_nothing_after_its_successor,
    the_list_of_leases_has_the_documented_keys,
    two_workers_are_spread_over_two_instances_and_the_one_that_is_left_runs_both,
);

async fn one_of_two_instances_runs_the_worker(kind: Kind) {
    exactly_one_works(kind, &["i0", "i1"]).await;
}

async fn one_of_five_instances_runs_the_worker(kind: Kind) {
    exactly_one_works(kind, &["i0", "i1", "i2", "i3", "i4"]).await;
}

/// Whoever was of the leader's host name took itself for the leader: three on one machine.
// L14: oban-bg/oban-py#32
async fn one_of_two_instances_of_the_same_host_and_label_runs_the_worker(kind: Kind) {
    exactly_one_works(kind, &["same", "same"]).await;
}

/// With the default times.
async fn exactly_one_works(kind: Kind, labels: &[&str]) {
    let stage = Stage::new(kind).await;
    let instances: Vec<Instance> = labels.iter().map(|label| stage.start(label)).collect();
    let instances: Vec<&Instance> = instances.iter().collect();
    let worker = stage.worker(&instances);
    stage.changes(1, 50);
    stage.caught_up().await;

    for (at, instance) in instances.iter().enumerate().filter(|(at, _)| *at != worker) {
        until_standby(instance);
        let acquired = [("lease", "jetstream")];
        assert_eq!(instance.metric("lease_acquisitions_total", &acquired), None, "instance {at}");
        assert_eq!(instance.metric("atcr_stream_connects_total", &[]), None, "instance {at}");
        let started = instance.lines().into_iter().find(|line| line.contains("worker started"));
        assert_eq!(started, None, "instance {at}");
    }
    let worker = instances[worker];
    assert_eq!(worker.metric("lease_acquisitions_total", &[("lease", "jetstream")]), Some(1.0));
    assert_eq!(stage.net.jetstream(0).stats().handshakes, 1);
    let [lease] = &stage.leases()[..] else { panic!("one lease") };
    assert_eq!((lease["name"].as_str(), lease["state"].as_str()), (Some("jetstream"), Some("running")));
    assert_eq!(lease["holder"]["pid"], worker.pid());
    assert_eq!(lease["epoch"], stage.epoch().await);
}

/// With the default times: a release makes everybody's wait short, whatever the TTL.
// L7: kubernetes/kubernetes#132599, KEP-5366
// L30: ShedLock#1932; vmware versatile-data-kit#438; openconfig/gnmic#945
async fn a_stopped_instance_releases_before_it_exits(kind: Kind) {
    let stage = Stage::new(kind).await;
    let mut old = stage.start("old");
    until_in(&old, "running");
    let new = stage.start("new");
    until_standby(&new);
    let flow = stage.traffic(1, 50.0);

    old.signal(Signal::TERM);
    assert_eq!(old.wait_exit(PATIENCE), Exit::Code(0));
    let exited_at = now_us();

    // Nobody is left who could still be committing it.
    let history = stage.history().await;
    let (epoch, at, holder, what) = history.iter().find(|(.., what)| what == "released").unwrap();
    assert!(*at <= exited_at, "{history:?}");
    let select = format!(
        "SELECT state || ' ' || dead_reason AS line FROM lease_instance WHERE incarnation = '{holder}'"
    );
    assert_eq!(stage.place.lines(&select).await, ["dead left"], "{what}");
    let place_of = |text: &str| old.lines().iter().position(|line| line.contains(text)).expect(text);
    assert!(place_of("worker stopped") < place_of("lease released"));
    assert!(place_of("lease released") < place_of("\"message\":\"stopped\""));

    until_in(&new, "running");
    assert!(stage.epoch().await > *epoch);
    let handed = new.metric("lease_handover_seconds_count", &[("reason", "released")]);
    assert_eq!(handed, Some(1.0));
    drop(flow);
    stage.caught_up().await;
}

/// With the default times, whose TTL is 5 s and 10 s.
// L37: graphile/worker#204 #222 #526
async fn a_killed_instance_is_replaced_long_before_its_ttl(kind: Kind) {
    let stage = Stage::new(kind).await;
    let mut old = stage.start("old");
    until_in(&old, "running");
    let new = stage.start("new");
    until_standby(&new);
    let epoch = stage.epoch().await;
    let flow = stage.traffic(1, 50.0);

    let killed_at = now_us();
    old.signal(Signal::KILL);
    assert_eq!(old.wait_exit(PATIENCE), Exit::Signal(Signal::KILL.as_raw()));
    until_in(&new, "running");

    let history = stage.history().await;
    let (new_epoch, acquired_at, ..) = history.last().unwrap();
    assert!(*new_epoch > epoch, "{history:?}");
    let after = Duration::from_micros(u64::try_from(acquired_at - killed_at).unwrap());
    // The kernel frees its beacon at once. How soon the next one has it is the benchmark's to say.
    assert!(after < Duration::from_millis(2_500), "acquired {after:?} after the kill: {history:?}");
    let handed = new.metric("lease_handover_seconds_count", &[("reason", "beacon")]);
    assert_eq!(handed, Some(1.0));
    drop(flow);
    stage.caught_up().await;
}

/// A leader that had been stuck woke up and revoked the leases of others.
// L12: etcd-io/etcd#15247, #12528
async fn a_frozen_instance_writes_nothing_after_its_successor(kind: Kind) {
    let stage = Stage::new(kind).await.quick();
    let old = stage.start("old");
    until_in(&old, "running");
    let new = stage.start("new");
    until_standby(&new);
    stage.changes(1, 20);
    stage.caught_up().await;
    let epoch = stage.epoch().await;
    let changed = old.metric("atcr_index_records_changed_total", &[]);

    freeze(&stage, &old).await;
    // They wait in its socket, and are what it would write on waking.
    stage.changes(2, 50);
    until_in(&new, "running");
    stage.caught_up().await;
    let position = position(&stage).await;
    let taken = stage.epoch().await;
    assert!(taken > epoch);
    old.signal(Signal::CONT);

    let registrations = || old.lines().iter().filter(|line| line.contains("\"registered\"")).count();
    eventually_blocking("it registers anew", PATIENCE, || match registrations() {
        2.. => Ok(()),
        few => Err(few),
    });
    until_standby(&old);
    assert_eq!(self::position(&stage).await, position, "nobody has saved one since");
    assert_eq!(old.metric("atcr_index_records_changed_total", &[]), changed);
    assert_eq!(old.metric("lease_acquisitions_total", &[]), Some(1.0));
    assert_eq!(old.metric("lease_losses_total", &[("reason", "incarnation lost")]), Some(1.0));
    stage.changes(3, 20);
    stage.caught_up().await;
    assert_eq!(stage.epoch().await, taken, "{:?}", stage.history().await);
    assert_eq!(stage.leases()[0]["holder"]["pid"], new.pid());
}

/// Stops a process where it keeps no one else from writing: frozen inside a transaction on SQLite, it would, for as
/// long as it is frozen.
async fn freeze(stage: &Stage, instance: &Instance) {
    eventually("it is frozen outside a transaction", PATIENCE, async || {
        instance.freeze();
        let mut session = stage.place.open().await?;
        session
            .execute(if stage.place.kind() == Kind::Sqlite { "PRAGMA busy_timeout = 100" } else { "" })
            .await?;
        let writable = session.execute("BEGIN; UPDATE lease SET epoch = epoch; COMMIT").await;
        if writable.is_err() {
            instance.signal(Signal::CONT);
        }
        writable
    })
    .await;
}

/// Where the stream is, and when that was saved.
async fn position(stage: &Stage) -> Vec<String> {
    stage.place.lines("SELECT host || ' ' || time_us || ' ' || saved_at AS line FROM stream_cursor").await
}

async fn the_list_of_leases_has_the_documented_keys(kind: Kind) {
    let stage = Stage::bare(Place::fresh(kind).await).await;
    let (exit, text) = stage.command(&["leases", "--json"]);
    assert_eq!(exit, Exit::Code(1), "no schema yet: {text}");
    assert!(text.contains("atcr-workers migrate"), "{text}");

    let mut instance = stage.start("shown");
    until_in(&instance, "running");
    let [lease] = &stage.leases()[..] else { panic!("one lease") };
    let keys: BTreeSet<&str> = lease.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["name", "epoch", "state", "holder", "since", "paused", "desired"]));
    let keys: BTreeSet<&str> = lease["holder"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["incarnation", "label", "host", "pid"]));
    assert_eq!(lease["holder"]["label"], "shown");
    assert!(lease["epoch"].as_i64().unwrap() > 0 && lease["since"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&lease["paused"], &lease["desired"]), (&false.into(), &serde_json::Value::Null));

    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(0));
    let [lease] = &stage.leases()[..] else { panic!("one lease") };
    assert_eq!((lease["state"].as_str(), lease["holder"].is_null()), (Some("free"), true));
    let (exit, table) = stage.command(&["leases"]);
    assert!(exit == Exit::Code(0) && table.contains("jetstream") && table.contains("free"), "{table}");
}

async fn two_workers_are_spread_over_two_instances_and_the_one_that_is_left_runs_both(kind: Kind) {
    const NAMES: [&str; 2] = ["cleanup", "jetstream"];
    let stage = Stage::new(kind).await;
    let stage = stage.with("ATCR__CLEANUP__ENABLED", "true").with("ATCR__CLEANUP__INTERVAL", "200ms");
    let instances = ["one", "two"].map(|label| stage.start(label));
    let running = |at: usize| -> Vec<&str> {
        let runs = |name: &&str| {
            let state = [("lease", *name), ("state", "running")];
            instances[at].metric("lease_state", &state) == Some(1.0)
        };
        NAMES.into_iter().filter(runs).collect()
    };
    // The first may have had both for a moment.
    eventually_blocking("each runs one", PATIENCE, || match [running(0), running(1)] {
        each if each.iter().all(|names| names.len() == 1) && each[0] != each[1] => Ok(()),
        other => Err(other),
    });
    let names: Vec<_> =
        stage.leases().iter().map(|lease| lease["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, NAMES);

    let sweeper = usize::from(running(1) == ["cleanup"]);
    instances[sweeper].signal(Signal::KILL);
    let left = 1 - sweeper;
    eventually_blocking("the one that is left runs both", PATIENCE, || match running(left) {
        both if both == NAMES => Ok(()),
        few => Err(few),
    });
    stage.place.execute("INSERT INTO lease_event VALUES ('old', 1, 'gone', 1, 'whoever', 'released')").await;
    eventually("the old event is deleted", PATIENCE, async || {
        let old = stage.place.lines("SELECT id AS line FROM lease_event WHERE id = 'old'").await;
        if old.is_empty() { Ok(()) } else { Err(old) }
    })
    .await;
    eventually_blocking("it is counted, and the sweep has its time", PATIENCE, || {
        let deleted = instances[left].metric("atcr_cleanup_rows_deleted_total", &[("table", "lease_event")]);
        let swept_at = instances[left].metric("atcr_cleanup_last_sweep_timestamp_seconds", &[]);
        let is_recent = swept_at.is_some_and(|at| at * 1e6 > now_us() as f64 - 60e6);
        if deleted == Some(1.0) && is_recent { Ok(()) } else { Err((deleted, swept_at)) }
    });
    stage.changes(1, 20);
    stage.caught_up().await;
}

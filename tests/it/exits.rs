//! How a process ends: the codes are the interface to systemd, Kubernetes and the registry, the texts are for people.

use std::{fs, net::TcpListener};

use localnet::jetstream::{Jetstream, JetstreamOptions};
use rustix::process::Signal;

use crate::support::{
    eventually::eventually_blocking,
    place::{Kind, Place, on_both_databases},
    ports,
    postgres::{Postgres, Stop},
    process::{Exit, Instance},
    stage::{PATIENCE, QUICK_TTL, SETTINGS, Stage, until_in, until_ready, until_standby},
};

on_both_databases!(
    a_standby_ends_with_0,
    a_second_signal_ends_with_130,
    a_release_that_is_not_acknowledged_ends_with_75,
    two_processes_come_up_at_once_on_an_empty_database,
    six_processes_come_up_at_once_on_an_empty_database,
    a_database_of_a_newer_version_ends_with_78,
    without_leases_it_works_alone,
    without_leases_it_refuses_to_run_beside_another,
    without_leases_it_starts_once_a_dead_instance_is_known_to_be_dead,
    without_a_network_it_stays_up_and_tries_again,
);

async fn a_standby_ends_with_0(kind: Kind) {
    let stage = Stage::new(kind).await;
    let worker = stage.start("worker");
    until_in(&worker, "running");
    for signal in [Signal::TERM, Signal::INT] {
        let mut standby = stage.start("standby");
        until_standby(&standby);
        standby.signal(signal);
        assert_eq!(standby.wait_exit(PATIENCE), Exit::Code(0));
        assert!(said(&standby, "no lease was ours"));
    }
    until_in(&worker, "running");
}

async fn a_second_signal_ends_with_130(kind: Kind) {
    let stage = Stage::new(kind).await;
    let mut instance = stage.start("slow");
    until_in(&instance, "running");
    let _lock = stage.place.lock_leases().await;
    instance.signal(Signal::TERM);
    instance.wait_for_line("it is stopping", PATIENCE, |line| line.contains("stopping: workers"));
    instance.signal(Signal::INT);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(130));
    assert!(said(&instance, "leases are left to expire"));
}

async fn a_release_that_is_not_acknowledged_ends_with_75(kind: Kind) {
    let stage = Stage::new(kind).await.quick();
    let mut instance = stage.start("locked out");
    until_in(&instance, "running");
    let lock = stage.place.lock_leases().await;
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(75));
    assert!(said(&instance, "lease not released") && said(&instance, "left to expire: jetstream"));
    drop(lock);
    // Left to expire is not lost.
    until_in(&stage.start("next"), "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_crashed_before_the_release_ends_with_75_if_there_was_something_to_release() {
    let server = Postgres::private();
    let stage = Stage::on(Place::on(&server).await).await;
    let mut instance = stage.start("cut off");
    until_in(&instance, "running");
    server.stop(Stop::Immediate);
    instance.signal(Signal::TERM);
    // It may have noticed the loss before the signal came: then it had stopped its worker, and nothing was its own.
    match instance.wait_exit(PATIENCE) {
        Exit::Code(75) => assert!(said(&instance, "left to expire: jetstream")),
        Exit::Code(0) => assert!(said(&instance, "session is lost") && said(&instance, "no lease was ours")),
        other => panic!("{other:?}"),
    }
}

async fn two_processes_come_up_at_once_on_an_empty_database(kind: Kind) {
    all_come_up(kind, 2).await;
}

async fn six_processes_come_up_at_once_on_an_empty_database(kind: Kind) {
    all_come_up(kind, 6).await;
}

async fn all_come_up(kind: Kind, count: usize) {
    let stage = Stage::bare(Place::fresh(kind).await).await;
    let instances: Vec<Instance> = (0..count).map(|at| stage.start(&format!("i{at}"))).collect();
    for instance in &instances {
        until_ready(instance);
    }
    let migrated = instances.iter().filter(|instance| said(instance, "database migrated")).count();
    assert_eq!(migrated, 1);
    stage.worker(&instances.iter().collect::<Vec<_>>());
}

async fn a_database_of_a_newer_version_ends_with_78(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage.place.execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231000000')").await;
    for arguments in [&["run"][..], &["migrate"], &["migrate", "--check"], &["leases"]] {
        let (exit, text) = stage.command(arguments);
        assert_eq!(exit, Exit::Code(78), "{arguments:?}: {text}");
        assert!(text.contains("newer version") && text.contains("99991231000000"), "{text}");
    }
}

async fn without_leases_it_works_alone(kind: Kind) {
    let stage = Stage::new(kind).await.with("ATCR__LEASES__ENABLED", "false");
    let mut alone = stage.start("alone");
    until_in(&alone, "running");
    stage.changes(1, 50);
    stage.caught_up().await;
    assert_eq!(stage.history().await, [], "it has no lease traffic");
    assert_eq!(stage.place.lines("SELECT incarnation AS line FROM lease_instance").await.len(), 0);
    alone.signal(Signal::TERM);
    assert_eq!(alone.wait_exit(PATIENCE), Exit::Code(0));
}

async fn without_leases_it_refuses_to_run_beside_another(kind: Kind) {
    let stage = Stage::new(kind).await;
    let worker = stage.start("worker");
    until_in(&worker, "running");
    let stage = stage.with("ATCR__LEASES__ENABLED", "false");
    let (exit, text) = stage.command(&["run"]);
    assert_eq!(exit, Exit::Code(78), "{text}");
    assert!(text.contains("leases.enabled = false") && text.contains("is alive"), "{text}");
    until_in(&worker, "running");
    assert_eq!(stage.net.jetstream(0).stats().handshakes, 1, "the refused one followed nothing");
}

async fn without_leases_it_starts_once_a_dead_instance_is_known_to_be_dead(kind: Kind) {
    let stage = Stage::new(kind).await.quick();
    let killed = stage.start("killed");
    until_in(&killed, "running");
    drop(killed);
    let stage = stage.with("ATCR__LEASES__ENABLED", "false");
    let since = std::time::Instant::now();
    let alone = stage.start("alone");
    until_in(&alone, "running");
    assert!(since.elapsed() >= QUICK_TTL);
    stage.caught_up().await;
}

async fn without_a_network_it_stays_up_and_tries_again(kind: Kind) {
    let port = ports::free_block(1);
    let stage = Stage::new(kind).await;
    let stage = stage.with("ATCR__JETSTREAM__URLS", &format!("ws://127.0.0.1:{port}/subscribe"));
    let mut instance = stage.start("offline");
    until_in(&instance, "running");
    says_that_it_is_offline(&instance, 3);
    until_in(&instance, "running");
    assert_eq!(instance.metric("actor_failures_total", &[]), None, "an outage is no failure of the worker");

    let network = Jetstream::start(JetstreamOptions { port, ..JetstreamOptions::default() }).await.unwrap();
    assert!(network.subscribed(1, PATIENCE).await);

    drop(network);
    says_that_it_is_offline(&instance, 1);
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(0));
}

/// Waits until it has said so, so many times more.
fn says_that_it_is_offline(instance: &Instance, times: usize) {
    let said = || instance.lines().iter().filter(|line| line.contains("stream host not reached")).count();
    let before = said();
    eventually_blocking("it says that it is offline", PATIENCE, || match said() {
        now if now >= before + times => Ok(()),
        few => Err(few),
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_admin_address_ends_with_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let stage = Stage::new(Kind::Sqlite).await.with("ATCR__ADMIN__LISTEN", &address);
    let (exit, text) = stage.command(&["run"]);
    assert_eq!(exit, Exit::Code(1), "{text}");
    assert!(text.contains("admin.listen") && text.contains(&address) && text.contains("in use"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_out_of_reach_ends_with_1() {
    let port = ports::free_block(1);
    let folder = tempfile::tempdir().unwrap();
    let urls = [
        (format!("postgres://postgres:hunter2@127.0.0.1:{port}/atcr"), "onnection refused"),
        (Postgres::shared().url("missing"), "database \"missing\" does not exist"),
        (format!("sqlite://{}/missing/atcr.db", folder.path().display()), "nable to open"),
    ];
    for (url, reason) in urls {
        let stage = Stage::bare(Place::fresh(Kind::Sqlite).await).await.with("ATCR__DATABASE__URL", &url);
        for arguments in [&["run"][..], &["leases"], &["migrate"]] {
            let (exit, text) = stage.command(arguments);
            assert_eq!(exit, Exit::Code(1), "{url} {arguments:?}: {text}");
            // One that only looks does not even try to open a file that is not there.
            let missing = arguments == ["leases"] && text.contains("there is no database at");
            assert!(missing || text.contains("open the database") && text.contains(reason), "{url}: {text}");
            assert!(!text.contains("hunter2"), "{url}: {text}");
        }
    }
}

#[test]
fn wrong_settings_end_with_78_and_say_what_was_expected_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    let path = file.to_str().unwrap();
    let cases: [(&str, (&str, &str), &[&str]); 6] = [
        ("[jetstream]\nrewindd = '1s'", ("TZ", "UTC"), &["jetstream.rewindd", path, "jetstream.rewind?"]),
        ("", ("ATCR__JETSTREAM__URL", "x"), &["ATCR__JETSTREAM__URL", "unknown", "did you mean"]),
        ("[leases]\nttl = '2s'", ("TZ", "UTC"), &["leases.ttl", "2s", path, "at least", "leases.trust_for"]),
        ("", ("ATCR__NETWORK__TIMEOUT", "60"), &["network.timeout", "60", "ATCR__NETWORK__TIMEOUT", "unit"]),
        ("[database]\nmax_connections = 0", ("TZ", "UTC"), &["database.max_connections", "0", path, "1000"]),
        ("[instance", ("TZ", "UTC"), &[path]),
    ];
    for (text, variable, expected) in cases {
        fs::write(&file, text).unwrap();
        for command in ["run", "settings", "leases", "migrate"] {
            let mut refused = Instance::spawn(&["--settings", path, command], &[variable]);
            assert_eq!(refused.wait_exit(PATIENCE), Exit::Code(78), "{text:?} {variable:?}");
            let said = refused.lines().join("\n");
            let missing: Vec<_> = expected.iter().filter(|part| !said.contains(**part)).collect();
            assert!(missing.is_empty(), "{missing:?} not in:\n{said}");
        }
    }
}

#[test]
fn a_settings_file_that_is_not_there_or_a_wrong_command_ends_with_78() {
    let cases = [
        (&["--settings", "/nowhere/a.toml"][..], "/nowhere/a.toml"),
        (&["--settings", SETTINGS, "runn"], "runn"),
        (&["--settingss"], "--settings"),
    ];
    for (arguments, expected) in cases {
        let mut refused = Instance::spawn(arguments, &[]);
        assert_eq!(refused.wait_exit(PATIENCE), Exit::Code(78), "{arguments:?}");
        assert!(said(&refused, expected), "{:?}", refused.lines());
    }
}

fn said(instance: &Instance, text: &str) -> bool {
    instance.lines().iter().any(|line| line.contains(text))
}

//! The built binary, twice, on one file: who runs the worker after a crash, a stop, a hang, a writer that hogs the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diesel::{Connection, RunQueryDsl, SqliteConnection, sql_query};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::eventually::eventually_blocking;
use crate::support::process::{Exit, Instance, field};

/// For a start, or whatever has no bound of its own, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

const ACQUIRED: &str = "lease acquired, worker started";

/// Short enough to wait for; in the proportions of the defaults.
const SHORT: &[(&str, &str)] = &[
    ("ATCR__LEASES__RENEW_EVERY", "200ms"),
    ("ATCR__LEASES__RENEW_TIMEOUT", "400ms"),
    ("ATCR__LEASES__TRUST_FOR", "1500ms"),
    ("ATCR__LEASES__STOP_WITHIN", "1s"),
    ("ATCR__LEASES__TTL", "3s"),
];
const TTL_SHORT: Duration = Duration::from_secs(3);

/// The default.
const TTL: Duration = Duration::from_secs(10);

struct Stage {
    directory: TempDir,
    timing: &'static [(&'static str, &'static str)],
}

impl Stage {
    fn set(timing: &'static [(&'static str, &'static str)]) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), timing }
    }

    fn database(&self) -> PathBuf {
        self.directory.path().join("atcr.db")
    }

    fn start(&self, label: &str) -> Instance {
        let url = format!("sqlite://{}", self.database().display());
        // Nobody answers there: its worker tries again and again, which is life enough for a lease.
        let mut environment = vec![
            ("ATCR__DATABASE__URL", url.as_str()),
            ("ATCR__INSTANCE__LABEL", label),
            ("ATCR__NETWORK__ALLOW_LOOPBACK", "true"),
            ("ATCR__JETSTREAM__URLS", "ws://127.0.0.1:1/subscribe"),
            ("ATCR__IDENTITY__PLC_URL", "http://127.0.0.1:1"),
            ("ATCR__CLEANUP__ENABLED", "false"),
            ("ATCR__WEBHOOKS__ENABLED", "false"),
            ("ATCR__BACKFILL__ENABLED", "false"),
            ("ATCR__TELEMETRY__FORMAT", "json"),
        ];
        environment.extend_from_slice(self.timing);
        Instance::spawn(&[], &environment)
    }

    /// One that runs the worker, and one that waits and has seen it.
    fn two(&self) -> (Instance, Instance) {
        let holder = self.start("holder");
        said(&holder, ACQUIRED, PATIENCE);
        let standby = self.start("standby");
        said(&standby, "registered", PATIENCE);
        let renewed = || match standby.metric("lease_renewals_total", &[]) {
            Some(renewals) if renewals >= 2.0 => Ok(()),
            other => Err(other),
        };
        eventually_blocking("the standby renews", PATIENCE, renewed);
        (holder, standby)
    }
}

fn said(instance: &Instance, what: &str, within: Duration) -> String {
    instance.wait_for_line(what, within, |line| line.contains(what))
}

fn count(instance: &Instance, what: &str) -> usize {
    instance.lines().iter().filter(|line| line.contains(what)).count()
}

/// After `signal`, how long the other takes, and how the lease came to it.
fn hand_over(holder: &Instance, standby: &Instance, signal: Signal, within: Duration) -> (Duration, String) {
    let begun = Instant::now();
    holder.signal(signal);
    let line = said(standby, ACQUIRED, within);
    let took = begun.elapsed();
    println!("from {signal:?} to the other's start: {took:?}");
    (took, field(&line, "reason").unwrap().as_str().unwrap().to_owned())
}

fn beacons(database: &Path) -> Vec<PathBuf> {
    let directory = format!("{}.beacons", database.display());
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// graphile/worker#204: a crashed worker's lock stayed for four hours.
#[test]
fn after_a_crash_the_other_runs_it_long_before_the_ttl() {
    let stage = Stage::set(&[]);
    let (holder, standby) = stage.two();
    let (took, reason) = hand_over(&holder, &standby, Signal::KILL, PATIENCE);
    assert_eq!(reason, "beacon");
    assert!(took < TTL / 2, "{took:?}");
    let left = beacons(&stage.database());
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn after_a_stop_the_other_runs_it_and_no_beacon_is_left() {
    let stage = Stage::set(&[]);
    let (mut holder, mut standby) = stage.two();
    let (took, reason) = hand_over(&holder, &standby, Signal::TERM, PATIENCE);
    assert_eq!(reason, "released");
    assert!(took < TTL / 2, "{took:?}");
    assert_eq!(holder.wait_exit(PATIENCE), Exit::Code(0));
    standby.signal(Signal::TERM);
    assert_eq!(standby.wait_exit(PATIENCE), Exit::Code(0), "a blocked watcher must not hold the process");
    assert_eq!(beacons(&stage.database()), Vec::<PathBuf>::new());
}

#[test]
fn without_the_notify_file_a_release_is_found_all_the_same_and_it_is_said_once() {
    let stage = Stage::set(&[]);
    fs::create_dir(format!("{}.notify", stage.database().display())).unwrap();
    let (holder, standby) = stage.two();
    let (took, reason) = hand_over(&holder, &standby, Signal::TERM, PATIENCE);
    assert_eq!(reason, "released");
    assert!(took < TTL / 2, "{took:?}");
    assert_eq!(count(&standby, "cannot be watched"), 1);
}

#[test]
fn what_hangs_keeps_its_beacon_and_only_the_ttl_ends_it() {
    let stage = Stage::set(SHORT);
    let (holder, standby) = stage.two();
    let (took, reason) = hand_over(&holder, &standby, Signal::STOP, PATIENCE);
    assert_eq!(reason, "ttl");
    assert!(took > TTL_SHORT / 2, "{took:?}");
    holder.signal(Signal::CONT);
    said(&holder, "worker stopped", PATIENCE);
    assert_eq!(count(&standby, ACQUIRED), 1, "it was taken back from the healthy one");
}

/// Soju06/codex-lb#1682: one lease lost to a writer, then 17 minutes of "database is locked".
#[test]
fn a_writer_that_hogs_the_file_starts_no_storm_and_takes_no_lease() {
    let stage = Stage::set(SHORT);
    let (holder, standby) = stage.two();
    let mut writer = SqliteConnection::establish(&stage.database().to_string_lossy()).unwrap();
    let begun = Instant::now();
    sql_query("BEGIN IMMEDIATE").execute(&mut writer).unwrap();
    eventually_blocking("it hogs for longer than the TTL", PATIENCE, || {
        if begun.elapsed() > TTL_SHORT + TTL_SHORT / 2 { Ok(()) } else { Err("not yet") }
    });
    sql_query("ROLLBACK").execute(&mut writer).unwrap();
    let (hogged, since) = (begun.elapsed(), Instant::now());
    let renewals = |what| holder.metric("lease_renewals_total", &[("outcome", what)]).unwrap_or(0.0);
    let (good, failed) = (renewals("ok"), renewals("error"));
    eventually_blocking("it renews again", PATIENCE, || {
        let now = renewals("ok");
        if now > good { Ok(()) } else { Err(now) }
    });
    println!("{failed} failed renewals in {hogged:?}, the first good one after {:?}", since.elapsed());
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert!(failed > 0.0, "it hogged nothing");
    assert!(failed <= hogged.as_secs_f64() / 0.2 + 1.0, "a storm: {failed} in {hogged:?}");
    for instance in [&holder, &standby] {
        assert_eq!(count(instance, "declared dead"), 0);
    }
    assert_eq!((count(&holder, ACQUIRED), count(&standby, ACQUIRED)), (1, 0));
}

#[test]
fn a_database_where_locks_prove_nothing_is_refused_with_what_to_do() {
    let mut instance = Instance::spawn(&[], &[("ATCR__DATABASE__URL", "sqlite:///proc/atcr.db")]);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(78));
    let said = instance.lines().join("\n");
    for word in ["/proc/atcr.db", "unknown file system (0x9fa0)", "ext4", "leases.enabled = false"] {
        assert!(said.contains(word), "{word} is not in: {said}");
    }
}

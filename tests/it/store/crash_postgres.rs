//! Crashes of real processes on PostgreSQL, and of PostgreSQL under them.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::fixture::Fixture;
use crate::support::eventually::{eventually, eventually_blocking};
use crate::support::ports;
use crate::support::postgres::{Postgres, Stop};
use crate::support::process::{Exit, Instance};

/// For what takes less than a second, on a loaded machine.
const SOON: Duration = Duration::from_secs(30);

/// Our program on this database, with peers that nobody is at.
fn start(url: &str) -> Instance {
    let nobody = format!("127.0.0.1:{}", ports::free_block(1));
    Instance::spawn(
        &["run"],
        &[
            ("ATCR__DATABASE__URL", url),
            ("ATCR__ADMIN__LISTEN", "127.0.0.1:0"),
            ("ATCR__NETWORK__ALLOW_LOOPBACK", "true"),
            ("ATCR__IDENTITY__PLC_URL", &format!("http://{nobody}")),
            ("ATCR__JETSTREAM__URLS", &format!("ws://{nobody}/subscribe")),
            ("ATCR__BACKFILL__ENABLED", "false"),
            ("ATCR__CLEANUP__ENABLED", "false"),
            ("ATCR__WEBHOOKS__ENABLED", "false"),
            ("ATCR__TELEMETRY__FORMAT", "json"),
        ],
    )
}

/// Waits until the process has logged this so many times.
fn says(instance: &Instance, what: &str, times: usize) {
    eventually_blocking(what, SOON, || {
        let lines = instance.lines();
        let seen = lines.iter().filter(|line| line.contains(what)).count();
        if seen >= times { Ok(()) } else { Err(lines.into_iter().rev().take(5).collect::<Vec<_>>()) }
    });
}

async fn pair(fixture: &Fixture) -> (Instance, Instance) {
    let holder = start(&fixture.options.url);
    says(&holder, "lease acquired, worker started", 1);
    let standby = start(&fixture.options.url);
    says(&standby, "registered", 1);
    watched(fixture).await;
    (holder, standby)
}

/// Waits until somebody watches another's beacon.
async fn watched(fixture: &Fixture) {
    let watching = "SELECT pid::TEXT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    eventually("both are watched", SOON, async || {
        let watching = fixture.lines(watching).await.len();
        if watching >= 2 { Ok(()) } else { Err(watching) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_is_succeeded() {
    let fixture = Fixture::postgres().await;
    let (mut holder, standby) = pair(&fixture).await;
    let begun = Instant::now();
    holder.signal(Signal::KILL);
    says(&standby, "lease acquired, worker started", 1);
    println!("kill -9 to the next worker's start: {:?}", begun.elapsed());
    assert_eq!(holder.wait_exit(SOON), Exit::Signal(9));
    let reasons = "SELECT dead_reason FROM lease_instance WHERE state = 'dead'";
    assert_eq!(fixture.lines(reasons).await, ["beacon"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_told_to_stop_is_succeeded() {
    let fixture = Fixture::postgres().await;
    let (mut holder, standby) = pair(&fixture).await;
    let begun = Instant::now();
    holder.signal(Signal::TERM);
    says(&standby, "lease acquired, worker started", 1);
    println!("SIGTERM to the next worker's start: {:?}", begun.elapsed());
    assert_eq!(holder.wait_exit(SOON), Exit::Code(0));
}

/// A restart of the database ended the leadership for good, or was not noticed.
// L20: hashicorp/vault#11319
// L21: hashicorp/vault#17643
#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_of_the_server_all_register_anew_and_the_lease_runs_again() {
    let server = Postgres::private();
    let fixture = Fixture::on(&server).await;
    let (holder, standby) = pair(&fixture).await;
    server.stop(Stop::Immediate);
    server.start();
    let begun = Instant::now();
    says(&holder, "registered", 2);
    says(&standby, "registered", 2);
    let running = "SELECT l.name FROM lease l JOIN lease_instance i ON i.incarnation = l.holder AND i.state = 'up'
                   JOIN lease_event e ON e.name = l.name AND e.epoch = l.epoch AND e.what = 'acquired'
                   WHERE (SELECT COUNT(*) FROM lease_event o WHERE o.name = l.name AND o.what = 'acquired') > 1";
    eventually("the lease runs again", SOON, async || {
        let running = fixture.lines(running).await;
        if running.is_empty() { Err(()) } else { Ok(()) }
    })
    .await;
    println!("server up to the lease acquired again: {:?}", begun.elapsed());
    // Whoever it is, the others watch again.
    watched(&fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_instance_makes_at_most_four_lease_statements_a_second() {
    let server = Postgres::private_with(&[("log_statement", "all"), ("fsync", "off")]);
    let fixture = Fixture::on(&server).await;
    let (_holder, _standby) = pair(&fixture).await;
    let statements = || {
        let log = std::fs::read_to_string(server.directory().join("server.log")).unwrap();
        let said = log.lines().filter(|line| line.contains("LOG:  execute"));
        // Renewals and polls: the looks of this test are none.
        said.filter(|line| line.contains("WITH me") || line.contains("WITH gone")).count()
    };
    let (before, begun) = (statements(), Instant::now());
    eventually("five seconds pass", SOON, async || {
        if begun.elapsed() > Duration::from_secs(5) { Ok(()) } else { Err(()) }
    })
    .await;
    let (made, seconds) = (statements() - before, begun.elapsed().as_secs_f64());
    #[allow(clippy::cast_precision_loss, reason = "a small number")]
    let rate = made as f64 / seconds / 2.0;
    println!("{rate:.1} lease statements a second and instance");
    assert!(rate > 1.0 && rate <= 4.0, "{rate}");
}

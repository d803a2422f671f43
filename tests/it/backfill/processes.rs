//! Instances of the program beside each other, for what only processes show: their end, and who has the lease.

use rustix::process::Signal;

use crate::support::eventually::{eventually, eventually_blocking};
use crate::support::http;
use crate::support::place::{Kind, Place, on_both_databases};
use crate::support::process::{Exit, Instance};
use crate::support::stage::{PATIENCE, Stage};

on_both_databases!(
    after_a_kill_the_successor_goes_on_from_the_place,
    with_an_interval_of_zero_the_lease_is_kept_and_one_run_is_all,
    two_instances_beside_the_stream_leave_what_the_repositories_hold,
    a_deletion_that_the_stream_tells_is_asked_about_at_once,
);

/// A network that relays list, and the backfill on.
pub(super) async fn stage(kind: Kind) -> Stage {
    with_backfill(Stage::new(kind).await)
}

fn with_backfill(stage: Stage) -> Stage {
    let relays = stage.net.relay_urls().join(",");
    stage.with("ATCR__BACKFILL__ENABLED", "true").with("ATCR__BACKFILL__RELAY_URLS", &relays)
}

async fn runs(stage: &Stage) -> Vec<String> {
    let query = "SELECT CASE WHEN ended_at IS NULL THEN 'goes on' WHEN given_up THEN 'given up' ELSE 'ended' END AS line
                 FROM backfill_run ORDER BY id";
    stage.place.lines(query).await
}

async fn until_runs(stage: &Stage, expected: &[&str]) {
    eventually("the runs are so", PATIENCE, async || {
        let runs = runs(stage).await;
        if runs == expected { Ok(()) } else { Err(runs) }
    })
    .await;
}

fn has_it(instance: &Instance) -> bool {
    instance.metric("lease_state", &[("lease", "backfill"), ("state", "running")]) == Some(1.0)
}

fn until_one_has_it(instances: &[&Instance]) -> usize {
    eventually_blocking("one instance runs the backfill", PATIENCE, || {
        instances.iter().position(|instance| has_it(instance)).ok_or("nobody")
    })
}

async fn after_a_kill_the_successor_goes_on_from_the_place(kind: Kind) {
    let stage = stage(kind).await.quick().with("ATCR__JETSTREAM__ENABLED", "false");
    let stage = stage.with("ATCR__BACKFILL__CONCURRENCY", "1");
    let slow = localnet::network::On::any().path("/xrpc/com.atproto.repo.listRecords");
    stage.net.set_fault(slow, localnet::network::Fault::Late(60));
    let mut first = stage.start("first");
    let read = async |state: &str| {
        let query = format!("SELECT did AS line FROM backfill_repo WHERE state = '{state}'");
        stage.place.lines(&query).await
    };
    eventually("some repositories are read", PATIENCE, async || {
        let read = read("read").await;
        if read.len() >= 2 { Ok(()) } else { Err(read) }
    })
    .await;
    first.signal(Signal::KILL);
    first.wait_exit(PATIENCE);
    let waiting = read("waiting").await;
    assert!(!waiting.is_empty(), "killed too late");
    stage.net.clear_faults();
    let latest = localnet::network::On::any().path("/xrpc/com.atproto.sync.getLatestCommit");
    let before = stage.net.requests(&latest);
    let second = stage.start("second");
    until_runs(&stage, &["ended"]).await;
    assert_eq!(read("waiting").await.len(), 0);
    // What the first had read is not read again; what it was at when it was killed is.
    let asked = stage.net.requests(&latest) - before;
    assert!(asked <= waiting.len() as u64 + 1, "{asked} repositories for {} that waited", waiting.len());
    drop(second);
}

/// Returning would give the lease to the other, which would run too: "once" would be "once per instance".
async fn with_an_interval_of_zero_the_lease_is_kept_and_one_run_is_all(kind: Kind) {
    let stage = stage(kind).await.with("ATCR__BACKFILL__INTERVAL", "0s");
    let one = stage.start("one");
    until_one_has_it(&[&one]);
    let other = stage.start("other");
    until_runs(&stage, &["ended"]).await;
    let epoch = "SELECT CAST(epoch AS TEXT) AS line FROM lease WHERE name = 'backfill'";
    let before = stage.place.lines(epoch).await;
    // Both renew for a while longer; the metric of the other's acquisitions would tell.
    let renewals = |instance: &Instance| instance.metric("lease_renewals_total", &[]).unwrap_or(0.0);
    let seen = renewals(&other);
    eventually("the other lives on", PATIENCE, async || {
        let now = renewals(&other);
        if now >= seen + 5.0 { Ok(()) } else { Err(now) }
    })
    .await;
    assert!(has_it(&one) && !has_it(&other));
    assert_eq!((stage.place.lines(epoch).await, runs(&stage).await), (before, vec!["ended".to_owned()]));
    // A wish is still heard.
    let (exit, said) = stage.command(&["backfill", "--all"]);
    assert_eq!(exit, Exit::Code(0), "{said}");
    until_runs(&stage, &["ended", "ended"]).await;
}

// S42: the original ATCR
async fn two_instances_beside_the_stream_leave_what_the_repositories_hold(kind: Kind) {
    let stage = stage(kind).await.quick().with("ATCR__BACKFILL__INTERVAL", "1s");
    let mut one = stage.start("one");
    until_one_has_it(&[&one]);
    let other = stage.start("other");
    stage.changes(7, 200);
    let flow = stage.traffic(8, 100.0);
    until_some_runs(&stage, 2).await;
    one.signal(Signal::TERM);
    assert_eq!(one.wait_exit(PATIENCE), Exit::Code(0), "a stop in flight is clean");
    until_some_runs(&stage, 4).await;
    drop(flow);
    // Sums and all: every count of every hold, once.
    stage.says_what_the_source_says().await;
    let metrics = http::get(&format!("http://{}/metrics", other.admin_address())).unwrap();
    assert!(metrics.body.contains("atcr_backfill_last_run_end_timestamp_seconds"), "{}", metrics.body);
    let missed = other.metric("atcr_backfill_records_missed_by_stream_total", &[]);
    assert_eq!(missed, Some(0.0), "what the stream brings is not missed");
}

// S21: happyview#88, shinolabs/PinkSea#45
async fn a_deletion_that_the_stream_tells_is_asked_about_at_once(kind: Kind) {
    let stage = stage(kind).await.with("ATCR__BACKFILL__INTERVAL", "0s");
    let _instance = stage.start("one");
    until_runs(&stage, &["ended"]).await;
    stage.says_what_the_source_says().await;
    let user = &stage.seeded.users[0];
    let becomes = async |expected: &str| {
        let query = format!(
            "SELECT b.state || ' ' || COALESCE(u.status, 'shown') || CASE WHEN b.gone_at > 0 THEN ' gone' ELSE '' END
             AS line FROM backfill_repo b JOIN users u ON u.did = b.did WHERE b.did = '{user}'"
        );
        eventually(expected, PATIENCE, async || {
            let seen = stage.place.lines(&query).await;
            if seen == [expected] { Ok(()) } else { Err(seen) }
        })
        .await;
    };
    stage.net.set_account(user, false, Some("deleted"));
    becomes("gone deleted gone").await;
    stage.net.set_account(user, true, None);
    becomes("read shown").await;
    stage.says_what_the_source_says().await;
}

async fn until_some_runs(stage: &Stage, count: usize) {
    eventually("some runs end", PATIENCE * 2, async || {
        let runs = runs(stage).await;
        if runs.iter().filter(|run| *run == "ended").count() >= count { Ok(()) } else { Err(runs) }
    })
    .await;
}

/// The same on a database that nobody runs on.
pub(super) async fn idle(kind: Kind) -> Stage {
    let stage = with_backfill(Stage::bare(Place::fresh(kind).await).await);
    let (exit, text) = stage.command(&["migrate"]);
    assert_eq!(exit, Exit::Code(0), "{text}");
    stage
}

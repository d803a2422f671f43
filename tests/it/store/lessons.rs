//! What went wrong for others around the database: news that nobody heard, outages that all shared.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use atcr_workers::store::{Backend, Database, SqlLeases, Tx, WriteError};
use leased_actors::lease::timing::Timing;
use leased_actors::lease::{Effects, LeaseStore, Release, TermId};
use leased_actors::supervisor::Supervision;
use leased_actors::worker::Context;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::fixture::{Fixture, ask, name, registration};
use super::on_both;
use super::supervised::{Doing, Log, Reached, SOON, never, start, trusted};

on_both! {
    a_release_that_nobody_is_told_of_is_found_within_the_poll
    a_crash_that_nobody_is_told_of_is_found_within_the_poll
    after_an_outage_for_all_nobody_writes_before_a_renewal_of_its_own
}

/// For a loaded machine; far below every TTL.
const SLACK: Duration = Duration::from_secs(1);

fn timing(fixture: &Fixture) -> Timing {
    match fixture.database.backend() {
        Backend::Postgres => Timing::POSTGRES,
        Backend::Sqlite => Timing::SQLITE,
    }
}

/// Another instance that has the lease, and one that hears no news on standby; the last tells of its worker's start.
async fn holder_and_deaf(fixture: &Fixture) -> (SqlLeases, TermId, Supervision, Arc<Notify>) {
    let holder = SqlLeases::new(Database::open(&fixture.options).await.unwrap());
    let me = registration();
    holder.register(&me, &[name()]).await.unwrap();
    let term = holder.claim(&ask(me.incarnation)).await.unwrap().unwrap().term;
    let started = Arc::new(Notify::new());
    let tell = started.clone();
    let body = move |context: Context| {
        tell.notify_one();
        Box::pin(async move { context.stop.cancelled().await }) as _
    };
    let store = Reached { deaf: true, ..Reached::new(fixture.leases.clone()) };
    let worker = Doing { effects: Effects::Fenced, body: Box::new(body) };
    let deaf = start(timing(fixture), store, worker, never()).await;
    trusted(&deaf).await;
    (holder, term, deaf, started)
}

/// Without a notification the next leader came 30 s late.
// L15: oban-bg/oban#847
async fn a_release_that_nobody_is_told_of_is_found_within_the_poll(fixture: Fixture) {
    let (holder, term, _deaf, started) = holder_and_deaf(&fixture).await;
    let begun = Instant::now();
    assert!(holder.release(&term, Release::Free).await.unwrap());
    timeout(SOON, started.notified()).await.expect("it is found");
    assert!(begun.elapsed() <= timing(&fixture).poll_every + SLACK, "{:?}", begun.elapsed());
}

async fn a_crash_that_nobody_is_told_of_is_found_within_the_poll(fixture: Fixture) {
    let (holder, _, _deaf, started) = holder_and_deaf(&fixture).await;
    let begun = Instant::now();
    // Its files and sessions close, as at the end of a process.
    drop(holder);
    timeout(SOON, started.notified()).await.expect("it is found");
    assert!(begun.elapsed() <= timing(&fixture).poll_every + SLACK, "{:?}", begun.elapsed());
}

/// Short, in the proportions of the defaults.
const SHORT: Timing = Timing {
    renew_every: Duration::from_millis(100),
    renew_timeout: Duration::from_millis(500),
    trust_for: Duration::from_millis(1_200),
    stop_within: Duration::from_millis(500),
    server_drop: Duration::ZERO,
    grace: Duration::from_secs(2),
    ttl: Duration::from_millis(2_000),
    poll_every: Duration::from_millis(200),
};

/// A worker that writes all the time, and logs what becomes of it.
fn writing(label: &'static str, database: Database, log: &Log) -> Doing {
    let log = log.clone();
    let body = move |context: Context| {
        let (database, log) = (database.clone(), log.clone());
        Box::pin(async move {
            for at in 1.. {
                if context.stop.is_cancelled() {
                    break;
                }
                let write = async move |tx: &mut Tx| tx.save_cursor("v1", label, at).await;
                let outcome = match database.fenced(&context.term, write).await {
                    Ok(()) => "wrote",
                    Err(WriteError::Untrusted(_)) => "refrained",
                    Err(_) => "failed",
                };
                log.add(format!("{label} {outcome}"));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }) as _
    };
    Doing { effects: Effects::Fenced, body: Box::new(body) }
}

/// After an outage of the database one node took up what another was still at, before anybody had checked in.
// L28: quartz-scheduler/quartz#847; quartznet#2914/#2817; dolphinscheduler#3000
async fn after_an_outage_for_all_nobody_writes_before_a_renewal_of_its_own(fixture: Fixture) {
    let (log, second) = (Log::default(), Database::open(&fixture.options).await.unwrap());
    let reached = |leases, line: &'static str| {
        let log = log.clone();
        Reached { renewed: Arc::new(move || log.add(line)), ..Reached::new(leases) }
    };
    let one = reached(fixture.leases.clone(), "one renewed");
    let two = Reached { away: one.away.clone(), ..reached(SqlLeases::new(second.clone()), "two renewed") };
    let away = one.away.clone();
    let worker = writing("one", fixture.database.clone(), &log);
    let _one = start(SHORT, one, worker, never()).await;
    log.again("one wrote").await;
    let two = start(SHORT, two, writing("two", second, &log), never()).await;
    trusted(&two).await;

    // The leases are out of reach; that the tables are not makes it harder.
    away.store(true, Ordering::SeqCst);
    log.again("one refrained").await;
    let out = log.lines().len();
    // How long it lasts; nothing is waited for.
    tokio::time::sleep(SHORT.ttl + SHORT.grace).await;
    let during = log.lines().split_off(out);
    assert!(during.iter().all(|line| line == "one refrained"), "{during:?}");

    let out = log.lines().len();
    away.store(false, Ordering::SeqCst);
    log.again("one wrote").await;
    let after = log.lines().split_off(out);
    let place = |line: &str| after.iter().position(|l| l == line);
    assert!(place("one renewed") < place("one wrote") && place("one renewed").is_some(), "{after:?}");
    // Several renewals of both later, it is still where it was.
    for _ in 0..5 {
        log.again("two renewed").await;
    }
    assert_eq!((log.count("two wrote"), log.count("one failed")), (0, 0));
    let acquired = "SELECT what AS line FROM lease_event WHERE what = 'acquired'";
    assert_eq!(fixture.lines(acquired).await.len(), 1);
}

//! Processes that end in the middle of their work, or that have to be ended. Each test runs itself again in a process
//! of its own, whose supervisor stands on the same database as the one here.

use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use atcr_workers::app;
use atcr_workers::store::{Database, Fencing, Options, SqlLeases};
use leased_actors::clock::{Clock, Moment};
use leased_actors::lease::Effects;
use leased_actors::lease::timing::Timing;
use leased_actors::supervisor::Supervision;
use leased_actors::worker::Context;
use std::os::unix::process::ExitStatusExt;

use super::fixture::Fixture;
use super::supervised::{Doing, Reached, SOON, never, start, trusted};
use crate::support::eventually::eventually;

/// Set for the process that a test starts of itself: the database, and how it ends.
const INSIDE: (&str, &str) = ("ATCR_TEST_INSIDE_URL", "ATCR_TEST_INSIDE_HOW");

/// The process that has the lease.
struct Inside {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Inside {
    /// Runs the test of this name there, until its worker works.
    async fn start(test: &str, fixture: &Fixture, how: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("store::abrupt::{test}"), "--nocapture"]);
        command.env(INSIDE.0, &fixture.options.url).env(INSIDE.1, how);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdout, lines) = (child.stdout.take().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let into = lines.clone();
        let read = move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .for_each(|line| into.lock().unwrap().push(line))
        };
        let inside = Self { child, lines, reader: Some(std::thread::spawn(read)) };
        eventually("its worker works", SOON, async || match inside.works_until() {
            Some(_) => Ok(()),
            None => Err(inside.lines.lock().unwrap().clone()),
        })
        .await;
        inside
    }

    /// Lets happen what it was started for.
    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// Waits for its end, and for all that it said.
    async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let status = eventually("it ends", SOON, async || child.try_wait().unwrap().ok_or("it runs")).await;
        self.reader.take().unwrap().join().unwrap();
        status
    }

    /// The last sign of work that has come from there.
    fn works_until(&self) -> Option<Moment> {
        let lines = self.lines.lock().unwrap();
        let nanos = lines.iter().rev().find_map(|line| line.strip_prefix("works ")?.parse().ok());
        nanos.map(Moment::from_nanos)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the process that a test has started: its database, and how it shall end.
async fn inside() -> Option<(Database, String)> {
    let (url, how) = (std::env::var(INSIDE.0).ok()?, std::env::var(INSIDE.1).ok()?);
    let options = Options {
        url,
        direct_url: None,
        max_connections: 5,
        renew_timeout: SOON,
        stop_within: SOON,
        fencing: Fencing::Leased,
    };
    Some((Database::open(&options).await.unwrap(), how))
}

/// A standby whose worker notes when it starts.
async fn rival(timing: Timing, fixture: &Fixture, effects: Effects) -> (Supervision, Arc<OnceLock<Moment>>) {
    let started = Arc::new(OnceLock::new());
    let note = started.clone();
    let body = move |context: Context| {
        note.get_or_init(|| Clock::boottime().now());
        Box::pin(async move { context.stop.cancelled().await }) as _
    };
    let rival =
        start(timing, Reached::new(fixture.leases.clone()), Doing { effects, body: Box::new(body) }, never());
    let rival = rival.await;
    trusted(&rival).await;
    (rival, started)
}

async fn start_of(rival: &OnceLock<Moment>) -> Moment {
    eventually("the rival's worker starts", SOON, async || rival.get().copied().ok_or("not yet")).await
}

fn says_that_it_works() {
    println!("works {}", Clock::boottime().now().as_nanos());
}

fn wait_for_go() {
    let mut line = String::new();
    stdin().read_line(&mut line).unwrap();
    assert_eq!(line, "go\n");
}

/// `os.Exit` in a callback skipped the release, and each rollout cost the TTL: ten minutes.
// L9: openshift/machine-config-operator#3185, #5269
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_exits_or_aborts_within_its_worker_is_succeeded_long_before_its_ttl() {
    const TEST: &str = "a_process_that_exits_or_aborts_within_its_worker_is_succeeded_long_before_its_ttl";
    if let Some((database, how)) = inside().await {
        return end_by(&how, database).await;
    }
    for (how, timing) in [
        ("exit", Timing::SQLITE),
        ("panic hook", Timing::SQLITE),
        ("exit", Timing::POSTGRES),
        ("panic hook", Timing::POSTGRES),
    ] {
        let fixture =
            if timing == Timing::SQLITE { Fixture::sqlite().await } else { Fixture::postgres().await };
        let mut ends = Inside::start(TEST, &fixture, how).await;
        let (_rival, started) = rival(timing, &fixture, Effects::Fenced).await;
        let begun = Instant::now();
        ends.go();
        start_of(&started).await;
        let took = begun.elapsed();
        println!("{how}: the next worker's start after {took:?}");
        assert!(took < timing.ttl / 2, "{how}: {took:?}");
        let status = ends.ended().await;
        let expected = if how == "exit" { (Some(3), None) } else { (None, Some(6)) };
        assert_eq!((status.code(), status.signal()), expected, "{how}: {status}");
    }
}

async fn end_by(how: &str, database: Database) {
    if how == "panic hook" {
        std::panic::set_hook(Box::new(|_| std::process::abort()));
    }
    let exits = how == "exit";
    let body = move |_| {
        says_that_it_works();
        Box::pin(async move {
            tokio::task::spawn_blocking(wait_for_go).await.unwrap();
            if exits {
                std::process::exit(3);
            }
            assert!(exits, "the hook runs");
        }) as _
    };
    let worker = Doing { effects: Effects::Fenced, body: Box::new(body) };
    let store = Reached::new(SqlLeases::new(database));
    start(Timing::POSTGRES, store, worker, never()).await.ended().await.unwrap();
}

/// Short, and TTL well beyond F + S: whoever starts in between does so since the process has ended.
const SHORT: Timing = Timing {
    renew_every: Duration::from_millis(100),
    renew_timeout: Duration::from_millis(500),
    trust_for: Duration::from_millis(1_000),
    stop_within: Duration::from_millis(500),
    server_drop: Duration::ZERO,
    grace: Duration::ZERO,
    ttl: Duration::from_millis(3_000),
    poll_every: Duration::from_millis(200),
};

/// A hook that would not stop ran past the hard deadline, and two operators handed out the same addresses.
// L3: cilium/cilium#42920 (PR)
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_whose_worker_ignores_its_stop_is_ended_before_its_rival_starts() {
    const TEST: &str = "a_process_whose_worker_ignores_its_stop_is_ended_before_its_rival_starts";
    if let Some((database, _)) = inside().await {
        return ignore_the_stop(database).await;
    }
    let fixture = Fixture::sqlite().await;
    let mut stubborn = Inside::start(TEST, &fixture, "ignores").await;
    let (mut rival, started) = rival(SHORT, &fixture, Effects::External).await;
    stubborn.go();
    let started = start_of(&started).await;
    let status = stubborn.ended().await;
    let worked_until = stubborn.works_until().unwrap();
    assert!(worked_until < started, "it worked for {:?} beside its rival", worked_until.since(started));
    assert_eq!(status.code(), Some(app::Exit::Failed as i32), "{status}");
    rival.shut_down();
    rival.ended().await.unwrap();
}

/// Works on whatever it is told, and blocks its thread all the while; no renewal leaves once it may go.
async fn ignore_the_stop(database: Database) {
    let store = Reached::new(SqlLeases::new(database));
    let away = store.away.clone();
    let body = |_| {
        Box::pin(async {
            let ends = Instant::now() + SOON;
            while Instant::now() < ends {
                says_that_it_works();
                std::thread::park_timeout(Duration::from_millis(2));
            }
        }) as _
    };
    let worker = Doing { effects: Effects::External, body: Box::new(body) };
    let mut supervision = start(SHORT, store, worker, Arc::new(app::end_at_once)).await;
    tokio::task::spawn_blocking(wait_for_go).await.unwrap();
    away.store(true, Ordering::SeqCst);
    // The supervisor gives up on it; only the watchdog ends the process.
    let _ = supervision.ended().await;
    std::future::pending().await
}

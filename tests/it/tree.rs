//! main -> supervisor -> worker: who is started again, and whose end is the end of the process.
//!
//! Actors are killed from inside the process. Each test therefore runs itself again in a process of its own, which
//! has the program's one recorder of metrics and its signals to itself.

use std::{collections::BTreeMap, process::Command};

use atcr_workers::{
    app::{self, Exit, Refusal},
    settings::Settings,
};
use ractor::registry;
use tokio::task::JoinHandle;

use crate::support::{
    eventually::eventually,
    place::Kind,
    stage::{PATIENCE, SETTINGS, Stage, until_in, until_standby},
};

/// Set for the process that runs the test's inner half.
const INSIDE: &str = "ATCR_TEST_INSIDE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_is_started_again_under_the_same_term() {
    if is_outside("a_killed_worker_is_started_again_under_the_same_term") {
        return;
    }
    let (stage, run) = begin().await;
    let first = actor("jetstream@").await;
    let epoch = stage.epoch().await;

    registry::where_is(first.clone()).unwrap().kill();
    eventually("another actor runs it", PATIENCE, async || match names("jetstream@").as_slice() {
        [second] if *second != first => Ok(()),
        others => Err(others.to_vec()),
    })
    .await;

    stage.changes(1, 20);
    stage.caught_up().await;
    assert_eq!(stage.epoch().await, epoch);
    assert!(!run.is_finished());
    run.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_beyond_its_intensity_goes_to_another_process() {
    if is_outside("a_worker_that_is_killed_beyond_its_intensity_goes_to_another_process") {
        return;
    }
    let (stage, run) = begin().await;
    let standby = stage.start("standby");
    until_standby(&standby);
    let mut last = String::new();
    // Three restarts are allowed, so the fourth end is one too many.
    for _ in 0..4 {
        last = eventually("another actor runs it", PATIENCE, async || match names("jetstream@").as_slice() {
            [name] if *name != last => Ok(name.clone()),
            others => Err(others.to_vec()),
        })
        .await;
        registry::where_is(last.clone()).unwrap().kill();
    }
    until_in(&standby, "running");
    assert_eq!(names("jetstream@"), [""; 0]);
    let cooling = stage.place.lines("SELECT name AS line FROM lease_cooldown").await;
    assert_eq!(cooling, ["jetstream"], "the one that failed stays away for a while");
    assert!(!run.is_finished(), "it goes on with what else it has");
    stage.changes(1, 20);
    stage.caught_up().await;
    run.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_supervisor_takes_its_worker_along_and_ends_the_run_with_1() {
    if is_outside("a_killed_supervisor_takes_its_worker_along_and_ends_the_run_with_1") {
        return;
    }
    let (stage, run) = begin().await;
    actor("jetstream@").await;
    let supervisor = actor("supervisor@").await;

    registry::where_is(supervisor).unwrap().kill();
    let ended = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
    assert_eq!(ended.unwrap(), Exit::Failed);
    assert!(stage.net.jetstream(0).subscribed(0, PATIENCE).await, "its worker follows the stream no more");
    assert_eq!(names("jetstream@"), [""; 0]);
    let history = stage.history().await;
    assert!(history.iter().all(|(.., what)| what == "acquired"), "nothing was released: {history:?}");
}

/// Runs the test `name` in a process of its own; false in that process.
fn is_outside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    let mut inside = Command::new(std::env::current_exe().unwrap());
    inside.args(["--exact", &format!("tree::{name}"), "--nocapture"]).env(INSIDE, "1");
    let output = inside.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}\n{complained}");
    true
}

/// The program, as `main` runs it.
async fn begin() -> (Stage, JoinHandle<Result<Exit, Refusal>>) {
    let stage = Stage::new(Kind::Sqlite).await;
    let environment: BTreeMap<String, String> = stage.environment("inside");
    let settings = Settings::load(Some(SETTINGS.as_ref()), environment).unwrap();
    let run = tokio::spawn(app::run(settings, false));
    assert!(stage.net.jetstream(0).subscribed(1, PATIENCE).await);
    (stage, run)
}

/// The name of the one running actor whose name begins so.
async fn actor(prefix: &str) -> String {
    eventually("there is one actor", PATIENCE, async || match names(prefix).as_slice() {
        [one] => Ok(one.clone()),
        others => Err(others.to_vec()),
    })
    .await
}

fn names(prefix: &str) -> Vec<String> {
    registry::registered().into_iter().filter(|name| name.starts_with(prefix)).collect()
}

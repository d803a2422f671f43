//! Instances are stopped, killed and frozen, and the stream is cut, at random moments while the network never rests:
//! in the end the index is what the repositories hold.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::task::TaskTracker;

use crate::support::{
    place::{Kind, Session, on_both_databases},
    process::{Exit, Instance},
    stage::{PATIENCE, Stage},
};

on_both_databases!(nothing_is_lost_or_applied_twice_whatever_happens_to_three_instances);

const ROUNDS: usize = 22;
const EVENTS_PER_SECOND: f64 = 100.0;
/// Longer than the TTL at times, so that some of the frozen ones wake up as strangers.
const FROZEN_MS_MAX: u64 = 4_500;

async fn nothing_is_lost_or_applied_twice_whatever_happens_to_three_instances(kind: Kind) {
    let began = Instant::now();
    // Reading again what is in already would make up for what was lost.
    let stage = Stage::new(kind).await.quick().with("ATCR__JETSTREAM__REWIND", "0s");
    let mut instances: Vec<Instance> = (0..3).map(|at| stage.start(&format!("i{at}"))).collect();
    stage.worker(&instances.iter().collect::<Vec<_>>());
    let watch = Watch::start(stage.place.open().await.unwrap());
    let flow = stage.traffic(1, EVENTS_PER_SECOND);

    let mut random = StdRng::seed_from_u64(2);
    let (mut done, frozen) = (BTreeMap::<&str, usize>::new(), TaskTracker::new());
    for round in 0..ROUNDS {
        // The moment, which is what is random here; nothing is waited for.
        tokio::time::sleep(Duration::from_millis(random.random_range(100..1_500))).await;
        if random.random_bool(0.3) {
            stage.net.jetstream(0).cut();
            *done.entry("cut").or_default() += 1;
        }
        let victim = match holder(&stage, &instances).await {
            Some(holder) if random.random_bool(0.7) => holder,
            _ => random.random_range(0..instances.len()),
        };
        let what = match round % 3 {
            0 => "stopped",
            1 => "killed",
            _ => "frozen",
        };
        *done.entry(what).or_default() += 1;
        match what {
            "frozen" => freeze(&instances[victim], &frozen, random.random_range(200..FROZEN_MS_MAX)),
            _ => end(&stage, &mut instances[victim], what, &frozen),
        }
    }
    frozen.close();
    frozen.wait().await;
    drop(flow);
    stage.is_the_source().await;

    let (samples, cursors) = watch.end().await;
    let history = stage.history().await;
    let acquired = history.iter().filter(|(.., what)| what == "acquired").count();
    let events = stage.net.jetstream(0).published_commits().len();
    println!(
        "{kind:?}: {ROUNDS} rounds {done:?}, {acquired} terms, {events} commits published, cursor read {samples} times, \
         {:?}",
        began.elapsed()
    );
    assert!(acquired > 4, "too few hand-overs to show anything: {history:?}");
    assert!(samples > 50 && !cursors.is_empty());
}

/// Freezes an instance for a while, in which the others meet their own fate.
fn freeze(instance: &Instance, frozen: &TaskTracker, for_ms: u64) {
    instance.signal(Signal::STOP);
    let pid = Pid::from_raw(instance.pid().try_into().unwrap()).unwrap();
    frozen.spawn(async move {
        tokio::time::sleep(Duration::from_millis(for_ms)).await;
        // It may have been killed while it was frozen.
        let _ = kill_process(pid, Signal::CONT);
    });
}

/// Ends an instance and starts another in its place.
fn end(stage: &Stage, instance: &mut Instance, what: &str, frozen: &TaskTracker) {
    let alone = frozen.is_empty();
    instance.signal(if what == "killed" { Signal::KILL } else { Signal::TERM });
    let exit = instance.wait_exit(PATIENCE);
    // On SQLite, one that is frozen inside a transaction keeps every release waiting.
    let expected: &[Exit] = match what {
        "killed" => &[Exit::Signal(9)],
        _ if alone => &[Exit::Code(0)],
        _ => &[Exit::Code(0), Exit::Code(75)],
    };
    assert!(expected.contains(&exit), "{what}: {exit:?}\n{}", instance.lines().join("\n"));
    *instance = stage.start(what);
}

/// Which of them has the lease, by the database.
async fn holder(stage: &Stage, instances: &[Instance]) -> Option<usize> {
    let holder = stage.place.lines(
        "SELECT CAST(pid AS TEXT) AS line FROM lease JOIN lease_instance ON incarnation = holder WHERE name = 'jetstream'",
    );
    let pid: u32 = holder.await.first()?.parse().ok()?;
    instances.iter().position(|instance| instance.pid() == pid)
}

/// Reads the cursors all the time, and panics at the first that goes down.
struct Watch {
    ended: Arc<AtomicBool>,
    reader: tokio::task::JoinHandle<(usize, BTreeMap<String, i64>)>,
}

impl Watch {
    fn start(session: Session) -> Watch {
        let ended = Arc::new(AtomicBool::new(false));
        let reader = tokio::spawn(watch(Mutex::new(session), ended.clone()));
        Watch { ended, reader }
    }

    /// How often they were read, and the last of each.
    async fn end(self) -> (usize, BTreeMap<String, i64>) {
        self.ended.store(true, Ordering::Relaxed);
        self.reader.await.unwrap()
    }
}

async fn watch(session: Mutex<Session>, ended: Arc<AtomicBool>) -> (usize, BTreeMap<String, i64>) {
    let mut session = session.into_inner().unwrap();
    let (mut samples, mut newest) = (0, BTreeMap::<String, i64>::new());
    while !ended.load(Ordering::Relaxed) {
        let select = "SELECT wire || ' ' || host || ' ' || time_us AS line FROM stream_cursor";
        for line in session.lines(select).await.unwrap() {
            let (host, time_us) = line.rsplit_once(' ').unwrap();
            let time_us: i64 = time_us.parse().unwrap();
            let before = newest.insert(host.to_owned(), time_us).unwrap_or_default();
            assert!(before <= time_us, "the cursor of {host} went from {before} down to {time_us}");
        }
        samples += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (samples, newest)
}

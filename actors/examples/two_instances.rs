//! Two instances and two workers: who has what, a shutdown, and a worker that fails where it is. Ends by itself in a second.
//!
//! `cargo run -p leased-actors --example two_instances`
//!
//! The instances share one process, since their store is in memory. That store sends no news, so a successor learns of a
//! free lease by its next renewal, here every 50 ms.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leased_actors::clock::Clock;
use leased_actors::lease::timing::Timing;
use leased_actors::lease::{Effects, LeaseName, ProcessId};
use leased_actors::memory::MemoryStore;
use leased_actors::restart::Intensity;
use leased_actors::supervisor::{self, Setup, Snapshot, Supervision};
use leased_actors::worker::{Context, Worker, WorkerError};

const WORKERS: [&str; 2] = ["mail", "sweep"];

/// In the proportions of the defaults.
const TIMING: Timing = Timing {
    renew_every: Duration::from_millis(50),
    renew_timeout: Duration::from_millis(200),
    trust_for: Duration::from_millis(800),
    stop_within: Duration::from_millis(500),
    server_drop: Duration::ZERO,
    grace: Duration::ZERO,
    ttl: Duration::from_millis(1_500),
    poll_every: Duration::from_secs(1),
};

/// Longer than anything here takes; after it the story is broken, and says so.
const PATIENCE: Duration = Duration::from_secs(5);

#[allow(dead_code, reason = "a test tells the story, too")]
fn main() {
    story();
}

/// Tells the story as it happens, and returns its lines.
pub(crate) fn story() -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(tell())
}

async fn tell() -> Vec<String> {
    let stage = Stage::default();
    stage.say("Two instances start; each knows both workers.");
    let (mut one, two) = tokio::join!(stage.start("one"), stage.start("two"));
    stage.until("both workers run", || one.running().len() + two.running().len() == 2).await;
    stage.show(&[&one, &two]);

    let moving = one.running();
    stage.say("");
    stage.say("one is told to end: it stops its workers, releases, and takes the acknowledgement.");
    let begun = Instant::now();
    one.supervision.shut_down();
    stage.until("two runs everything", || two.running().len() == 2).await;
    let took = begun.elapsed();
    let report = one.supervision.ended().await.expect("one's supervisor is well");
    stage.say(&format!("one ended ({report}); {} at two {} ms later", moving.join(", "), took.as_millis()));
    stage.show(&[&two]);

    stage.say("");
    stage.say("three starts, and stands by. Then mail begins to fail at two, and only there.");
    let three = stage.start("three").await;
    stage.until("three is registered", || three.now().incarnation.is_some()).await;
    let begun = Instant::now();
    stage.broken.add("mail@two");
    stage.until("mail runs at three", || three.running().contains(&"mail".to_owned())).await;
    let took = begun.elapsed();
    stage.say(&format!(
        "mail at three {} ms after it began to fail; two stays away from it",
        took.as_millis()
    ));
    stage.show(&[&two, &three]);

    stage.say("");
    stage.say("All end.");
    for mut instance in [two, three] {
        instance.supervision.shut_down();
        let report = instance.supervision.ended().await.expect("its supervisor is well");
        stage.say(&format!("{} ended ({report})", instance.label));
    }
    stage.lines()
}

/// Where it plays: the store that all share, what is broken, and what was said.
#[derive(Clone)]
struct Stage {
    store: Arc<MemoryStore>,
    broken: Broken,
    said: Arc<Mutex<Vec<String>>>,
}

impl Default for Stage {
    fn default() -> Self {
        let store = Arc::new(MemoryStore::new(Clock::boottime()));
        Self { store, broken: Broken::default(), said: Arc::default() }
    }
}

impl Stage {
    fn say(&self, line: &str) {
        println!("{line}");
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }

    fn lines(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts an instance: what a program does in its `main`.
    async fn start(&self, label: &'static str) -> Instance {
        let setup = Setup {
            process: ProcessId::new(),
            label: label.to_owned(),
            host: "here".to_owned(),
            admin_address: None,
            timing: TIMING,
            clock: Clock::boottime(),
            on_overdue: Arc::new(|term| panic!("{term} did not stop in time")),
        };
        let worker = |name| Arc::new(Job { name, at: label, stage: self.clone() }) as Arc<dyn Worker>;
        let workers = WORKERS.map(worker).into();
        let supervision = supervisor::start(setup, self.store.clone(), workers).await;
        Instance { label, supervision: supervision.expect("a supervisor starts") }
    }

    /// Prints who has what.
    fn show(&self, instances: &[&Instance]) {
        for instance in instances {
            for lease in &instance.now().leases {
                let epoch = lease.epoch.map(|epoch| format!("under epoch {epoch}")).unwrap_or_default();
                let line = format!(
                    "    {:<6} {:<6} {:<8} {epoch}",
                    instance.label,
                    lease.name.as_str(),
                    lease.state
                );
                self.say(line.trim_end());
            }
        }
    }

    async fn until(&self, what: &str, seen: impl Fn() -> bool) {
        let look = async {
            while !seen() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, look).await.is_ok(), "not within {PATIENCE:?}: {what}");
    }
}

struct Instance {
    label: &'static str,
    supervision: Supervision,
}

impl Instance {
    fn now(&self) -> Snapshot {
        self.supervision.snapshot().borrow().clone()
    }

    /// The workers that run here.
    fn running(&self) -> Vec<String> {
        let leases = self.now().leases.into_iter();
        leases.filter(|lease| lease.state == "running").map(|lease| lease.name.to_string()).collect()
    }
}

/// Which workers fail, and where: `mail@two`.
#[derive(Clone, Default)]
struct Broken(Arc<Mutex<BTreeSet<&'static str>>>);

impl Broken {
    fn add(&self, which: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(which);
    }

    fn has(&self, which: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(which)
    }
}

/// A worker. What it would do, it would do where the comment stands, and show `context.term` with every write.
struct Job {
    name: &'static str,
    at: &'static str,
    stage: Stage,
}

#[async_trait::async_trait]
impl Worker for Job {
    fn name(&self) -> LeaseName {
        self.name.parse().expect("a good name")
    }

    fn effects(&self) -> Effects {
        Effects::Fenced
    }

    /// Two restarts, then somebody else tries.
    fn intensity(&self) -> Intensity {
        Intensity { restarts: 2, ..Intensity::default() }
    }

    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        let which = format!("{}@{}", self.name, self.at);
        while !context.stop.is_cancelled() {
            if self.stage.broken.has(&which) {
                self.stage.say(&format!("    {} fails at {}", self.name, self.at));
                return Err("its disk is full".into());
            }
            // Here it works.
            let pause = tokio::time::sleep(Duration::from_millis(10));
            context.stop.run_until_cancelled(pause).await;
        }
        Ok(())
    }
}

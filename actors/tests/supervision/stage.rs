//! What the tests play on: a store with faults on command, workers that behave as told, and short times.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use leased_actors::clock::Clock;
use leased_actors::lease::timing::Timing;
use leased_actors::lease::{
    Ask, Claim, Effects, Incarnation, LeaseName, LeaseStore, LeaseView, News, ProcessId, Registration,
    Release, Renewal, StoreError, Term, TermId,
};
use leased_actors::memory::MemoryStore;
use leased_actors::restart::Intensity;
use leased_actors::supervisor::{self, Setup, Snapshot, Supervision};
use leased_actors::worker::{Context, Worker, WorkerError};
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

pub const TIMING: Timing = Timing {
    renew_every: Duration::from_millis(20),
    renew_timeout: Duration::from_millis(50),
    trust_for: Duration::from_millis(400),
    stop_within: Duration::from_millis(400),
    server_drop: Duration::ZERO,
    grace: Duration::ZERO,
    ttl: Duration::from_millis(900),
    poll_every: Duration::from_secs(1),
};

/// A memory store whose calls can fail or dawdle. One world may be seen through several of them.
#[derive(Clone)]
pub struct Faulty {
    pub inner: Arc<MemoryStore>,
    pub away: Arc<AtomicBool>,
    /// Whether calls are never answered, while this is so and after.
    pub mute: Arc<AtomicBool>,
    pub failing_releases: Arc<AtomicU32>,
    pub slow_release: Duration,
    /// How long the answer of a renewal is under way.
    pub slow_renewal: Duration,
    pub log: Log,
    /// The leases that were asked for.
    pub asked: Log,
}

impl Faulty {
    pub fn new(inner: &Arc<MemoryStore>, log: &Log) -> Self {
        let (away, mute, failing_releases) = Default::default();
        let (slow_release, slow_renewal, asked) = Default::default();
        let (inner, log) = (inner.clone(), log.clone());
        Self { inner, away, mute, failing_releases, slow_release, slow_renewal, log, asked }
    }

    async fn reach(&self, operation: &str) -> Result<(), StoreError> {
        if self.mute.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError { operation: operation.into(), reason: "away".into() });
        }
        Ok(())
    }
}

#[async_trait]
impl LeaseStore for Faulty {
    async fn register(&self, me: &Registration, names: &[LeaseName]) -> Result<(), StoreError> {
        self.reach("register").await?;
        self.inner.register(me, names).await
    }

    async fn renew(&self, me: Incarnation) -> Result<Renewal, StoreError> {
        self.reach("renew").await?;
        let reply = self.inner.renew(me).await;
        if !self.slow_renewal.is_zero() {
            tokio::time::sleep(self.slow_renewal).await;
            self.log.add("renewed");
        }
        reply
    }

    async fn declare_dead(&self, who: Incarnation, seen: i64) -> Result<bool, StoreError> {
        self.reach("declare").await?;
        self.inner.declare_dead(who, seen).await
    }

    async fn bury(&self, me: Incarnation) -> Result<Vec<Incarnation>, StoreError> {
        self.reach("bury").await?;
        self.inner.bury(me).await
    }

    async fn claim(&self, ask: &Ask) -> Result<Option<Claim>, StoreError> {
        self.reach("claim").await?;
        self.asked.add(ask.name.as_str());
        self.inner.claim(ask).await
    }

    async fn end_wait(&self, term: &TermId) -> Result<bool, StoreError> {
        self.reach("end_wait").await?;
        self.inner.end_wait(term).await
    }

    async fn news(&self, me: Incarnation) -> News {
        self.inner.news(me).await
    }

    async fn release(&self, term: &TermId, how: Release) -> Result<bool, StoreError> {
        tokio::time::sleep(self.slow_release).await;
        let failing = |left: u32| left.checked_sub(1);
        if self.failing_releases.fetch_update(Ordering::SeqCst, Ordering::SeqCst, failing).is_ok() {
            self.log.add("release refused");
            return Err(StoreError { operation: "release".into(), reason: "as told".into() });
        }
        self.reach("release").await?;
        let reply = self.inner.release(term, how).await;
        self.log.add(format!("released {}", term.name));
        reply
    }

    async fn depart(&self, me: Incarnation) -> Result<(), StoreError> {
        self.reach("depart").await?;
        self.inner.depart(me).await
    }

    async fn list(&self) -> Result<Vec<LeaseView>, StoreError> {
        self.inner.list().await
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|l| *l == line).count()
    }

    /// Waits, for at most ten seconds, until a line stands there so often.
    pub async fn until(&self, line: &str, count: usize) {
        let seen = async {
            while self.count(line) < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(10), seen).await;
        assert!(seen.is_ok(), "{line:?} not {count} times in {:?}", self.lines());
    }

    /// The place of a line; panics if it is missing.
    pub fn place(&self, line: &str) -> usize {
        let lines = self.lines();
        lines.iter().position(|l| l == line).unwrap_or_else(|| panic!("no {line:?} in {lines:?}"))
    }
}

/// How a worker behaves.
#[derive(Clone)]
pub enum Conduct {
    /// Works until told to stop.
    Good,
    /// When told to stop, waits until all the others were told as well.
    Meeting(Arc<Barrier>),
    /// Logs all the time that it acts, until told to stop.
    Acting,
    /// Shows its term, and works until told to stop.
    Showing(Arc<OnceLock<Term>>),
    /// Works until both this and its own token are cancelled.
    Rooted(CancellationToken),
    /// Does not listen, but awaits.
    Deaf,
    /// Does not listen and does not await: blocks its thread for so long.
    Blocked(Duration),
    /// Fails at once.
    Failing,
    /// Panics at once.
    Panicking,
}

/// A worker that logs its starts and stops.
pub struct Played {
    pub name: &'static str,
    pub effects: Effects,
    pub conduct: Conduct,
    pub log: Log,
    pub intensity: Intensity,
    pub progress_within: Option<Duration>,
}

impl Played {
    pub fn new(name: &'static str, conduct: Conduct, log: &Log) -> Self {
        let intensity = Intensity { backoff_min: Duration::from_millis(5), ..Intensity::default() };
        Self { name, effects: Effects::Fenced, conduct, log: log.clone(), intensity, progress_within: None }
    }

    pub fn external(self) -> Self {
        Self { effects: Effects::External, ..self }
    }
}

struct Stopped<'a>(&'a Played);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.log.add(format!("{} stopped", self.0.name));
    }
}

#[async_trait]
impl Worker for Played {
    fn name(&self) -> LeaseName {
        self.name.parse().unwrap()
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    fn intensity(&self) -> Intensity {
        self.intensity
    }

    fn progress_within(&self) -> Option<Duration> {
        self.progress_within
    }

    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        assert!(context.term.is_trusted(), "started without trust");
        self.log.add(format!("{} started", self.name));
        let _stopped = Stopped(self);
        match self.conduct.clone() {
            Conduct::Good => context.stop.cancelled().await,
            Conduct::Meeting(all) => {
                context.stop.cancelled().await;
                all.wait().await;
                self.log.add("met");
            }
            Conduct::Acting => {
                while !context.stop.is_cancelled() {
                    self.log.add(format!("{} acts", self.name));
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            Conduct::Showing(term) => {
                term.set(context.term).unwrap();
                context.stop.cancelled().await;
            }
            Conduct::Rooted(root) => {
                root.cancelled().await;
                context.stop.cancelled().await;
            }
            Conduct::Deaf => std::future::pending().await,
            #[allow(clippy::disallowed_methods)]
            Conduct::Blocked(time) => std::thread::sleep(time),
            Conduct::Failing => return Err("as told".into()),
            Conduct::Panicking => panic!("as told"),
        }
        Ok(())
    }
}

pub fn world() -> (Arc<MemoryStore>, Log) {
    (Arc::new(MemoryStore::new(Clock::boottime())), Log::default())
}

/// Declares `who` dead whatever its renewals do.
pub async fn declare_dead(memory: &MemoryStore, who: Incarnation) {
    let observer = leased_actors::testing::registration("observer");
    memory.register(&observer, &[]).await.unwrap();
    loop {
        let Renewal::Alive(world) = memory.renew(observer.incarnation).await.unwrap() else { panic!() };
        let Some(peer) = world.peers.iter().find(|peer| peer.incarnation == who) else { break };
        if memory.declare_dead(who, peer.renew_seq).await.unwrap() {
            break;
        }
    }
    memory.depart(observer.incarnation).await.unwrap();
}

pub async fn start(store: Faulty, workers: Vec<Played>) -> Supervision {
    start_with(TIMING, store, workers).await
}

pub async fn start_with(timing: Timing, store: Faulty, workers: Vec<Played>) -> Supervision {
    let setup = Setup {
        process: ProcessId::new(),
        label: "test".into(),
        host: "host".into(),
        admin_address: None,
        timing,
        clock: Clock::boottime(),
        on_overdue: Arc::new(|term| panic!("overdue: {term}")),
    };
    let workers = workers.into_iter().map(|worker| Arc::new(worker) as Arc<dyn Worker>).collect();
    supervisor::start(setup, Arc::new(store), workers).await.unwrap()
}

/// Ends an instance in order. The watchdog of one that is only dropped outlives it, and bites.
pub async fn leave(mut supervision: Supervision) {
    supervision.shut_down();
    supervision.ended().await.unwrap();
}

/// Waits, for at most ten seconds, until the snapshot is as wanted.
pub async fn until(supervision: &Supervision, what: &str, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let mut snapshot = supervision.snapshot();
    let seen = tokio::time::timeout(Duration::from_secs(10), snapshot.wait_for(|s| wanted(s))).await;
    match seen {
        Ok(seen) => seen.unwrap().clone(),
        Err(_) => panic!("not within 10 s: {what}; last seen: {:?}", supervision.snapshot().borrow().leases),
    }
}

pub fn state(snapshot: &Snapshot, name: &str) -> &'static str {
    snapshot.leases.iter().find(|lease| lease.name.as_str() == name).unwrap().state
}

pub async fn running(supervision: &Supervision, name: &str) -> Snapshot {
    until(supervision, &format!("{name} runs"), |s| state(s, name) == "running").await
}

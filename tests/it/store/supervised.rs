//! Supervisors of the test's own on a real database, over a store that can be cut off or deaf.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atcr_workers::store::SqlLeases;
use leased_actors::clock::Clock;
use leased_actors::lease::timing::Timing;
use leased_actors::lease::{
    Ask, Claim, Effects, Incarnation, LeaseName, LeaseStore, LeaseView, News, ProcessId, Registration,
    Release, Renewal, StoreError, TermId,
};
use leased_actors::supervisor::{self, Setup, Supervision};
use leased_actors::watchdog::Bite;
use leased_actors::worker::{Context, Worker, WorkerError};

use super::fixture::name;

/// For what takes milliseconds, on a loaded machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The leases of one instance.
#[derive(Clone)]
pub(crate) struct Reached {
    pub(crate) inner: SqlLeases,
    /// Whether every call fails before it is sent.
    pub(crate) away: Arc<AtomicBool>,
    /// Whether no news ever comes.
    pub(crate) deaf: bool,
    pub(crate) renewed: Arc<dyn Fn() + Send + Sync>,
}

impl Reached {
    pub(crate) fn new(inner: SqlLeases) -> Self {
        Self { inner, away: Arc::default(), deaf: false, renewed: Arc::new(|| {}) }
    }

    fn reach(&self, operation: &str) -> Result<(), StoreError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError { operation: operation.into(), reason: "away".into() });
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl LeaseStore for Reached {
    async fn register(&self, me: &Registration, names: &[LeaseName]) -> Result<(), StoreError> {
        self.reach("register")?;
        self.inner.register(me, names).await
    }

    async fn renew(&self, me: Incarnation) -> Result<Renewal, StoreError> {
        self.reach("renew")?;
        let reply = self.inner.renew(me).await;
        if matches!(reply, Ok(Renewal::Alive(_))) {
            (self.renewed)();
        }
        reply
    }

    async fn declare_dead(&self, who: Incarnation, seen: i64) -> Result<bool, StoreError> {
        self.reach("declare")?;
        self.inner.declare_dead(who, seen).await
    }

    async fn bury(&self, me: Incarnation) -> Result<Vec<Incarnation>, StoreError> {
        self.reach("bury")?;
        self.inner.bury(me).await
    }

    async fn claim(&self, ask: &Ask) -> Result<Option<Claim>, StoreError> {
        self.reach("claim")?;
        self.inner.claim(ask).await
    }

    async fn end_wait(&self, term: &TermId) -> Result<bool, StoreError> {
        self.reach("end_wait")?;
        self.inner.end_wait(term).await
    }

    async fn release(&self, term: &TermId, how: Release) -> Result<bool, StoreError> {
        self.reach("release")?;
        self.inner.release(term, how).await
    }

    async fn depart(&self, me: Incarnation) -> Result<(), StoreError> {
        self.reach("depart")?;
        self.inner.depart(me).await
    }

    async fn news(&self, me: Incarnation) -> News {
        if self.deaf {
            return std::future::pending().await;
        }
        self.inner.news(me).await
    }

    async fn list(&self) -> Result<Vec<LeaseView>, StoreError> {
        self.inner.list().await
    }
}

/// What a worker of `work` does.
pub(crate) type Body = Box<dyn Fn(Context) -> futures_util::future::BoxFuture<'static, ()> + Send + Sync>;

/// The worker of the lease `work`.
pub(crate) struct Doing {
    pub(crate) effects: Effects,
    pub(crate) body: Body,
}

#[async_trait::async_trait]
impl Worker for Doing {
    fn name(&self) -> LeaseName {
        name()
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        (self.body)(context).await;
        Ok(())
    }
}

pub(crate) async fn start(timing: Timing, store: Reached, worker: Doing, on_overdue: Bite) -> Supervision {
    let setup = Setup {
        process: ProcessId::new(),
        label: "here".into(),
        host: "here".into(),
        admin_address: None,
        timing,
        clock: Clock::boottime(),
        on_overdue,
    };
    supervisor::start(setup, Arc::new(store), vec![Arc::new(worker)]).await.unwrap()
}

/// For where it must not come to that.
pub(crate) fn never() -> Bite {
    Arc::new(|term| panic!("overdue: {term}"))
}

/// Waits until the instance renews.
pub(crate) async fn trusted(instance: &Supervision) {
    let mut snapshot = instance.snapshot();
    let trusted = snapshot.wait_for(|s| s.trust_remaining() > Duration::ZERO);
    tokio::time::timeout(SOON, trusted).await.expect("it renews in time").unwrap();
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|l| *l == line).count()
    }

    /// Waits until a line stands there once more.
    pub(crate) async fn again(&self, line: &str) {
        let before = self.count(line);
        crate::support::eventually::eventually(line, SOON, async || match self.count(line) {
            now if now > before => Ok(()),
            same => Err((same, self.lines().into_iter().rev().take(5).collect::<Vec<_>>())),
        })
        .await;
    }
}

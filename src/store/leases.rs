//! Where the leases live: the contract of `leased-actors` over either database.
//!
//! Each operation ends by itself within the renew timeout. On PostgreSQL the statement, the connection and the wait
//! for the answer are bounded; on SQLite the wait for our own writers and then for other processes' writers, half of
//! the timeout each. None is ever cut: a call that gives up leaves its statement to end on its own.

mod on_sqlite;
pub(in crate::store) mod rows;

use async_trait::async_trait;
use diesel::QueryResult;
use leased_actors::lease::{
    Ask, Claim, Incarnation, LeaseName, LeaseStore, LeaseView, News, Peer, Registration, Release, Renewal,
    StoreError, TermId,
};
use tokio::time::timeout;

use super::queries::beacons::{self, Beaconless};
use super::queries::lease_instances::{self, End};
use super::queries::{lease_list, leases, take_over};
use super::session::{Session, Work};
use super::{Database, Store, pooled};
use rows::{claimed, duration, heartbeat, stored, view};

/// The leases in a database.
#[derive(Clone)]
pub struct SqlLeases {
    database: Database,
}

impl SqlLeases {
    /// The leases in `database`, each operation within its `renew_timeout`.
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// Every registered instance that is not dead, for one that wants none beside itself.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn peers(&self) -> Result<Vec<Peer>, StoreError> {
        let rows = self
            .run(None, "list instances".to_owned(), async |s: &mut Session| lease_instances::living(s).await);
        let peer = |(incarnation, renew_seq, ttl_us): (String, i64, i64)| {
            Ok(Peer { incarnation: stored(&incarnation)?, renew_seq, ttl: duration(ttl_us), up: true })
        };
        let peers: Result<_, String> = rows.await?.into_iter().map(peer).collect();
        peers.map_err(|reason| StoreError { operation: "list instances".to_owned(), reason })
    }

    /// Reads for people.
    pub(super) async fn read<R, F>(&self, operation: &str, work: F) -> Result<R, StoreError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send
            + 'static,
        R: Send + 'static,
    {
        self.run(None, operation.to_owned(), work).await
    }

    /// Writes an operator's wish; if it changed something, every instance is told to look.
    pub(super) async fn wish<F>(&self, operation: String, work: F) -> Result<bool, StoreError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<bool>
            + Work<&'r mut Session, QueryResult<bool>, Running: Send>
            + Send
            + 'static,
    {
        let wished = self.transact(None, operation, async move |session: &mut Session| {
            let changed = work(session).await?;
            if changed {
                beacons::tell(session, "wish".to_owned()).await?;
            }
            Ok(changed)
        });
        let changed = wished.await?;
        if changed && let Store::Sqlite { beacons, .. } = self.database.store() {
            beacons.touch();
        }
        Ok(changed)
    }

    /// Runs `work` with commits that wait for the disk.
    async fn run<R, F>(&self, by: Option<Incarnation>, operation: String, work: F) -> Result<R, StoreError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send
            + 'static,
        R: Send + 'static,
    {
        self.run_with(Commit::Durable, by, operation, work).await
    }

    /// Runs `work`: on PostgreSQL in a task of its own, which is joined, never dropped, and there on the session of the
    /// incarnation `by`, whose session is its beacon; on SQLite in one piece, on this thread.
    async fn run_with<R, F>(
        &self,
        commit: Commit,
        by: Option<Incarnation>,
        operation: String,
        work: F,
    ) -> Result<R, StoreError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send
            + 'static,
        R: Send + 'static,
    {
        let outcome = match self.database.store() {
            Store::Postgres { .. } => {
                let database = self.database.clone();
                let limit = database.shared.renew_timeout;
                let task = tokio::spawn(async move { on_server(&database, by, work).await });
                let joined = timeout(limit, task).await.map_err(|_| format!("no answer in {limit:?}"));
                joined.and_then(|ended| ended.map_err(|error| error.to_string())?)
            }
            Store::Sqlite { gate, busy, leases, renewals, .. } => match timeout(*busy, gate.enter()).await {
                Ok(_turn) => match commit {
                    Commit::Durable => leases.run(work).await,
                    Commit::Soon => renewals.run(work).await,
                },
                Err(_) => Err(format!("a writer of this process took longer than {busy:?}")),
            },
        };
        outcome.map_err(|reason| StoreError { operation, reason })
    }

    async fn register_with_lock(&self, me: Registration, names: Vec<LeaseName>) -> Result<(), StoreError> {
        let (database, limit) = (self.database.clone(), self.database.shared.renew_timeout);
        let task = tokio::spawn(async move {
            let Store::Postgres { beacons, .. } = database.store() else { return Ok(()) };
            timeout(limit, beacons.register(&me, &names))
                .await
                .map_err(|_| format!("no answer in {limit:?}"))?
        });
        let outcome = task.await.map_err(|error| error.to_string()).and_then(|outcome| outcome);
        outcome.map_err(|reason| StoreError { operation: "register".to_owned(), reason })
    }

    /// In one statement, the declaration of a `dead` holder included; only the end of a wish needs a transaction.
    async fn acquire_by_lock(
        &self,
        ask: &Ask,
        dead: Option<Incarnation>,
    ) -> Result<Option<leases::AcquiredRow>, StoreError> {
        let (operation, asked) = (format!("claim {}", ask.name), ask.clone());
        if ask.ends_wish {
            let claim = async move |session: &mut Session| {
                if let Some(who) = dead {
                    beacons::bury(session, Beaconless::One(who)).await?;
                }
                leases::acquire(session, &asked).await
            };
            return self.transact(Some(ask.me), operation, claim).await;
        }
        let claim = async move |session: &mut Session| {
            if let Some(who) = dead
                && let Some(acquired) = take_over::acquire(session, &asked, who).await?
            {
                return Ok(Some(acquired));
            }
            // Or another one declared it dead at the same moment: what that statement did not see, this one does.
            leases::acquire_at_once(session, &asked).await
        };
        self.run(Some(ask.me), operation, claim).await
    }

    /// The same in a transaction.
    pub(super) async fn transact<R, F>(
        &self,
        by: Option<Incarnation>,
        operation: String,
        work: F,
    ) -> Result<R, StoreError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send
            + 'static,
        R: Send + 'static,
    {
        self.run(by, operation, async move |session: &mut Session| session.transaction(work).await).await
    }
}

/// When a commit is on the disk. A power cut that takes a renewal back took its process, too; an epoch must not come
/// twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    /// Before it is acknowledged.
    Durable,
    /// On SQLite a little later, which spares each renewal a wait for the disk.
    Soon,
}

async fn on_server<R, F>(database: &Database, by: Option<Incarnation>, work: F) -> Result<R, String>
where
    for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
        + Work<&'r mut Session, QueryResult<R>, Running: Send>
        + Send,
{
    let Store::Postgres { beacons, leases, .. } = database.store() else {
        return Err("no server".to_owned());
    };
    if let Some(me) = by {
        return beacons.of(me)?.run(work).await;
    }
    let session = leases.get_owned().await.map_err(|error| database.shared.failure.explain(error).0)?;
    work(&mut pooled(session)).await.map_err(|error| error.to_string())
}

#[async_trait]
impl LeaseStore for SqlLeases {
    async fn register(&self, me: &Registration, names: &[LeaseName]) -> Result<(), StoreError> {
        let (me, names) = (me.clone(), names.to_vec());
        match self.database.store() {
            Store::Postgres { .. } => self.register_with_lock(me, names).await,
            Store::Sqlite { beacons, .. } => self.register_with_file(beacons, me, names).await,
        }
    }

    /// On PostgreSQL one statement, on SQLite two, however many leases and instances there are.
    async fn renew(&self, me: Incarnation) -> Result<Renewal, StoreError> {
        let rows = match self.database.store() {
            Store::Postgres { beacons: lit, .. } => {
                let renew = async move |session: &mut Session| beacons::renew(session, me).await;
                lit.renewed(me, self.run(Some(me), "renew".to_owned(), renew).await).await?
            }
            Store::Sqlite { beacons, .. } => return self.renew_with_file(beacons, me).await,
        };
        match rows {
            None => Ok(Renewal::Dead),
            Some(rows) => heartbeat(rows).map(Renewal::Alive).map_err(|reason| failed("renew", reason)),
        }
    }

    async fn declare_dead(&self, who: Incarnation, seen: i64) -> Result<bool, StoreError> {
        let by = match self.database.store() {
            Store::Postgres { beacons, .. } => beacons.present(),
            Store::Sqlite { .. } => None,
        };
        let ended = self.transact(by, format!("declare {who} dead"), async move |session: &mut Session| {
            let ended = lease_instances::end(session, who, End::Expired { seen }).await?;
            if ended {
                beacons::tell(session, format!("dead {who}")).await?;
            }
            Ok(ended)
        });
        let ended = ended.await?;
        self.after_deaths(ended.then_some(who).as_slice());
        Ok(ended)
    }

    async fn bury(&self, me: Incarnation) -> Result<Vec<Incarnation>, StoreError> {
        match self.database.store() {
            Store::Postgres { beacons: lit, .. } if lit.of(me).is_ok_and(|own| own.shines()) => {
                let buried = self.run(Some(me), "bury".to_owned(), async move |session: &mut Session| {
                    beacons::bury(session, Beaconless::Anybody).await
                });
                let buried: Result<_, String> = buried.await?.iter().map(|who| stored(who)).collect();
                buried.map_err(|reason| StoreError { operation: "bury".to_owned(), reason })
            }
            Store::Postgres { .. } => Ok(vec![]),
            Store::Sqlite { beacons, .. } => self.bury_by_file(beacons).await,
        }
    }

    async fn claim(&self, ask: &Ask) -> Result<Option<Claim>, StoreError> {
        let acquired = match self.database.store() {
            Store::Postgres { beacons: lit, .. } => {
                let Ok(own) = lit.of(ask.me) else { return Ok(None) };
                let dead = ask.beaconless.filter(|_| own.shines());
                self.acquire_by_lock(ask, dead).await?
            }
            Store::Sqlite { .. } => self.acquire_by_file(ask).await?,
        };
        Ok(acquired.map(|row| claimed(ask, row)))
    }

    async fn end_wait(&self, term: &TermId) -> Result<bool, StoreError> {
        let (operation, term) = (format!("end the wait of {}", term.name), term.clone());
        let by = Some(term.holder);
        let end = async move |session: &mut Session| leases::end_wait(session, &term).await;
        self.run(by, operation, end).await
    }

    async fn release(&self, term: &TermId, how: Release) -> Result<bool, StoreError> {
        let (operation, term) = (format!("release {}", term.name), term.clone());
        if let (Store::Postgres { .. }, Release::Free) = (self.database.store(), how) {
            let by = Some(term.holder);
            let release = async move |session: &mut Session| beacons::release(session, &term).await;
            return self.run(by, operation, release).await;
        }
        let released = self.transact(Some(term.holder), operation, async move |session: &mut Session| {
            let released = leases::release(session, &term, how).await?;
            if released {
                beacons::tell(session, format!("freed {}", term.name)).await?;
            }
            Ok(released)
        });
        let released = released.await?;
        if released && let Store::Sqlite { beacons, .. } = self.database.store() {
            beacons.touch();
        }
        Ok(released)
    }

    async fn depart(&self, me: Incarnation) -> Result<(), StoreError> {
        if let Store::Postgres { beacons, .. } = self.database.store()
            && beacons.of(me).is_err()
        {
            // It is dead, or will be as soon as somebody looks for its beacon.
            return Ok(());
        }
        let left = self.transact(Some(me), "depart".to_owned(), async move |session: &mut Session| {
            lease_instances::end(session, me, End::Left).await.map(drop)
        });
        let left = left.await;
        match self.database.store() {
            Store::Postgres { beacons, .. } => beacons.forget(me),
            Store::Sqlite { beacons, .. } if left.is_ok() => {
                beacons.put_out(me);
                beacons.touch();
            }
            Store::Sqlite { .. } => {}
        }
        left
    }

    async fn news(&self, me: Incarnation) -> News {
        match self.database.store() {
            Store::Postgres { beacons, .. } => beacons.news(me).await,
            Store::Sqlite { beacons, .. } => self.news_by_file(beacons, me).await,
        }
    }

    async fn list(&self) -> Result<Vec<LeaseView>, StoreError> {
        let rows =
            self.run(None, "list".to_owned(), async |session: &mut Session| lease_list::all(session).await);
        let views: Result<_, String> = rows.await?.into_iter().map(view).collect();
        views.map_err(|reason| StoreError { operation: "list".to_owned(), reason })
    }
}

fn failed(operation: &str, reason: impl ToString) -> StoreError {
    StoreError { operation: operation.to_owned(), reason: reason.to_string() }
}

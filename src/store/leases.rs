//! Where the leases live: the contract of `leased-actors` over either database.
//!
//! Each operation ends by itself within the renew timeout. On PostgreSQL the statement, the connection and the wait
//! for the answer are bounded; on SQLite the wait for our own writers and then for other processes' writers, half of
//! the timeout each. None is ever cut: a call that gives up leaves its statement to end on its own.

mod on_sqlite;

use std::time::Duration;

use async_trait::async_trait;
use diesel::QueryResult;
use leased_actors::lease::{
    Ask, Claim, Epoch, HandOver, Heartbeat, HolderView, Incarnation, LeaseName, LeaseRow, LeaseStore,
    LeaseView, News, Peer, Registration, Release, Renewal, StoreError, TermId,
};
use tokio::time::timeout;

use super::beacon::Mark;
use super::queries::lease_instances::{self, End};
use super::queries::{lease_list, leases};
use super::session::{Session, Work};
use super::{Database, Store};
use on_sqlite::beacons;

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
        let rows =
            self.run("list instances".to_owned(), async |s: &mut Session| lease_instances::living(s).await);
        let peer = |(incarnation, renew_seq, ttl_us): (String, i64, i64)| {
            Ok(Peer { incarnation: stored(&incarnation)?, renew_seq, ttl: duration(ttl_us) })
        };
        let peers: Result<_, String> = rows.await?.into_iter().map(peer).collect();
        peers.map_err(|reason| StoreError { operation: "list instances".to_owned(), reason })
    }

    /// Runs `work` with commits that wait for the disk.
    async fn run<R, F>(&self, operation: String, work: F) -> Result<R, StoreError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send
            + 'static,
        R: Send + 'static,
    {
        self.run_with(Commit::Durable, operation, work).await
    }

    /// Runs `work` in a task of its own, which is joined, never dropped.
    async fn run_with<R, F>(&self, commit: Commit, operation: String, work: F) -> Result<R, StoreError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send
            + 'static,
        R: Send + 'static,
    {
        let database = self.database.clone();
        let limit = database.shared.renew_timeout;
        let task = tokio::spawn(async move { in_turn(&database, commit, work).await });
        let joined = match self.database.store() {
            Store::Postgres { .. } => {
                timeout(limit, task).await.map_err(|_| format!("no answer in {limit:?}"))
            }
            Store::Sqlite { .. } => Ok(task.await),
        };
        let outcome = joined.and_then(|ended| ended.map_err(|error| error.to_string())?);
        outcome.map_err(|reason| StoreError { operation, reason })
    }

    async fn insert(&self, me: &Registration, names: &[LeaseName], mark: Mark) -> Result<(), StoreError> {
        let (me, names) = (me.clone(), names.to_vec());
        self.transact("register".to_owned(), async move |session: &mut Session| {
            lease_instances::insert(session, &me, mark).await?;
            leases::insert_missing(session, &names).await
        })
        .await
    }

    async fn raise(
        &self,
        commit: Commit,
        me: Incarnation,
    ) -> Result<Option<Vec<leases::WorldRow>>, StoreError> {
        self.run_with(commit, "renew".to_owned(), async move |session: &mut Session| {
            match lease_instances::raise(session, me).await? {
                true => leases::world(session, me).await.map(Some),
                false => Ok(None),
            }
        })
        .await
    }

    /// The same in a transaction.
    async fn transact<R, F>(&self, operation: String, work: F) -> Result<R, StoreError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send
            + 'static,
        R: Send + 'static,
    {
        self.run(operation, async move |session: &mut Session| session.transaction(work).await).await
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

async fn in_turn<R, F>(database: &Database, commit: Commit, work: F) -> Result<R, String>
where
    for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
        + Work<&'r mut Session, QueryResult<R>, Running: Send>
        + Send,
{
    let _turn = match database.store() {
        Store::Postgres { .. } => None,
        Store::Sqlite { gate, busy, .. } => {
            let turn = timeout(*busy, gate.enter()).await;
            Some(turn.map_err(|_| format!("a writer of this process took longer than {busy:?}"))?)
        }
    };
    let session = match commit {
        Commit::Durable => database.lease_session().await,
        Commit::Soon => database.renewal_session().await,
    };
    let mut session = session.map_err(|error| error.0)?;
    work(&mut session).await.map_err(|error| error.to_string())
}

#[async_trait]
impl LeaseStore for SqlLeases {
    async fn register(&self, me: &Registration, names: &[LeaseName]) -> Result<(), StoreError> {
        match beacons(&self.database) {
            Some(beacons) => self.register_with_file(beacons, me, names).await,
            None => self.insert(me, names, Mark::default()).await,
        }
    }

    /// Two statements, however many leases and instances there are.
    async fn renew(&self, me: Incarnation) -> Result<Renewal, StoreError> {
        if let Some(beacons) = beacons(&self.database) {
            return self.renew_with_file(beacons, me).await;
        }
        match self.raise(Commit::Durable, me).await? {
            None => Ok(Renewal::Dead),
            Some(rows) => heartbeat(rows).map(Renewal::Alive).map_err(|reason| failed("renew", reason)),
        }
    }

    async fn declare_dead(&self, who: Incarnation, seen: i64) -> Result<bool, StoreError> {
        let declared = self.transact(format!("declare {who} dead"), async move |session: &mut Session| {
            lease_instances::end(session, who, End::Expired { seen }).await
        });
        let declared = declared.await?;
        if declared {
            self.after_deaths(&[who]);
        }
        Ok(declared)
    }

    async fn bury(&self, _: Incarnation) -> Result<Vec<Incarnation>, StoreError> {
        match beacons(&self.database) {
            Some(beacons) => self.bury_by_file(beacons).await,
            None => Ok(vec![]),
        }
    }

    async fn claim(&self, ask: &Ask) -> Result<Option<Claim>, StoreError> {
        let acquired = match beacons(&self.database) {
            Some(_) => self.acquire_by_file(ask).await?,
            None => {
                let asked = ask.clone();
                let work = async move |session: &mut Session| leases::acquire(session, &asked).await;
                self.transact(format!("claim {}", ask.name), work).await?
            }
        };
        Ok(acquired.map(|(epoch, wait_us, death, released, gap_us)| Claim {
            term: TermId { name: ask.name.clone(), holder: ask.me, epoch: Epoch(epoch) },
            wait: duration(wait_us),
            after: HandOver { reason: reason(death.as_deref(), released), gap: duration(gap_us) },
        }))
    }

    async fn release(&self, term: &TermId, how: Release) -> Result<bool, StoreError> {
        let (operation, term) = (format!("release {}", term.name), term.clone());
        let released = self.transact(operation, async move |session: &mut Session| {
            leases::release(session, &term, how).await
        });
        let released = released.await?;
        if released {
            self.after_release();
        }
        Ok(released)
    }

    async fn depart(&self, me: Incarnation) -> Result<(), StoreError> {
        self.transact("depart".to_owned(), async move |session: &mut Session| {
            lease_instances::end(session, me, End::Left).await.map(drop)
        })
        .await?;
        self.after_departure(me);
        Ok(())
    }

    async fn news(&self, me: Incarnation) -> News {
        match beacons(&self.database) {
            Some(beacons) => self.news_by_file(beacons, me).await,
            None => std::future::pending().await,
        }
    }

    async fn list(&self) -> Result<Vec<LeaseView>, StoreError> {
        let rows = self.run("list".to_owned(), async |session: &mut Session| lease_list::all(session).await);
        let views: Result<_, String> = rows.await?.into_iter().map(view).collect();
        views.map_err(|reason| StoreError { operation: "list".to_owned(), reason })
    }
}

fn failed(operation: &str, reason: impl ToString) -> StoreError {
    StoreError { operation: operation.to_owned(), reason: reason.to_string() }
}

fn reason(death: Option<&str>, released: bool) -> &'static str {
    match death {
        Some("left") => "left",
        Some("beacon") => "beacon",
        Some(_) => "ttl",
        None if released => "released",
        None => "first",
    }
}

fn heartbeat(rows: Vec<leases::WorldRow>) -> Result<Heartbeat, String> {
    let mut heartbeat = Heartbeat::default();
    for (is_lease, id, holder, number, alive, paused, time_us, failures) in rows {
        if is_lease {
            heartbeat.leases.push(LeaseRow {
                name: stored(&id)?,
                epoch: Epoch(number),
                holder: holder.as_deref().map(stored).transpose()?,
                holder_alive: alive,
                paused,
                cool_down: duration(time_us),
                failures: u32::try_from(failures).unwrap_or(u32::MAX),
            });
        } else {
            heartbeat.peers.push(Peer {
                incarnation: stored(&id)?,
                renew_seq: number,
                ttl: duration(time_us),
            });
        }
    }
    Ok(heartbeat)
}

fn view((lease, holder): lease_list::ListRow) -> Result<LeaseView, String> {
    let (name, epoch, since_us, waits, paused, desired, cools) = lease;
    let draining = holder.as_ref().is_some_and(|(.., draining)| *draining);
    let state = match (&holder, paused) {
        (Some(_), _) if draining => "stopping",
        (Some(_), _) if waits => "waiting",
        (Some(_), _) => "running",
        (None, true) => "paused",
        (None, false) if cools => "cooling",
        (None, false) => "free",
    };
    // A dead holder is none: the row names it until somebody acquires.
    let since = since_us.filter(|_| holder.is_some()).and_then(chrono::DateTime::from_timestamp_micros);
    let holder = holder.map(|(incarnation, label, host, pid, _)| {
        let pid = u32::try_from(pid).unwrap_or_default();
        Ok::<_, String>(HolderView { incarnation: stored(&incarnation)?, label, host, pid })
    });
    Ok(LeaseView {
        name: stored(&name)?,
        epoch: Epoch(epoch),
        state,
        holder: holder.transpose()?,
        since: since.map(|at| at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)),
        paused,
        desired,
    })
}

fn stored<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| format!("a stored {}", error.to_string()))
}

fn duration(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

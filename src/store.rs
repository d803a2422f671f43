//! The only door to the database: one SQLite file, or PostgreSQL, behind the same operations and the same SQL.
//!
//! Reading order: `Database` here; [`fenced`], the only way to a writing transaction; [`tx`], what such a transaction
//! can do; [`leases`], where the leases live; `queries/`, every statement, a file per table or small family. Knows
//! nothing of any worker.
//!
//! Texts must not hold the character NUL, which PostgreSQL cannot store: `atproto` refuses it in identifiers and records.

mod apply;
pub mod backfill;
mod beacon;
pub mod billing;
mod error;
pub mod fenced;
mod holds;
pub mod labels;
mod last_failure;
pub mod leases;
mod merge;
mod migrate;
mod operators;
pub mod outbox;
mod outlook;
mod postgres;
mod queries;
mod session;
mod sqlite;
mod statement;
pub mod status;
pub mod tx;
pub mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::bb8::{Pool, PooledConnection};

use crate::atproto::Did;

pub use error::{MigrateError, OpenError, ReadError, WriteError};
pub use fenced::Fencing;
pub use holds::KnownHolds;
pub use leases::SqlLeases;
pub use merge::MERGE_ROWS_MAX;
pub use operators::{InstanceView, LeaseEvent};
pub use queries::sweeps::{REGISTRY, SWEEP_ROWS_MAX, SWEEPS, Sweep, Sweepable};
pub use session::Work;
pub use tx::{Applied, HandleFound, IdentityFound, Outcome, Tx};

use beacon::sqlite::Place;
use last_failure::LastFailure;
use session::{PostgresSession, Session, SqliteSession};
use sqlite::obstacle::Obstacle;

/// A SQLite file is read by few at once; each connection costs a thread while it works.
const SQLITE_CONNECTIONS_MAX: u32 = 4;

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// PostgreSQL: any number of machines.
    Postgres,
    /// One SQLite file: one machine.
    Sqlite,
}

/// How to open the database.
#[derive(Clone)]
pub struct Options {
    /// `sqlite://PATH` or `postgres://…`.
    pub url: String,
    /// Where the leases' session goes, if `url` leads to a pooler.
    pub direct_url: Option<String>,
    /// Connections for the workers' transactions and reads.
    pub max_connections: u32,
    /// T: each operation on leases ends within it.
    pub renew_timeout: Duration,
    /// S: no statement, and no pause inside a transaction, lasts longer.
    pub stop_within: Duration,
    /// Whether writes show a lease.
    pub fencing: Fencing,
}

/// An open database. Cheap to clone; one per process, as it also holds the order of the process's writers.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    failure: LastFailure,
    fencing: Fencing,
    renew_timeout: Duration,
}

/// The pools. Leases have one of their own, of one connection, so that no batch of a worker keeps a renewal waiting.
enum Store {
    Postgres {
        sessions: postgres::Sessions,
        work: Pool<AsyncPgConnection>,
        leases: Pool<AsyncPgConnection>,
        beacons: Box<beacon::postgres::Beacons>,
    },
    Sqlite {
        place: Arc<Place>,
        busy: Duration,
        work: Pool<SqliteSession>,
        leases: Box<sqlite::Inline>,
        renewals: Box<sqlite::Inline>,
        gate: sqlite::Gate,
        beacons: beacon::sqlite::Beacons,
    },
}

/// An account whose identity has to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityDue {
    /// Whose.
    pub did: Did,
    /// Since when (microseconds): hand it back to [`Tx::set_identity`], which leaves a later wish alone.
    pub due_at: i64,
    /// How many look-ups have failed in a row.
    pub failures: u32,
}

/// Up to where a host's stream is in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCursor {
    /// Which wire it was read by.
    pub wire: String,
    /// Host and port.
    pub host: String,
    /// The newest time (microseconds) that was read.
    pub time_us: i64,
    /// The number of the last event, where the wire numbers them. It means nothing at another host.
    pub seq: Option<i64>,
}

/// A wish to have repositories read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackfillRequest {
    /// Whose; `None`: every repository.
    pub did: Option<Did>,
    /// Why: a word.
    pub reason: String,
    /// Since when (microseconds): hand it back to [`Tx::backfill_done`], which leaves a later wish alone.
    pub asked_at: i64,
}

impl Database {
    /// Opens the database and checks that it answers. Does not migrate.
    pub async fn open(options: &Options) -> Result<Self, OpenError> {
        let failure = LastFailure::default();
        let store = if options.url.starts_with("postgres://") || options.url.starts_with("postgresql://") {
            open_postgres(options, &failure)?
        } else {
            open_sqlite(options, &failure)?
        };
        let (fencing, renew_timeout) = (options.fencing, options.renew_timeout);
        let database = Self { shared: Arc::new(Shared { store, failure, fencing, renew_timeout }) };
        database.session().await.map_err(|error| database.why_not_opened(error))?;
        if database.backend() == Backend::Postgres {
            let sessions = postgres::Sessions::new(&options.url, options.stop_within, options.stop_within)?;
            if sessions.mix_statements_up().await {
                return Err(OpenError::Pooler);
            }
        }
        Ok(database)
    }

    /// SQLite does not tell what is in its way; the file system does.
    fn why_not_opened(&self, error: ReadError) -> OpenError {
        let Store::Sqlite { place, .. } = self.store() else { return OpenError::Connect(error.0) };
        match sqlite::obstacle::of_opening(place.path()) {
            Some(Obstacle::NotADatabase(what)) => OpenError::NotADatabase(what),
            Some(Obstacle::Machine(what)) => OpenError::Connect(format!("{}: {what}", error.0)),
            None => OpenError::Connect(format!("{}: {}", place.path().display(), error.0)),
        }
    }

    /// Fails where an instance cannot work with the database though it is open: a file that only can be read, or too few
    /// descriptors for those beside it. On PostgreSQL no session begins on a server that takes no writes.
    pub fn check_usable(&self) -> Result<(), OpenError> {
        let Store::Sqlite { place, .. } = self.store() else { return Ok(()) };
        sqlite::obstacle::of_working(place.path()).map_or(Ok(()), |what| Err(OpenError::Connect(what)))
    }

    /// Which database it is.
    pub fn backend(&self) -> Backend {
        match self.store() {
            Store::Postgres { .. } => Backend::Postgres,
            Store::Sqlite { .. } => Backend::Sqlite,
        }
    }

    /// Up to where the stream of each host on each wire is in the index.
    pub async fn stream_cursors(&self) -> Result<Vec<StreamCursor>, ReadError> {
        let rows = queries::cursors::all(&mut self.session().await?).await?;
        let cursor = |(wire, host, time_us, seq)| StreamCursor { wire, host, time_us, seq };
        Ok(rows.into_iter().map(cursor).collect())
    }

    /// What has to be read again from its repository, the longest due first: a thousand wishes at most, that about every
    /// repository always among them.
    pub async fn backfill_requests(&self) -> Result<Vec<BackfillRequest>, ReadError> {
        let rows = queries::backfill_requests::all(&mut self.session().await?).await?;
        let request = |(did, reason, asked_at): (String, String, i64)| {
            let every = did == queries::backfill_requests::EVERY;
            let did = if every { None } else { Some(stored_did(&did)?) };
            Ok(BackfillRequest { did, reason, asked_at })
        };
        rows.into_iter().map(request).collect()
    }

    /// Every account that has a row, in no order.
    pub async fn known_dids(&self) -> Result<Vec<Did>, ReadError> {
        let texts = queries::users::all(&mut self.session().await?).await?;
        texts.into_iter().map(|text| stored_did(&text)).collect()
    }

    /// At most `limit` accounts whose look-up is due by the database's clock, the longest due first.
    pub async fn due_identities(&self, limit: u32) -> Result<Vec<IdentityDue>, ReadError> {
        let rows = queries::users::due(&mut self.session().await?, limit.into()).await?;
        let due = |(did, due_at, failures): (String, i64, i64)| {
            let failures = u32::try_from(failures).unwrap_or(u32::MAX);
            Ok(IdentityDue { did: stored_did(&did)?, due_at, failures })
        };
        rows.into_iter().map(due).collect()
    }

    fn store(&self) -> &Store {
        &self.shared.store
    }

    /// A session for a worker or a reader.
    async fn session(&self) -> Result<Session, ReadError> {
        match self.store() {
            Store::Postgres { work, .. } => work.get_owned().await.map(pooled),
            Store::Sqlite { work, .. } => work.get_owned().await.map(Session::Sqlite),
        }
        .map_err(|error| self.shared.failure.explain(error))
    }
}

fn pooled(connection: PooledConnection<'static, AsyncPgConnection>) -> Session {
    Session::Postgres(PostgresSession::Pooled(connection))
}

/// On leases, getting a connection and a statement have half of T each: so the server ends a statement before we give it
/// up, and its outcome is known.
fn open_postgres(options: &Options, failure: &LastFailure) -> Result<Store, OpenError> {
    let direct_url = options.direct_url.as_ref().unwrap_or(&options.url);
    let sessions = postgres::Sessions::new(&options.url, options.stop_within, options.stop_within)?;
    let direct = postgres::Sessions::new(direct_url, options.renew_timeout, options.renew_timeout / 2)?;
    Ok(Store::Postgres {
        work: sessions.pool(options.max_connections, options.stop_within, failure),
        leases: direct.pool(1, options.renew_timeout / 2, failure),
        beacons: Box::new(beacon::postgres::Beacons::new(direct.clone(), options.renew_timeout)),
        sessions: direct,
    })
}

/// A statement on leases first waits for its turn among ours, then for other processes: half of T for each.
fn open_sqlite(options: &Options, failure: &LastFailure) -> Result<Store, OpenError> {
    let path = sqlite::path(&options.url)?;
    if options.fencing == Fencing::Leased
        && let Some(file_system) = beacon::sqlite::refused(&path)
    {
        return Err(OpenError::FileSystem { path, file_system });
    }
    let place = Arc::new(Place::new(path));
    let busy = options.renew_timeout / 2;
    let size = options.max_connections.min(SQLITE_CONNECTIONS_MAX);
    Ok(Store::Sqlite {
        work: sqlite::pool(&place, size, busy, sqlite::Sync::Normal, failure),
        leases: Box::new(sqlite::Inline::new(&place, busy, sqlite::Sync::Full)),
        renewals: Box::new(sqlite::Inline::new(&place, busy, sqlite::Sync::Normal)),
        gate: sqlite::Gate::default(),
        beacons: beacon::sqlite::Beacons::new(Arc::clone(&place)),
        busy,
        place,
    })
}

fn stored_did(text: &str) -> Result<Did, ReadError> {
    Did::parse(text).map_err(|error| ReadError(format!("a stored identity {text:?}: {error}")))
}

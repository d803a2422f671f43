//! A session with either database: statements, and transactions that are never cut in two.
//!
//! Three kinds of connection run the same statements: one to a server; one to a file, each statement on a thread of the
//! runtime's blocking pool; and one to a file whose statements run at once, on the thread that asks, and never wait.

use std::ops::{Deref, DerefMut};

use diesel::connection::{AnsiTransactionManager, TransactionManager as _};
use diesel::query_dsl::methods::LoadQuery as LoadAtOnce;
use diesel::result::Error;
use diesel::{QueryResult, SqliteConnection};
use diesel_async::methods::LoadQuery;
use diesel_async::pooled_connection::PoolableConnection;
use diesel_async::pooled_connection::bb8::PooledConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, TransactionManager};

use super::statement::{Dialect, Statement, Typed};
use super::{postgres, sqlite};

/// A connection to a file.
pub(super) type SqliteSession = SyncConnectionWrapper<SqliteConnection>;

/// A pooled connection. Given back when dropped; one with a transaction still open is closed instead.
#[allow(clippy::large_enum_variant, reason = "a session is borrowed, and moved twice in its life")]
pub(super) enum Session {
    Postgres(PostgresSession),
    Sqlite(PooledConnection<'static, SqliteSession>),
    Inline(SqliteConnection),
}

/// A connection to a server: one of a pool, or one that ends with its owner.
#[allow(clippy::large_enum_variant, reason = "as above")]
pub(super) enum PostgresSession {
    Pooled(PooledConnection<'static, AsyncPgConnection>),
    Own(AsyncPgConnection),
}

impl Deref for PostgresSession {
    type Target = AsyncPgConnection;

    fn deref(&self) -> &AsyncPgConnection {
        match self {
            Self::Pooled(c) => c,
            Self::Own(c) => c,
        }
    }
}

impl DerefMut for PostgresSession {
    fn deref_mut(&mut self) -> &mut AsyncPgConnection {
        match self {
            Self::Pooled(c) => c,
            Self::Own(c) => c,
        }
    }
}

/// An async function whose future may move between threads: what `Session::transaction` and a fenced transaction
/// run. Every such function is one; nobody implements it.
///
/// The language cannot say yet that the future of an `AsyncFnOnce` is `Send`.
pub trait Work<T, R>: AsyncFnOnce(T) -> R + FnOnce(T) -> <Self as Work<T, R>>::Running {
    /// Its future.
    type Running: Future<Output = R>;
}

impl<F, T, Running, R> Work<T, R> for F
where
    F: AsyncFnOnce(T) -> R + FnOnce(T) -> Running,
    Running: Future<Output = R>,
{
    type Running = Running;
}

impl Session {
    fn dialect(&self) -> &'static Dialect {
        match self {
            Session::Postgres(_) => &postgres::DIALECT,
            Session::Sqlite(_) | Session::Inline(_) => &sqlite::DIALECT,
        }
    }

    /// Whether others may write during our transactions.
    pub(super) fn has_other_writers(&self) -> bool {
        matches!(self, Session::Postgres(_))
    }

    /// Whether no further statement can succeed on it.
    pub(super) fn is_broken(&mut self) -> bool {
        match self {
            Session::Postgres(c) => c.is_broken(),
            Session::Sqlite(c) => c.is_broken(),
            Session::Inline(c) => sqlite::is_broken(c),
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub(super) async fn execute(&mut self, statement: Statement) -> QueryResult<usize> {
        let statement = statement.spoken(self.dialect());
        match self {
            Session::Postgres(c) => statement.execute(&mut **c).await,
            Session::Sqlite(c) => c.spawn_blocking(|c| sqlite::execute(c, statement)).await,
            Session::Inline(c) => sqlite::execute(c, statement),
        }
    }

    /// Runs a statement and returns its rows, whose columns have the SQL types `ST`.
    pub(super) async fn load<ST, T>(&mut self, statement: Statement) -> QueryResult<Vec<T>>
    where
        T: Send + 'static,
        ST: Send + 'static,
        Typed<ST>: LoadQuery<'static, AsyncPgConnection, T> + LoadAtOnce<'static, SqliteConnection, T>,
    {
        let statement = statement.spoken(self.dialect());
        match self {
            Session::Postgres(c) => statement.typed::<ST>().load(&mut **c).await,
            Session::Sqlite(c) => c.spawn_blocking(|c| sqlite::load::<ST, T>(c, statement)).await,
            Session::Inline(c) => sqlite::load::<ST, T>(c, statement),
        }
    }

    /// As [`Session::load`], for a statement that returns at most one row.
    pub(super) async fn first<ST, T>(&mut self, statement: Statement) -> QueryResult<Option<T>>
    where
        T: Send + 'static,
        ST: Send + 'static,
        Typed<ST>: LoadQuery<'static, AsyncPgConnection, T> + LoadAtOnce<'static, SqliteConnection, T>,
    {
        Ok(self.load::<ST, T>(statement).await?.into_iter().next())
    }

    /// Opens a transaction; on SQLite as the writer, at once (a later upgrade fails under contention).
    pub(super) async fn begin(&mut self) -> QueryResult<()> {
        match self {
            Session::Postgres(c) => Manager::<AsyncPgConnection>::begin_transaction(&mut **c).await,
            Session::Sqlite(c) => c.spawn_blocking(sqlite::begin_immediate).await,
            Session::Inline(c) => sqlite::begin_immediate(c),
        }
    }

    /// Ends the transaction: with a commit if `outcome` is a success.
    pub(super) async fn end<R, E: From<Error>>(&mut self, outcome: Result<R, E>) -> Result<R, E> {
        match (outcome, self) {
            (Ok(value), Session::Postgres(c)) => {
                Manager::<AsyncPgConnection>::commit_transaction(&mut **c).await?;
                Ok(value)
            }
            (Ok(value), Session::Sqlite(c)) => {
                Manager::<SqliteSession>::commit_transaction(&mut **c).await?;
                Ok(value)
            }
            (Ok(value), Session::Inline(c)) => {
                AnsiTransactionManager::commit_transaction(c)?;
                Ok(value)
            }
            // The first error is the one to tell. A connection that cannot roll back is not given back to the pool.
            (Err(error), Session::Postgres(c)) => {
                let _ = Manager::<AsyncPgConnection>::rollback_transaction(&mut **c).await;
                Err(error)
            }
            (Err(error), Session::Sqlite(c)) => {
                let _ = Manager::<SqliteSession>::rollback_transaction(&mut **c).await;
                Err(error)
            }
            (Err(error), Session::Inline(c)) => {
                let _ = AnsiTransactionManager::rollback_transaction(c);
                Err(error)
            }
        }
    }

    /// Runs `work` in a transaction. Not cancel-safe: only to be called from a task that runs to its end.
    pub(super) async fn transaction<R, F>(&mut self, work: F) -> QueryResult<R>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send,
    {
        self.begin().await?;
        let outcome = work(self).await;
        self.end(outcome).await
    }
}

type Manager<C> = <C as AsyncConnection>::TransactionManager;

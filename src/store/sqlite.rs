//! One SQLite file: how a connection is set up, and who writes when.

mod inline;
pub(super) mod obstacle;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::query_dsl::methods::LoadQuery;
use diesel::{ConnectionError, ConnectionResult, QueryResult, RunQueryDsl, SqliteConnection};
use diesel_async::pooled_connection::bb8::Pool;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use diesel_async::{AsyncConnection, SimpleAsyncConnection};
use futures_util::FutureExt;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, sleep_until};

use super::beacon::sqlite::Place;
use super::error::OpenError;
use super::last_failure::LastFailure;
use super::session::SqliteSession;
use super::statement::{Dialect, Statement, Typed};

pub(super) use inline::Inline;

/// SQLite's words. Writers are alone, so they need no row locks; texts are ordered by their bytes anyway.
pub(super) const DIALECT: Dialect = Dialect {
    words: [
        ("{now_us}", "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)"),
        ("{greatest}", "MAX"),
        ("{bytes}", ""),
        ("{for_share}", ""),
    ],
};

/// Between two fenced batches of a process. SQLite's busy handler is unfair: beside a writer of back-to-back batches
/// another process's renewal took 1.4 s at the 99th percentile, with this gap 10 ms. At half of it the handler's sleeps
/// begin to miss the gap; at double, half of the throughput of small batches is gone for nothing.
const BATCH_GAP: Duration = Duration::from_millis(20);

/// Pages of 4 KiB in the write-ahead log after which a commit carries them into the file, and waits for the disk three times.
/// With SQLite's own 1,000 that is each batch of 500 records; with 4,000 such batches were 1.3 times as fast. At double
/// little is gained, and the log takes 32 MiB.
const CHECKPOINT_PAGES: u32 = 4_000;

/// Short against any busy time, long against the cost of opening a file.
const CONNECT_POLL_EVERY: Duration = Duration::from_millis(20);

/// How a connection syncs: a batch that a power cut takes back is replayed from its cursor, an epoch is not.
#[derive(Clone, Copy)]
pub(super) enum Sync {
    Normal,
    Full,
}

/// The path in `sqlite://PATH`.
pub(super) fn path(url: &str) -> Result<PathBuf, OpenError> {
    let path = url.strip_prefix("sqlite://").unwrap_or_default();
    let in_memory = path.is_empty() || path.contains(":memory:") || path.starts_with("file:");
    if in_memory || path.contains('?') {
        let expected = "expected sqlite://PATH, the path of a file, without parameters";
        return Err(OpenError::Url { reason: expected.to_owned() });
    }
    Ok(PathBuf::from(path))
}

/// A pool of connections to the file, made when they are needed.
pub(super) fn pool(
    place: &Arc<Place>,
    size: u32,
    busy: Duration,
    sync: Sync,
    failure: &LastFailure,
) -> Pool<SqliteSession> {
    let (place, failure) = (Arc::clone(place), failure.clone());
    let url = place.path().to_string_lossy().into_owned();
    let mut config = ManagerConfig::default();
    config.recycling_method = RecyclingMethod::Fast;
    config.custom_setup = Box::new(move |_| {
        let (place, failure) = (Arc::clone(&place), failure.clone());
        async move { failure.note(connect(&place, busy, sync).await) }.boxed()
    });
    let manager = AsyncDieselConnectionManager::new_with_config(url, config);
    Pool::builder()
        .max_size(size)
        .connection_timeout(busy)
        .idle_timeout(None)
        .max_lifetime(None)
        .build_unchecked(manager)
}

/// One connection. Of several processes that make a new file at once, some are told that it is locked, without any wait
/// of SQLite's own; so all failures are tried again for a while.
pub(super) async fn connect(place: &Place, busy: Duration, sync: Sync) -> ConnectionResult<SqliteSession> {
    let give_up = Instant::now() + busy / 2;
    loop {
        match connect_once(place, busy, sync).await {
            Err(_) if Instant::now() < give_up => sleep(CONNECT_POLL_EVERY).await,
            outcome => return outcome,
        }
    }
}

/// The busy timeout comes first, so that the other settings wait for a writer, too. All connections are to one file.
async fn connect_once(place: &Place, busy: Duration, sync: Sync) -> ConnectionResult<SqliteSession> {
    let mut session = SqliteSession::establish(&place.path().to_string_lossy()).await?;
    let settings = settings(busy, sync);
    session.batch_execute(&settings).await.map_err(ConnectionError::CouldntSetupConfiguration)?;
    place.opened().map_err(|error| ConnectionError::BadConnection(error.to_string()))?;
    Ok(session)
}

fn settings(busy: Duration, sync: Sync) -> String {
    let sync = match sync {
        Sync::Normal => "NORMAL",
        Sync::Full => "FULL",
    };
    format!(
        "PRAGMA busy_timeout = {}; PRAGMA journal_mode = WAL; PRAGMA synchronous = {sync}; PRAGMA foreign_keys = ON;
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};",
        busy.as_millis()
    )
}

/// Becomes the one writer of the file, or fails after the busy time.
pub(super) fn begin_immediate(connection: &mut SqliteConnection) -> QueryResult<()> {
    AnsiTransactionManager::begin_transaction_sql(connection, "BEGIN IMMEDIATE")
}

/// Runs a statement, each of its rows if it goes by rows, and returns how many rows it changed.
pub(super) fn execute(connection: &mut SqliteConnection, statement: Statement) -> QueryResult<usize> {
    statement.one_by_one().try_fold(0, |sum, one| Ok(sum + one.execute(connection)?))
}

/// The same, and returns its rows.
pub(super) fn load<ST, T>(connection: &mut SqliteConnection, statement: Statement) -> QueryResult<Vec<T>>
where
    Typed<ST>: LoadQuery<'static, SqliteConnection, T>,
{
    let mut rows = Vec::new();
    for one in statement.one_by_one() {
        rows.extend(one.typed::<ST>().load::<T>(connection)?);
    }
    Ok(rows)
}

/// Whether a transaction is left open on it.
pub(super) fn is_broken(connection: &mut SqliteConnection) -> bool {
    let status = AnsiTransactionManager::transaction_manager_status_mut(connection);
    !matches!(status.transaction_depth(), Ok(None))
}

/// The order of this process's writers: each waits its turn, and batches leave a gap in which renewals, and other
/// processes, come through.
#[derive(Debug, Default)]
pub(super) struct Gate {
    turn: Mutex<()>,
    /// When the last batch ended. Held during a batch.
    batch: Mutex<Option<Instant>>,
}

/// The turn of a batch; its end starts the gap.
pub(super) struct BatchTurn<'a> {
    _turn: MutexGuard<'a, ()>,
    ended: MutexGuard<'a, Option<Instant>>,
}

impl Gate {
    /// Waits for the turn of a lease statement.
    pub(super) async fn enter(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Waits until a fenced batch is the next one, [`BATCH_GAP`] after the last. Only then it takes a session: many that
    /// wait with one each would leave none to those who read.
    pub(super) async fn line_up(&self) -> MutexGuard<'_, Option<Instant>> {
        let ended = self.batch.lock().await;
        if let Some(ended) = *ended {
            sleep_until(ended + BATCH_GAP).await;
        }
        ended
    }

    /// Waits for the turn of the next fenced batch.
    pub(super) async fn enter_batch<'a>(
        &'a self,
        lined_up: MutexGuard<'a, Option<Instant>>,
    ) -> BatchTurn<'a> {
        BatchTurn { _turn: self.turn.lock().await, ended: lined_up }
    }
}

impl Drop for BatchTurn<'_> {
    fn drop(&mut self) {
        *self.ended = Some(Instant::now());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_path_of_a_file_is_taken() {
        assert_eq!(path("sqlite://atcr.db").unwrap(), PathBuf::from("atcr.db"));
        assert_eq!(path("sqlite:///var/lib/atcr.db").unwrap(), PathBuf::from("/var/lib/atcr.db"));
        for bad in ["sqlite://", "sqlite://:memory:", "sqlite://a.db?mode=ro", "sqlite://file:x", "mysql://x"]
        {
            assert!(path(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_comes_through_between_two_batches() {
        let gate = Gate::default();
        let start = Instant::now();
        drop(gate.enter_batch(gate.line_up().await).await);
        drop(gate.enter().await);
        assert_eq!(start.elapsed(), Duration::ZERO);
        drop(gate.enter_batch(gate.line_up().await).await);
        assert!(start.elapsed() >= BATCH_GAP);
    }
}

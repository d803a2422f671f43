//! The connections for leases: an operation runs as a whole on the thread that asks for it, however many statements it
//! has. Every crossing to another thread and back costs a hand-over two wake-ups, which are dearer than its statements.

use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::{Connection, ConnectionError, ConnectionResult, QueryResult, SqliteConnection};
use futures_util::FutureExt;
use tokio::sync::Mutex;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use super::{CONNECT_POLL_EVERY, Place, Sync, settings};
use crate::store::session::{Session, Work};

/// One connection, made when it is needed.
pub(in crate::store) struct Inline {
    place: Arc<Place>,
    busy: Duration,
    sync: Sync,
    session: Mutex<Option<Session>>,
}

impl Inline {
    /// To the file of `place`; each operation waits at most `busy` for other processes' writers.
    pub(in crate::store) fn new(place: &Arc<Place>, busy: Duration, sync: Sync) -> Self {
        Self { place: Arc::clone(place), busy, sync, session: Mutex::default() }
    }

    /// Runs `work`, which does nothing but statements, in its turn. Cancel-safe: it never begins, or runs to its end.
    /// The runtime must have several threads, as it goes on without this one.
    pub(in crate::store) async fn run<R, F>(&self, work: F) -> Result<R, String>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send,
    {
        let mut place = self.session.lock().await;
        let mut session = match place.take() {
            Some(session) => session,
            None => Session::Inline(self.connect().await.map_err(|error| error.to_string())?),
        };
        let outcome = block_in_place(|| {
            work(&mut session).now_or_never().expect("its statements run at once, and it awaits nothing else")
        });
        // Neither one that panicked nor one with an open transaction is used again.
        if !session.is_broken() {
            *place = Some(session);
        }
        outcome.map_err(|error| error.to_string())
    }

    /// As [`super::connect`].
    async fn connect(&self) -> ConnectionResult<SqliteConnection> {
        let give_up = Instant::now() + self.busy / 2;
        loop {
            match block_in_place(|| self.connect_once()) {
                Err(_) if Instant::now() < give_up => sleep(CONNECT_POLL_EVERY).await,
                outcome => return outcome,
            }
        }
    }

    fn connect_once(&self) -> ConnectionResult<SqliteConnection> {
        let mut connection = SqliteConnection::establish(&self.place.path().to_string_lossy())?;
        let settings = settings(self.busy, self.sync);
        connection.batch_execute(&settings).map_err(ConnectionError::CouldntSetupConfiguration)?;
        self.place.opened().map_err(|error| ConnectionError::BadConnection(error.to_string()))?;
        Ok(connection)
    }
}

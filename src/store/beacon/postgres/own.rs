//! One incarnation's session, with what watches the others for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel::QueryResult;
use leased_actors::lease::{Incarnation, News, ProcessId, Registration};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{LOST, listen, ring};
use crate::store::postgres::Sessions;
use crate::store::queries::beacons::BeatRow;
use crate::store::queries::leases::WorldRow;
use crate::store::session::{Session, Work};

/// News that wait to be read. More are lost, which they may be: whoever is so far behind looks at everything anyway.
const NEWS_MAX: usize = 64;

/// Without a beacon nothing is told either, so the rows are looked at. At half of it the statements of an idle instance
/// pass 8 a second; at double, a release is noticed half a second late.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What an incarnation has while it is registered.
pub(in crate::store) struct Beacon {
    process: ProcessId,
    /// None: TTL only.
    key: Option<i64>,
    limit: Duration,
    session: tokio::sync::Mutex<Option<Session>>,
    lost: AtomicBool,
    /// Who else has a beacon, as the last renewal showed it.
    peers: watch::Sender<Vec<ring::Lit>>,
    news: tokio::sync::Mutex<mpsc::Receiver<News>>,
    watchers: Mutex<JoinSet<()>>,
}

impl Beacon {
    /// With a lock that was `taken`, by its key and the backend that has it, it watches the others, too.
    pub(super) fn new(
        sessions: &Sessions,
        limit: Duration,
        me: &Registration,
        session: Session,
        taken: Option<(i64, i64)>,
    ) -> Self {
        let (news, heard) = mpsc::channel(NEWS_MAX);
        let (peers, seen) = watch::channel(Vec::new());
        let mut watchers = JoinSet::new();
        if let Some((_, pid)) = taken {
            watchers.spawn(listen::listen(sessions.unhurried(), pid, news.clone()));
            watchers.spawn(ring::watch(sessions.unhurried(), me.incarnation, seen, news));
        }
        Self {
            process: me.process,
            key: taken.map(|(key, _)| key),
            limit,
            session: tokio::sync::Mutex::new(Some(session)),
            lost: AtomicBool::new(false),
            peers,
            news: tokio::sync::Mutex::new(heard),
            watchers: Mutex::new(watchers),
        }
    }

    pub(super) fn process(&self) -> ProcessId {
        self.process
    }

    /// Waits for news. Cancel-safe.
    pub(super) async fn news(&self) -> News {
        if self.key.is_none() {
            sleep(LOOK_EVERY).await;
            return News::Look;
        }
        match self.news.lock().await.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Whether others can see this beacon, and it theirs.
    pub(in crate::store) fn shines(&self) -> bool {
        self.key.is_some()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Runs `work` on the session, in its turn. A session that breaks is lost for good; so is one that does not answer
    /// in twice the limit, as its server hangs while its lock does not end.
    pub(in crate::store) async fn run<R, F>(self: Arc<Self>, work: F) -> Result<R, String>
    where
        for<'r> F: AsyncFnOnce(&'r mut Session) -> QueryResult<R>
            + Work<&'r mut Session, QueryResult<R>, Running: Send>
            + Send,
    {
        let mut place = self.session.lock().await;
        let session = place.as_mut().ok_or(LOST)?;
        let reason = match timeout(self.limit * 2, work(session)).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) if !session.is_broken() => return Err(error.to_string()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {:?}", self.limit * 2),
        };
        *place = None;
        self.lost.store(true, Ordering::Release);
        tracing::warn!(reason, "this instance's database session is lost, and its beacon with it");
        Err(reason)
    }

    /// Keeps what a renewal shows of other beacons, for the ring.
    pub(super) fn see(&self, me: Incarnation, rows: Vec<BeatRow>) -> Vec<WorldRow> {
        let lit = |((is_lease, id, ..), key): &BeatRow| {
            let who = id.parse().ok().filter(|who| !is_lease && *who != me)?;
            Some(ring::Lit { who, key: (*key)? })
        };
        let mut peers: Vec<_> = rows.iter().filter_map(lit).collect();
        peers.sort_unstable();
        self.peers.send_if_modified(|old| {
            let moved = *old != peers;
            *old = peers;
            moved
        });
        rows.into_iter().map(|(row, _)| row).collect()
    }

    /// Ends what watches, and closes the session unless a statement is under way, which is bounded and does it then.
    pub(super) fn put_out(&self) {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        self.lost.store(true, Ordering::Release);
        if let Ok(mut session) = self.session.try_lock() {
            *session = None;
        }
    }
}

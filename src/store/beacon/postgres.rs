//! The beacon on PostgreSQL: an advisory lock on a session of the incarnation's own. It is never unlocked, only closed.
//!
//! Every statement of the incarnation goes through that session, one at a time, so that each reply proves the session.
//! Beside it two connections only watch: [`listen`] hears what others tell, [`ring`] waits for the end of the next
//! instance's beacon. All end with the incarnation, which [`own`] keeps together.

mod listen;
mod own;
mod ring;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use diesel_async::SimpleAsyncConnection;
use leased_actors::lease::{Incarnation, LeaseName, News, Registration};
use tokio::time::timeout;

use super::Mark;
use crate::store::postgres::{READ_ONLY, Sessions};
use crate::store::queries::beacons::{self, Beaconless, BeatRow};
use crate::store::queries::leases::WorldRow;
use crate::store::queries::{lease_instances, leases, rehearsal};
use crate::store::session::{PostgresSession, Session};

use own::Beacon;

/// Pauses between attempts to reach a server that is away: from here, doubling.
const RETRY_MIN: Duration = Duration::from_millis(100);

/// ... to here: at double, a server that is back is noticed a second late; at half, many instances keep it busy.
const RETRY_MAX: Duration = Duration::from_secs(1);

const POOLER: &str =
    "database.url leads to a pooler in transaction mode, which breaks session locks: set database.direct_url";

const HIDDEN: &str = "this server has no advisory locks, or does not show them in pg_locks";

const LOST: &str = "this instance is not registered, or its session is lost";

/// The beacons of this process: one, or for a moment two.
pub(in crate::store) struct Beacons {
    sessions: Sessions,
    /// T.
    limit: Duration,
    /// Set, once and with a word in the log, where the server does not tell its timeline.
    no_timeline: OnceLock<()>,
    /// Set, once and with a word in the log, where a lock proves nothing: the TTL alone must do.
    ttl_only: OnceLock<()>,
    lit: Mutex<BTreeMap<Incarnation, Arc<Beacon>>>,
}

impl Beacons {
    pub(in crate::store) fn new(sessions: Sessions, limit: Duration) -> Self {
        Self {
            sessions,
            limit,
            no_timeline: OnceLock::new(),
            ttl_only: OnceLock::new(),
            lit: Mutex::default(),
        }
    }

    /// Connects, takes the lock, and inserts the row, in this order and on one session. What this process was before is
    /// over: it is declared dead, so that its leases can be claimed again at once.
    pub(in crate::store) async fn register(
        &self,
        me: &Registration,
        names: &[LeaseName],
    ) -> Result<(), String> {
        let mut session = self.connect().await?;
        let taken = self.light(&mut session).await?;
        let timeline = self.timeline(&mut session).await;
        let mark = Mark { key: taken.map(|(key, _)| key), file: None, timeline };
        let (row, names) = (me.clone(), names.to_vec());
        let inserted = session.transaction(async move |session: &mut Session| {
            beacons::bury(session, Beaconless::Before(row.process)).await?;
            lease_instances::insert(session, &row, mark).await?;
            leases::insert_missing(session, &names).await
        });
        inserted.await.map_err(|error| error.to_string())?;
        if let Err(error) = rehearsal::rehearse(&mut session, me.incarnation).await {
            tracing::debug!(%error, "the first claim and release will be slower");
        }
        let beacon = Arc::new(Beacon::new(&self.sessions, self.limit, me, session, taken));
        let mut lit = self.lit();
        lit.retain(|_, old| {
            let stays = old.process() != me.process;
            if !stays {
                old.put_out();
            }
            stays
        });
        lit.insert(me.incarnation, beacon);
        Ok(())
    }

    /// The beacon of an incarnation that is registered and has not lost its session.
    pub(in crate::store) fn of(&self, me: Incarnation) -> Result<Arc<Beacon>, &'static str> {
        self.lit().get(&me).cloned().ok_or(LOST)
    }

    /// The incarnation of this process that is registered, if one is.
    pub(in crate::store) fn present(&self) -> Option<Incarnation> {
        self.lit().keys().next().copied()
    }

    /// What a renewal's answer means. None: the incarnation is dead or has lost its session, and this is the end of it.
    pub(in crate::store) async fn renewed<E>(
        &self,
        me: Incarnation,
        answer: Result<Vec<BeatRow>, E>,
    ) -> Result<Option<Vec<WorldRow>>, E> {
        let Ok(beacon) = self.of(me) else { return Ok(None) };
        match answer {
            Ok(rows) if rows.is_empty() => self.examine(me, &beacon).await,
            Ok(rows) => return Ok(Some(beacon.see(me, rows))),
            Err(_) if beacon.is_lost() => {}
            Err(error) => return Err(error),
        }
        self.forget(me);
        Ok(None)
    }

    /// Closes the session of an incarnation that is over, and ends what watches for it.
    pub(in crate::store) fn forget(&self, me: Incarnation) {
        if let Some(beacon) = self.lit().remove(&me) {
            beacon.put_out();
        }
    }

    /// Waits for news. Cancel-safe.
    pub(in crate::store) async fn news(&self, me: Incarnation) -> News {
        let Ok(beacon) = self.of(me) else { return std::future::pending().await };
        beacon.news().await
    }

    async fn connect(&self) -> Result<Session, String> {
        let mut session = self.sessions.connect().await.map_err(|error| error.to_string())?;
        // Its few statements are always the same, so each is planned once, not whenever somebody waits for it. Servers
        // before version 12 do not know the setting.
        let _ = session.batch_execute("SET plan_cache_mode = force_generic_plan").await;
        Ok(Session::Postgres(PostgresSession::Own(session)))
    }

    /// The server's timeline, or 0 if it does not say: then epochs rise by its clock alone.
    async fn timeline(&self, session: &mut Session) -> i64 {
        match beacons::timeline(session).await {
            Ok(timeline) => timeline.unwrap_or_default(),
            Err(error) => {
                if self.no_timeline.set(()).is_ok() {
                    tracing::warn!(%error, "the server does not tell its timeline: after a fail-over, epochs rise by its clock alone");
                }
                0
            }
        }
    }

    /// Takes a lock on a new key; returns the key and the backend that has it. None: locks prove nothing here.
    async fn light(&self, session: &mut Session) -> Result<Option<(i64, i64)>, String> {
        let failed = |error: diesel::result::Error| error.to_string();
        let server = beacons::server(session).await.map_err(failed)?;
        let server = server.ok_or("the server did not say what it is")?;
        if server.read_only {
            return Err(READ_ONLY.to_owned());
        }
        if !server.shows_locks {
            self.go_without(HIDDEN);
        }
        if self.ttl_only.get().is_some() {
            return Ok(None);
        }
        let key = i64::from_be_bytes(rand::random()) & (i64::MAX >> 1);
        let taken = beacons::take(session, key).await.map_err(failed)?;
        let own = beacons::own(session, key).await.map_err(failed)?;
        match (taken, own) {
            (Some((pid, true)), Some((same, true))) if pid == same => return Ok(Some((key, pid))),
            (Some((pid, _)), Some((other, _))) if pid != other => self.go_without(POOLER),
            _ => self.go_without(HIDDEN),
        }
        Ok(None)
    }

    /// After a renewal that raised nothing: if the row lives, it is the lock that was not there.
    async fn examine(&self, me: Incarnation, beacon: &Arc<Beacon>) {
        let look = async move |session: &mut Session| lease_instances::lives(session, me).await;
        if let Ok(Ok(true)) = timeout(self.limit, beacon.clone().run(look)).await {
            self.go_without(POOLER);
        }
    }

    fn go_without(&self, why: &'static str) {
        if self.ttl_only.set(()).is_ok() {
            tracing::warn!("{why}. Going on with the TTL only: a crash is noticed when it has passed");
        }
    }

    fn lit(&self) -> MutexGuard<'_, BTreeMap<Incarnation, Arc<Beacon>>> {
        self.lit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Beacons on PostgreSQL: advisory locks in `pg_locks`, and `lease_instance` measured by them. SQLite never sees these.
//!
//! A statement reads `pg_locks` after it took its snapshot, and a row is inserted after its lock was taken: so the lock
//! of a row that a statement sees is gone only if its session is.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};
use leased_actors::lease::{Incarnation, ProcessId, TermId};

use super::leases::{self, WISHED, WorldColumns, WorldRow};
use crate::store::session::Session;
use crate::store::statement::Statement;

/// Where releases and deaths are told: `freed NAME`, `dead INCARNATION`.
pub(in crate::store) const CHANNEL: &str = "atcr_lease";

/// The lock of `i.beacon_key`, as a beacon takes it: exclusive, by two numbers, in this database.
pub(super) const LOCK: &str = "SELECT 1 FROM pg_locks k
    WHERE k.locktype = 'advisory' AND k.mode = 'ExclusiveLock' AND k.granted AND k.objsubid = 2
    AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND k.classid::BIGINT = i.beacon_key >> 32 AND k.objid::BIGINT = i.beacon_key & 4294967295";

/// What a server lets a session do.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Server {
    /// A hot standby, or `default_transaction_read_only`.
    pub(in crate::store) read_only: bool,
    /// It has advisory locks, and shows whose they are.
    pub(in crate::store) shows_locks: bool,
}

/// Who an instance finds dead.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum Beaconless {
    /// Whoever has a beacon in its row and none in fact. A row without one is left to its TTL.
    Anybody,
    /// The same, if it is this one.
    One(Incarnation),
    /// Whatever this process was before: it lost that session, whether the server knows it yet or not.
    Before(ProcessId),
}

/// What the server lets this session do. (On a hot standby advisory locks *succeed*.)
pub(in crate::store) async fn server(session: &mut Session) -> QueryResult<Option<Server>> {
    let select = Statement::new(
        "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
                to_regprocedure('pg_try_advisory_lock(integer, integer)') IS NOT NULL
                AND has_table_privilege('pg_catalog.pg_locks', 'SELECT')",
    );
    let row = session.first::<(Bool, Bool), (bool, bool)>(select).await?;
    Ok(row.map(|(read_only, shows_locks)| Server { read_only, shows_locks }))
}

/// The server's timeline, from the name of the file that it writes to. None: it does not say.
pub(in crate::store) async fn timeline(session: &mut Session) -> QueryResult<Option<i64>> {
    let select = Statement::new(
        "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::BIT(32)::BIGINT",
    );
    session.first::<BigInt, i64>(select).await
}

/// Takes the lock, for as long as the session lasts. Returns the backend's process, and whether it was free.
pub(in crate::store) async fn take(session: &mut Session, key: i64) -> QueryResult<Option<(i64, bool)>> {
    let (high, low) = halves(key);
    let select =
        Statement::new("SELECT pg_backend_pid()::BIGINT, pg_try_advisory_lock(?::INTEGER, ?::INTEGER)");
    session.first::<(BigInt, Bool), (i64, bool)>(select.bind(high).bind(low)).await
}

/// The backend's process, and whether `pg_locks` shows the lock as its own.
pub(in crate::store) async fn own(session: &mut Session, key: i64) -> QueryResult<Option<(i64, bool)>> {
    let select = format!(
        "SELECT pg_backend_pid()::BIGINT, EXISTS ({LOCK} AND k.pid = pg_backend_pid())
         FROM (SELECT ?::BIGINT AS beacon_key) i"
    );
    session.first::<(BigInt, Bool), (i64, bool)>(Statement::new(&select).bind(key)).await
}

/// Waits until the lock is free, and leaves it so.
pub(in crate::store) async fn wait_for(session: &mut Session, key: i64) -> QueryResult<()> {
    let (high, low) = halves(key);
    let select = Statement::new("SELECT pg_advisory_xact_lock_shared(?::INTEGER, ?::INTEGER)");
    session.execute(select.bind(high).bind(low)).await?;
    Ok(())
}

/// A row of the world, and the beacon key of the peer in it.
pub(in crate::store) type BeatRow = (WorldRow, Option<i64>);

/// Raises `renew_seq` unless `me` is dead or its lock is not this very backend's, and reads the world as it was before:
/// one statement, so that one reply proves session, lock and row. No rows: nothing was raised.
pub(in crate::store) async fn renew(session: &mut Session, me: Incarnation) -> QueryResult<Vec<BeatRow>> {
    let renew = format!(
        "WITH me AS (
             UPDATE lease_instance i SET renew_seq = i.renew_seq + 1, renewed_at = {{now_us}}
             WHERE i.incarnation = ? AND i.state <> 'dead'
             AND (i.beacon_key IS NULL OR EXISTS ({LOCK} AND k.pid = pg_backend_pid()))
             RETURNING i.process)
         SELECT TRUE, l.name, l.holder, l.epoch, h.incarnation IS NOT NULL, COALESCE(w.paused, FALSE),
                COALESCE(GREATEST(0, c.until - {{now_us}}), 0), COALESCE(c.failures, 0), {WISHED}, NULL::BIGINT
         FROM me CROSS JOIN lease l
         LEFT JOIN lease_instance h ON h.incarnation = l.holder AND h.state <> 'dead'
         LEFT JOIN lease_wish w ON w.name = l.name
         LEFT JOIN lease_cooldown c ON c.name = l.name AND c.process = me.process
         UNION ALL
         SELECT FALSE, p.incarnation, NULL, p.renew_seq, p.state = 'up', FALSE, p.ttl_us, 0, NULL, p.beacon_key
         FROM me CROSS JOIN lease_instance p WHERE p.state <> 'dead'"
    );
    let renew = Statement::new(&renew).bind(me.to_string());
    session.load::<(WorldColumns, Nullable<BigInt>), BeatRow>(renew).await
}

/// Declares dead whoever is without a beacon, notes it for their leases, tells it, and returns them.
pub(in crate::store) async fn bury(session: &mut Session, whom: Beaconless) -> QueryResult<Vec<String>> {
    let gone = format!("i.beacon_key IS NOT NULL AND NOT EXISTS ({LOCK})");
    let (which, value) = match whom {
        Beaconless::Anybody => (gone, None),
        Beaconless::One(who) => (format!("i.incarnation = ? AND {gone}"), Some(who.to_string())),
        Beaconless::Before(process) => ("i.process = ?".to_owned(), Some(process.to_string())),
    };
    let bury = format!(
        "WITH gone AS (
             UPDATE lease_instance i SET state = 'dead', dead_reason = 'beacon', dead_at = {{now_us}}
             WHERE i.state <> 'dead' AND {which}
             RETURNING i.incarnation),
         noted AS (
             INSERT INTO lease_event (id, at, name, epoch, incarnation, what)
             SELECT ? || '-' || l.name, {{now_us}}, l.name, l.epoch, l.holder, 'beacon lost'
             FROM gone JOIN lease l ON l.holder = gone.incarnation)
         SELECT incarnation || pg_notify('{CHANNEL}', 'dead ' || incarnation)::TEXT FROM gone"
    );
    let bury = value.into_iter().fold(Statement::new(&bury), Statement::bind);
    session.load::<Text, String>(bury.bind(leases::event_id())).await
}

/// Releases the whole term, if it still is this one, notes it, ends a cool-down and tells everybody: one statement, so
/// that a successor waits for one round trip. False: it was not this term's any more.
pub(in crate::store) async fn release(session: &mut Session, term: &TermId) -> QueryResult<bool> {
    let release = format!(
        "WITH freed AS (
             UPDATE lease SET holder = NULL, since = NULL, freed_at = {{now_us}}
             WHERE name = ? AND holder = ? AND epoch = ?
             RETURNING name, epoch),
         noted AS (
             INSERT INTO lease_event (id, at, name, epoch, incarnation, what)
             SELECT ?, {{now_us}}, name, epoch, ?, 'released' FROM freed),
         warm AS (
             DELETE FROM lease_cooldown c USING freed, lease_instance i
             WHERE c.name = freed.name AND c.process = i.process AND i.incarnation = ?)
         SELECT name || pg_notify('{CHANNEL}', 'freed ' || name)::TEXT FROM freed"
    );
    let holder = term.holder.to_string();
    let release = Statement::new(&release).bind(term.name.as_str()).bind(&holder).bind(term.epoch.0);
    let release = release.bind(leases::event_id()).bind(&holder).bind(&holder);
    Ok(session.first::<Text, String>(release).await?.is_some())
}

/// Tells everybody who listens, once the transaction is committed. On a file this is nothing: it has other means.
pub(in crate::store) async fn tell(session: &mut Session, news: String) -> QueryResult<()> {
    if !session.has_other_writers() {
        return Ok(());
    }
    let notify = format!("SELECT pg_notify('{CHANNEL}', ?)");
    session.execute(Statement::new(&notify).bind(news)).await?;
    Ok(())
}

/// A key as the two numbers that the lock functions take.
fn halves(key: i64) -> (i64, i64) {
    #[allow(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
    let low = key as i32;
    (key >> 32, low.into())
}

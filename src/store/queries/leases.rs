//! `lease` with `lease_cooldown` and `lease_event`: acquire, release, and the view that comes with each renewal.

use std::time::Duration;

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};
use leased_actors::lease::{Ask, Incarnation, LeaseName, Release, TermId};

use super::lease_wishes;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// A row of [`world`]: whether it is a lease or a peer; name or incarnation; holder; epoch or `renew_seq`; whether the
/// holder is alive, or the peer takes leases; paused; cool-down or TTL (microseconds); failures; who is wished for, if
/// it takes leases.
pub(in crate::store) type WorldRow =
    (bool, String, Option<String>, i64, bool, bool, i64, i64, Option<String>);
pub(in crate::store) type WorldColumns =
    (Bool, Text, Nullable<Text>, BigInt, Bool, Bool, BigInt, BigInt, Nullable<Text>);

/// The last column of [`WorldRow`], of the lease `l` and the wish `w`. A wish that is fulfilled is none any more.
pub(in crate::store) const WISHED: &str = "(SELECT d.incarnation FROM lease_instance d
    WHERE d.incarnation = w.desired_holder AND d.state = 'up' AND d.incarnation IS DISTINCT FROM l.holder)";

/// A row for each of `names` that has none.
pub(in crate::store) async fn insert_missing(session: &mut Session, names: &[LeaseName]) -> QueryResult<()> {
    if names.is_empty() {
        return Ok(());
    }
    let mut names: Vec<_> = names.iter().map(|name| row![name.as_str()]).collect();
    names.dedup_by_key(|[name]| format!("{name:?}"));
    let insert = Statement::new("INSERT INTO lease (name) {rows} ON CONFLICT (name) DO NOTHING");
    session.execute(insert.rows(names)).await?;
    Ok(())
}

/// Every lease as `me` sees it, and every incarnation that is not dead: one statement, however many there are.
pub(in crate::store) async fn world(session: &mut Session, me: Incarnation) -> QueryResult<Vec<WorldRow>> {
    let select = format!(
        "SELECT TRUE, l.name, l.holder, l.epoch, h.incarnation IS NOT NULL, COALESCE(w.paused, FALSE),
                COALESCE({{greatest}}(0, c.until - {{now_us}}), 0), COALESCE(c.failures, 0), {WISHED}
         FROM lease l
         LEFT JOIN lease_instance h ON h.incarnation = l.holder AND h.state <> 'dead'
         LEFT JOIN lease_wish w ON w.name = l.name
         LEFT JOIN lease_instance m ON m.incarnation = ?
         LEFT JOIN lease_cooldown c ON c.name = l.name AND c.process = m.process
         UNION ALL
         SELECT FALSE, incarnation, NULL, renew_seq, state = 'up', FALSE, ttl_us, 0, NULL
         FROM lease_instance WHERE state <> 'dead'"
    );
    session.load::<WorldColumns, WorldRow>(Statement::new(&select).bind(me.to_string())).await
}

/// The leases that nobody living has and nobody paused.
pub(in crate::store) async fn free(session: &mut Session) -> QueryResult<Vec<String>> {
    let select = Statement::new(
        "SELECT l.name FROM lease l
         WHERE NOT EXISTS (SELECT 1 FROM lease_instance h WHERE h.incarnation = l.holder AND h.state <> 'dead')
         AND NOT EXISTS (SELECT 1 FROM lease_wish w WHERE w.name = l.name AND w.paused)",
    );
    session.load::<Text, String>(select).await
}

/// What a claim returns: the epoch; the carried wait (microseconds); why the last holder is dead, if it is; whether
/// anybody ever released it; how long it stood still (microseconds).
pub(in crate::store) type AcquiredRow = (i64, i64, Option<String>, bool, i64);
pub(super) type AcquiredColumns = (BigInt, BigInt, Nullable<Text>, Bool, BigInt);

/// Acquires a lease: where nobody paused it, `me` is up, and its holder is nobody or dead. `me` is read, not locked: a
/// lock would stop its own renewals behind each waiting claim. After a holder of another process that lost its beacon,
/// the start waits the whole grace; a wait once owed stays, in full, until somebody has waited it out. The epoch is at
/// least the timeline, from bit 42 on, and the database's clock in milliseconds below it: so it rises across a fail-over
/// that lost the last ones.
pub(super) const ACQUIRE: &str = "UPDATE lease SET previous = holder, holder = ?, since = {now_us},
             epoch = {greatest}(epoch + 1, {now_us} / 1000 + 4398046511104 *
                 (SELECT m.timeline FROM lease_instance m WHERE m.incarnation = ?)),
             owed_us = {greatest}(owed_us, COALESCE(
                 (SELECT CAST(? AS BIGINT) FROM lease_instance d WHERE d.incarnation = lease.holder
                  AND d.dead_reason = 'beacon'
                  AND d.process <> (SELECT m.process FROM lease_instance m WHERE m.incarnation = ?)), 0))
         WHERE name = ?
         AND (holder IS NULL
              OR EXISTS (SELECT 1 FROM lease_instance h WHERE h.incarnation = lease.holder AND h.state = 'dead'))
         AND NOT EXISTS (SELECT 1 FROM lease_wish w WHERE w.name = lease.name AND w.paused)
         AND EXISTS (SELECT 1 FROM lease_instance m WHERE m.incarnation = ? AND m.state = 'up')
         RETURNING epoch, owed_us AS wait,
             (SELECT d.dead_reason FROM lease_instance d WHERE d.incarnation = previous) AS death,
             freed_at IS NOT NULL AS released,
             {greatest}(0, {now_us} - COALESCE(
                 (SELECT d.renewed_at FROM lease_instance d WHERE d.incarnation = previous), freed_at, {now_us}))
             AS gap";

/// See [`ACQUIRE`]; it is noted, and ends the wish that it fulfils.
pub(in crate::store) async fn acquire(session: &mut Session, ask: &Ask) -> QueryResult<Option<AcquiredRow>> {
    let acquired = session.first::<AcquiredColumns, AcquiredRow>(asked(Statement::new(ACQUIRE), ask)).await?;
    if let Some((epoch, ..)) = &acquired {
        note(session, &ask.name, *epoch, ask.me, "acquired").await?;
        if ask.ends_wish {
            lease_wishes::clear_desired(session, &ask.name).await?;
        }
    }
    Ok(acquired)
}

/// The same in one statement, for a server that is a round trip away; without wishes.
pub(in crate::store) async fn acquire_at_once(
    session: &mut Session,
    ask: &Ask,
) -> QueryResult<Option<AcquiredRow>> {
    let text = format!(
        "WITH acquired AS ({ACQUIRE}),
         noted AS (
             INSERT INTO lease_event (id, at, name, epoch, incarnation, what)
             SELECT ?, {{now_us}}, ?, epoch, ?, 'acquired' FROM acquired)
         SELECT epoch, wait, death, released, gap FROM acquired"
    );
    let acquire =
        asked(Statement::new(&text), ask).bind(event_id()).bind(ask.name.as_str()).bind(ask.me.to_string());
    session.first::<AcquiredColumns, AcquiredRow>(acquire).await
}

/// Binds the values of [`ACQUIRE`].
pub(super) fn asked(statement: Statement, ask: &Ask) -> Statement {
    let me = ask.me.to_string();
    let update = statement.bind(&me).bind(&me).bind(micros(ask.grace)).bind(&me);
    update.bind(ask.name.as_str()).bind(&me)
}

/// Clears the wait where the whole term matches.
pub(in crate::store) async fn end_wait(session: &mut Session, term: &TermId) -> QueryResult<bool> {
    let update = Statement::new("UPDATE lease SET owed_us = 0 WHERE name = ? AND holder = ? AND epoch = ?");
    let update = update.bind(term.name.as_str()).bind(term.holder.to_string()).bind(term.epoch.0);
    Ok(session.execute(update).await? > 0)
}

/// Clears the holder where the whole term matches; a carried wait stays. False: it was not this term's any more.
pub(in crate::store) async fn release(
    session: &mut Session,
    term: &TermId,
    how: Release,
) -> QueryResult<bool> {
    let update = Statement::new(
        "UPDATE lease SET holder = NULL, since = NULL, freed_at = {now_us}
         WHERE name = ? AND holder = ? AND epoch = ?",
    );
    let update = update.bind(term.name.as_str()).bind(term.holder.to_string()).bind(term.epoch.0);
    if session.execute(update).await? == 0 {
        return Ok(false);
    }
    let what = match how {
        Release::Free => {
            end_cooldown(session, term).await?;
            "released"
        }
        Release::CoolDown { wait, failures } => {
            begin_cooldown(session, term, wait, failures).await?;
            "released after failures"
        }
    };
    note(session, &term.name, term.epoch.0, term.holder, what).await?;
    Ok(true)
}

async fn begin_cooldown(
    session: &mut Session,
    term: &TermId,
    wait: Duration,
    failures: u32,
) -> QueryResult<()> {
    let upsert = Statement::new(
        "INSERT INTO lease_cooldown (name, process, until, failures)
         SELECT ?, process, {now_us} + ?, ? FROM lease_instance WHERE incarnation = ?
         ON CONFLICT (name, process) DO UPDATE SET until = excluded.until, failures = excluded.failures",
    );
    let upsert = upsert.bind(term.name.as_str()).bind(micros(wait)).bind(i64::from(failures));
    session.execute(upsert.bind(term.holder.to_string())).await?;
    Ok(())
}

async fn end_cooldown(session: &mut Session, term: &TermId) -> QueryResult<()> {
    let delete = Statement::new(
        "DELETE FROM lease_cooldown
         WHERE name = ? AND process = (SELECT process FROM lease_instance WHERE incarnation = ?)",
    );
    session.execute(delete.bind(term.name.as_str()).bind(term.holder.to_string())).await?;
    Ok(())
}

/// Adds to the history of one lease.
async fn note(
    session: &mut Session,
    name: &LeaseName,
    epoch: i64,
    who: Incarnation,
    what: &str,
) -> QueryResult<()> {
    let insert = Statement::new(
        "INSERT INTO lease_event (id, at, name, epoch, incarnation, what) VALUES (?, {now_us}, ?, ?, ?, ?)",
    );
    let insert = insert.bind(event_id()).bind(name.as_str()).bind(epoch).bind(who.to_string()).bind(what);
    session.execute(insert).await?;
    Ok(())
}

/// Adds to the history of every lease that `who` still has.
pub(in crate::store) async fn note_all_of(
    session: &mut Session,
    who: Incarnation,
    what: &str,
) -> QueryResult<()> {
    let insert = Statement::new(
        "INSERT INTO lease_event (id, at, name, epoch, incarnation, what)
         SELECT ? || '-' || name, {now_us}, name, epoch, holder, ? FROM lease WHERE holder = ?",
    );
    session.execute(insert.bind(event_id()).bind(what).bind(who.to_string())).await?;
    Ok(())
}

/// A new one.
pub(in crate::store) fn event_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// A duration as the tables keep it.
pub(in crate::store) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

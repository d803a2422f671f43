//! Fail-over on PostgreSQL in one round trip and one commit: the dead holder declared, its lease acquired. SQLite never
//! sees these.

use diesel::QueryResult;
use leased_actors::lease::{Ask, Incarnation};

use super::beacons::{CHANNEL, LOCK};
use super::leases::{self, ACQUIRE, AcquiredColumns, AcquiredRow};
use crate::store::session::Session;
use crate::store::statement::Statement;

/// Declares `dead` dead if it is without its beacon, as `bury` does, and acquires the lease if it was the holder's.
///
/// All parts of a statement see the tables as they were before it. So from `seen` on, the name `lease_instance` stands
/// for what the declaration makes of it, and the claim inside is the same text as ever. Of the instances only the two
/// that matter are in it: a holder that is neither is none to claim from, here. The loss is noted with the time of the
/// declaration, since its row may well be inserted after that of the claim.
pub(in crate::store) async fn acquire(
    session: &mut Session,
    ask: &Ask,
    dead: Incarnation,
) -> QueryResult<Option<AcquiredRow>> {
    let text = format!(
        "WITH gone AS (
             UPDATE lease_instance i SET state = 'dead', dead_reason = 'beacon', dead_at = {{now_us}}
             WHERE i.incarnation = ? AND i.state <> 'dead' AND i.beacon_key IS NOT NULL AND NOT EXISTS ({LOCK})
             RETURNING i.incarnation, i.dead_at, pg_notify('{CHANNEL}', 'dead ' || i.incarnation)),
         lost AS (
             INSERT INTO lease_event (id, at, name, epoch, incarnation, what)
             SELECT ? || '-' || l.name, gone.dead_at, l.name, l.epoch, l.holder, 'beacon lost'
             FROM gone JOIN lease l ON l.holder = gone.incarnation),
         lease_instance AS (
             SELECT i.incarnation, i.process, i.timeline, i.renewed_at,
                 CASE WHEN g.incarnation IS NULL THEN i.state ELSE 'dead' END AS state,
                 CASE WHEN g.incarnation IS NULL THEN i.dead_reason ELSE 'beacon' END AS dead_reason
             FROM lease_instance i LEFT JOIN gone g ON g.incarnation = i.incarnation
             WHERE i.incarnation IN (?, ?)),
         acquired AS ({ACQUIRE}),
         noted AS (
             INSERT INTO lease_event (id, at, name, epoch, incarnation, what)
             SELECT ?, {{now_us}}, ?, epoch, ?, 'acquired' FROM acquired)
         SELECT epoch, wait, death, released, gap FROM acquired"
    );
    let (me, dead) = (ask.me.to_string(), dead.to_string());
    let take = Statement::new(&text).bind(&dead).bind(leases::event_id()).bind(&dead).bind(&me);
    let take = leases::asked(take, ask).bind(leases::event_id()).bind(ask.name.as_str()).bind(me);
    session.first::<AcquiredColumns, AcquiredRow>(take).await
}

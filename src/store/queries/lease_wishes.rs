//! `lease_wish` and the draining of instances: what operators want; and what they ask about both.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};
use leased_actors::lease::{Incarnation, LeaseName};

use crate::store::session::Session;
use crate::store::statement::Statement;

/// An instance: incarnation, label, host, pid, state.
pub(in crate::store) type InstanceRow = (String, String, String, i64, String);

/// An event: at (microseconds), name, epoch, incarnation, label, what.
pub(in crate::store) type EventRow = (i64, String, i64, String, Option<String>, String);

/// Every instance that is not dead.
pub(in crate::store) async fn instances(session: &mut Session) -> QueryResult<Vec<InstanceRow>> {
    let select = Statement::new(
        "SELECT incarnation, label, host, pid, state FROM lease_instance WHERE state <> 'dead'
         ORDER BY label, incarnation",
    );
    session.load::<(Text, Text, Text, BigInt, Text), InstanceRow>(select).await
}

/// The latest events, of one lease or of all.
pub(in crate::store) async fn history(
    session: &mut Session,
    name: Option<&LeaseName>,
    limit: u32,
) -> QueryResult<Vec<EventRow>> {
    let narrowed = if name.is_some() { "WHERE e.name = ?" } else { "" };
    let select = format!(
        "SELECT e.at, e.name, e.epoch, e.incarnation, i.label, e.what
         FROM lease_event e LEFT JOIN lease_instance i ON i.incarnation = e.incarnation
         {narrowed} ORDER BY e.at DESC, e.epoch DESC LIMIT ?"
    );
    let mut select = Statement::new(&select);
    if let Some(name) = name {
        select = select.bind(name.as_str());
    }
    session
        .load::<(BigInt, Text, BigInt, Text, Nullable<Text>, Text), EventRow>(select.bind(i64::from(limit)))
        .await
}

/// False: there is no such lease.
pub(in crate::store) async fn set_paused(
    session: &mut Session,
    name: &LeaseName,
    paused: bool,
) -> QueryResult<bool> {
    let upsert = Statement::new(
        "INSERT INTO lease_wish (name, paused) SELECT name, ? FROM lease WHERE name = ?
         ON CONFLICT (name) DO UPDATE SET paused = excluded.paused",
    );
    Ok(session.execute(upsert.bind(paused).bind(name.as_str())).await? == 1)
}

/// False: there is no such lease.
pub(in crate::store) async fn set_desired(
    session: &mut Session,
    name: &LeaseName,
    to: Incarnation,
) -> QueryResult<bool> {
    let upsert = Statement::new(
        "INSERT INTO lease_wish (name, desired_holder) SELECT name, ? FROM lease WHERE name = ?
         ON CONFLICT (name) DO UPDATE SET desired_holder = excluded.desired_holder",
    );
    Ok(session.execute(upsert.bind(to.to_string()).bind(name.as_str())).await? == 1)
}

/// A wish for an instance is fulfilled, or nobody came for it: either way it is over.
pub(in crate::store) async fn clear_desired(session: &mut Session, name: &LeaseName) -> QueryResult<()> {
    let clear = Statement::new("UPDATE lease_wish SET desired_holder = NULL WHERE name = ?");
    session.execute(clear.bind(name.as_str())).await?;
    Ok(())
}

/// False: it is dead, or there is none.
pub(in crate::store) async fn set_draining(
    session: &mut Session,
    who: Incarnation,
    draining: bool,
) -> QueryResult<bool> {
    let state = if draining { "draining" } else { "up" };
    let update =
        Statement::new("UPDATE lease_instance SET state = ? WHERE incarnation = ? AND state <> 'dead'");
    Ok(session.execute(update.bind(state).bind(who.to_string())).await? == 1)
}

//! `lease_instance`: registrations, their renewals, and their ends.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Text};
use leased_actors::lease::{Incarnation, Registration};

use super::leases;
use crate::store::beacon::Mark;
use crate::store::beacon::sqlite::FileId;
use crate::store::session::Session;
use crate::store::statement::Statement;

/// How an incarnation ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum End {
    /// It stopped renewing for its TTL.
    Expired { seen: i64 },
    /// Its beacon is gone: its process has ended.
    Beaconless,
    /// It left after its last release.
    Left,
}

/// Adds a living incarnation.
pub(in crate::store) async fn insert(
    session: &mut Session,
    me: &Registration,
    mark: Mark,
) -> QueryResult<()> {
    let insert = Statement::new(
        "INSERT INTO lease_instance
         (incarnation, process, label, host, pid, admin_address, stop_bound_us, ttl_us, beacon_key, beacon_device,
          beacon_inode, timeline, registered_at, renewed_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {now_us}, {now_us})",
    );
    let insert = insert.bind(me.incarnation.to_string()).bind(me.process.to_string());
    let insert = insert.bind(&me.label).bind(&me.host).bind(i64::from(me.pid)).bind(&me.admin_address);
    let insert = insert.bind(leases::micros(me.stop_bound)).bind(leases::micros(me.ttl));
    let (device, inode) = mark.file.unzip();
    let insert = insert.bind(mark.key).bind(device).bind(inode).bind(mark.timeline);
    session.execute(insert).await?;
    Ok(())
}

/// Raises `renew_seq` unless the incarnation is dead. False: it is, or there is none.
pub(in crate::store) async fn raise(session: &mut Session, me: Incarnation) -> QueryResult<bool> {
    let update = Statement::new(
        "UPDATE lease_instance SET renew_seq = renew_seq + 1, renewed_at = {now_us}
         WHERE incarnation = ? AND state <> 'dead'",
    );
    Ok(session.execute(update.bind(me.to_string())).await? == 1)
}

/// Whether the incarnation is registered and not dead.
pub(in crate::store) async fn lives(session: &mut Session, who: Incarnation) -> QueryResult<bool> {
    let select =
        Statement::new("SELECT renew_seq FROM lease_instance WHERE incarnation = ? AND state <> 'dead'");
    Ok(session.first::<BigInt, i64>(select.bind(who.to_string())).await?.is_some())
}

/// Every incarnation that is not dead, with its `renew_seq` and its TTL in microseconds.
pub(in crate::store) async fn living(session: &mut Session) -> QueryResult<Vec<(String, i64, i64)>> {
    let select =
        Statement::new("SELECT incarnation, renew_seq, ttl_us FROM lease_instance WHERE state <> 'dead'");
    session.load::<(Text, BigInt, BigInt), (String, i64, i64)>(select).await
}

/// Ends an incarnation, once and for good, and notes what happens to its leases. False: not this call.
pub(in crate::store) async fn end(session: &mut Session, who: Incarnation, how: End) -> QueryResult<bool> {
    let text = "UPDATE lease_instance SET state = 'dead', dead_reason = ?, dead_at = {now_us}
                WHERE incarnation = ? AND state <> 'dead'";
    let (update, what) = match how {
        End::Expired { seen } => {
            let text = format!("{text} AND renew_seq = ?");
            (Statement::new(&text).bind("ttl").bind(who.to_string()).bind(seen), "expired")
        }
        End::Beaconless => (Statement::new(text).bind("beacon").bind(who.to_string()), "beacon gone"),
        End::Left => (Statement::new(text).bind("left").bind(who.to_string()), "left"),
    };
    let ended = session.execute(update).await? == 1;
    if ended {
        leases::note_all_of(session, who, what).await?;
    }
    Ok(ended)
}

/// Every incarnation that is not dead and has a file for its beacon.
pub(in crate::store) async fn beacon_files(session: &mut Session) -> QueryResult<Vec<(String, FileId)>> {
    let select = Statement::new(
        "SELECT incarnation, beacon_device, beacon_inode FROM lease_instance
         WHERE state <> 'dead' AND beacon_device IS NOT NULL AND beacon_inode IS NOT NULL",
    );
    let rows = session.load::<(Text, BigInt, BigInt), (String, i64, i64)>(select).await?;
    Ok(rows.into_iter().map(|(who, device, inode)| (who, FileId { device, inode })).collect())
}

/// The beacon's file of an incarnation that is not dead.
pub(in crate::store) async fn beacon_file(
    session: &mut Session,
    who: Incarnation,
) -> QueryResult<Option<FileId>> {
    let select = Statement::new(
        "SELECT beacon_device, beacon_inode FROM lease_instance
         WHERE incarnation = ? AND state <> 'dead' AND beacon_device IS NOT NULL AND beacon_inode IS NOT NULL",
    );
    let row = session.first::<(BigInt, BigInt), (i64, i64)>(select.bind(who.to_string())).await?;
    Ok(row.map(|(device, inode)| FileId { device, inode }))
}

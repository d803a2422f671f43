//! `captains`, `crew`, `hold_repository_stats`, `scans`: the records of holds, a row each.

use diesel::QueryResult;
use diesel::sql_types::Text;

use super::{Key, chunked};
use crate::atproto::records::{Captain, Crew, Scan, Stats};
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// Deletes from `crew` or `scans`.
pub(in crate::store) async fn delete(
    session: &mut Session,
    table: &'static str,
    keys: &[Key<'_>],
) -> QueryResult<()> {
    for chunk in chunked(keys, |(did, rkey)| row![*did, *rkey]) {
        let delete = Statement::new(&format!(
            "WITH gone (did, rkey) AS ({{rows}})
             DELETE FROM {table} WHERE (hold_did, rkey) IN (SELECT did, rkey FROM gone)"
        ));
        session.execute(delete.each(chunk)).await?;
    }
    Ok(())
}

/// Deletes the captains of holds.
pub(in crate::store) async fn delete_captains(session: &mut Session, keys: &[Key<'_>]) -> QueryResult<()> {
    for chunk in chunked(keys, |(did, _)| row![*did]) {
        let delete = Statement::new("DELETE FROM captains WHERE hold_did IN ({rows})");
        session.execute(delete.each(chunk)).await?;
    }
    Ok(())
}

/// Deletes counts, and returns the repositories (owner, name) that they were about.
pub(in crate::store) async fn delete_stats(
    session: &mut Session,
    keys: &[Key<'_>],
) -> QueryResult<Vec<(String, String)>> {
    let mut repositories = Vec::new();
    for chunk in chunked(keys, |(did, rkey)| row![*did, *rkey]) {
        let delete = Statement::new(
            "WITH gone (did, rkey) AS ({rows})
             DELETE FROM hold_repository_stats WHERE (hold_did, rkey) IN (SELECT did, rkey FROM gone)
             RETURNING owner_did, repository",
        );
        repositories.extend(session.load::<(Text, Text), _>(delete.each(chunk)).await?);
    }
    Ok(repositories)
}

/// The repositories (owner, name) that these holds have counts of.
pub(in crate::store) async fn counted_by(
    session: &mut Session,
    holds: &[Key<'_>],
) -> QueryResult<Vec<(String, String)>> {
    let mut repositories = Vec::new();
    for chunk in chunked(holds, |(did, _)| row![*did]) {
        let select = Statement::new(
            "SELECT DISTINCT owner_did, repository FROM hold_repository_stats WHERE hold_did IN ({rows})",
        );
        repositories.extend(session.load::<(Text, Text), _>(select.rows(chunk)).await?);
    }
    Ok(repositories)
}

/// Inserts captains that are not there.
pub(in crate::store) async fn insert_captains(
    session: &mut Session,
    captains: &[(Key<'_>, &Captain)],
) -> QueryResult<()> {
    for chunk in chunked(captains, |((did, _), c)| {
        let successor = c.successor.as_ref().map(|did| did.as_str());
        let owner = c.owner.as_str();
        row![*did, owner, c.public, c.allow_all_crew, c.deployed_at.0, &c.region, &c.provider, successor]
    }) {
        let insert = Statement::new(
            "INSERT INTO captains
             (hold_did, owner_did, public, allow_all_crew, deployed_at, region, provider, successor_did) {rows}",
        );
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

/// Inserts members that are not there.
pub(in crate::store) async fn insert_crew(
    session: &mut Session,
    crew: &[(Key<'_>, &Crew)],
) -> QueryResult<()> {
    for chunk in chunked(crew, |((did, rkey), c)| {
        let permissions = serde_json::Value::from(c.permissions.as_slice()).to_string();
        row![*did, *rkey, c.member.as_str(), &c.role, permissions, c.added_at.0, &c.tier]
    }) {
        let insert = Statement::new(
            "INSERT INTO crew (hold_did, rkey, member_did, role, permissions, added_at, tier) {rows}",
        );
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

/// Inserts counts that are not there.
pub(in crate::store) async fn insert_stats(
    session: &mut Session,
    stats: &[(Key<'_>, &Stats)],
) -> QueryResult<()> {
    for chunk in chunked(stats, |((did, rkey), s)| {
        let (last_pull, last_push) = (s.last_pull.map(|at| at.0), s.last_push.map(|at| at.0));
        row![
            *did,
            *rkey,
            s.owner.as_str(),
            &s.repository,
            s.pull_count,
            s.push_count,
            last_pull,
            last_push,
            s.updated_at.0,
        ]
    }) {
        let insert = Statement::new(
            "INSERT INTO hold_repository_stats
             (hold_did, rkey, owner_did, repository, pull_count, push_count, last_pull, last_push, updated_at)
             {rows}",
        );
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

/// Inserts scans that are not there.
pub(in crate::store) async fn insert_scans(
    session: &mut Session,
    scans: &[(Key<'_>, &Scan)],
) -> QueryResult<()> {
    for chunk in chunked(scans, |((did, rkey), s)| {
        row![
            *did,
            *rkey,
            &s.manifest_digest,
            &s.repository,
            s.owner.as_str(),
            s.critical,
            s.high,
            s.medium,
            s.low,
            s.total,
            &s.scanner_version,
            s.scanned_at.0,
        ]
    }) {
        let insert = Statement::new(
            "INSERT INTO scans (hold_did, rkey, manifest_digest, repository, owner_did, critical, high, medium, low,
                 total, scanner_version, scanned_at) {rows}",
        );
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

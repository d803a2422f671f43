//! `tags`, `stars`, `repo_pages`, `profiles`: the smaller records of users, a row each.

use diesel::QueryResult;

use super::{Key, chunked};
use crate::atproto::records::{Page, Profile, Star, Tag};
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// Deletes from one of this file's tables.
pub(in crate::store) async fn delete(
    session: &mut Session,
    table: &'static str,
    keys: &[Key<'_>],
) -> QueryResult<()> {
    for chunk in chunked(keys, |(did, rkey)| row![*did, *rkey]) {
        let delete = Statement::new(&format!(
            "WITH gone (did, rkey) AS ({{rows}})
             DELETE FROM {table} WHERE (did, rkey) IN (SELECT did, rkey FROM gone)"
        ));
        session.execute(delete.each(chunk)).await?;
    }
    Ok(())
}

/// Inserts tags that are not there.
pub(in crate::store) async fn insert_tags(
    session: &mut Session,
    tags: &[(Key<'_>, &Tag)],
) -> QueryResult<()> {
    for chunk in
        chunked(tags, |((did, rkey), t)| row![*did, *rkey, &t.repository, &t.tag, &t.digest, t.created_at.0])
    {
        let insert =
            Statement::new("INSERT INTO tags (did, rkey, repository, tag, digest, created_at) {rows}");
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

/// Inserts stars that are not there.
pub(in crate::store) async fn insert_stars(
    session: &mut Session,
    stars: &[(Key<'_>, &Star)],
) -> QueryResult<()> {
    for chunk in
        chunked(stars, |((did, rkey), s)| row![*did, *rkey, s.owner.as_str(), &s.repository, s.created_at.0])
    {
        let insert =
            Statement::new("INSERT INTO stars (did, rkey, owner_did, repository, created_at) {rows}");
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

/// Inserts pages that are not there.
pub(in crate::store) async fn insert_pages(
    session: &mut Session,
    pages: &[(Key<'_>, &Page)],
) -> QueryResult<()> {
    for chunk in chunked(pages, |((did, rkey), p)| {
        row![*did, *rkey, &p.repository, &p.description, &p.avatar_cid, p.created_at.0, p.updated_at.0]
    }) {
        let insert = Statement::new(
            "INSERT INTO repo_pages (did, rkey, repository, description, avatar_cid, created_at, updated_at)
             {rows}",
        );
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

/// Inserts profiles that are not there.
pub(in crate::store) async fn insert_profiles(
    session: &mut Session,
    profiles: &[(Key<'_>, &Profile)],
) -> QueryResult<()> {
    for chunk in chunked(profiles, |((did, rkey), p)| {
        let hold = p.default_hold.as_ref().map(|hold| hold.as_str());
        row![*did, *rkey, hold, p.auto_remove_untagged, p.created_at.0, p.updated_at.0]
    }) {
        let insert = Statement::new(
            "INSERT INTO profiles (did, rkey, default_hold_did, auto_remove_untagged, created_at, updated_at)
             {rows}",
        );
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

//! `labels`, `labeler_cursor` and the view `taken_down`: what the labeler says, up to where it was heard, and what follows.

use diesel::QueryResult;
use diesel::sql_types::Bool;

use crate::store::session::Session;
use crate::store::statement::Statement;

/// A condition for other statements: whether what these SQL expressions name is taken down; `NULL` for what there is
/// none of, or is not asked for. It counts at the moment of the statement.
///
/// The view behind it finds the labels of one account by index: a look-up, where nothing is taken down.
pub(in crate::store) fn is_hidden(did: &str, repository: &str, digest: &str, tag_rkey: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM taken_down t WHERE t.did = {did} AND (t.subject = 'account'
             OR t.repository = {repository} OR t.digest = {digest} OR t.tag_rkey = {tag_rkey}))"
    )
}

/// Whether the account, the repository, the manifest or the tag is taken down.
pub(in crate::store) async fn is_taken_down(
    session: &mut Session,
    did: &str,
    repository: Option<&str>,
    digest: Option<&str>,
    tag_rkey: Option<&str>,
) -> QueryResult<bool> {
    let condition = is_hidden("?", "?", "?", "?");
    let select = Statement::new(&format!("SELECT {condition}"));
    let select = select.bind(did).bind(repository).bind(digest).bind(tag_rkey);
    Ok(session.first::<Bool, bool>(select).await?.unwrap_or(false))
}

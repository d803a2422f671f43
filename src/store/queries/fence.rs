//! `lease` and `lease_instance`, as each fenced transaction sees them first.

use diesel::QueryResult;
use diesel::sql_types::BigInt;
use leased_actors::lease::TermId;

use crate::store::session::Session;
use crate::store::statement::Statement;

/// Whether the term is the lease's present one and its holder is not dead; if so, no claim changes that before the
/// transaction ends.
///
/// FOR SHARE, because a weaker lock does not keep a claim out. "Not dead", because otherwise overlapping transactions
/// of a dead holder could keep every claim out for ever.
pub(in crate::store) async fn matches(session: &mut Session, term: &TermId) -> QueryResult<bool> {
    let check = Statement::new(
        "SELECT l.epoch FROM lease l WHERE l.name = ? AND l.holder = ? AND l.epoch = ?
         AND EXISTS (SELECT 1 FROM lease_instance i WHERE i.incarnation = l.holder AND i.state <> 'dead'){for_share}",
    );
    let check = check.bind(term.name.as_str()).bind(term.holder.to_string()).bind(term.epoch.0);
    Ok(session.first::<BigInt, i64>(check).await?.is_some())
}

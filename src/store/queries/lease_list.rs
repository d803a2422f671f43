//! `lease` with all that people want to know beside it.

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};

use crate::store::session::Session;
use crate::store::statement::Statement;

/// The living holder of a lease: incarnation, label, host, pid, whether it is draining.
pub(in crate::store) type HolderRow = (String, String, String, i64, bool);

/// A lease: name, epoch, since (microseconds), whether its start waits, whether it is paused, who is wished for, whether
/// any instance cools down; and its holder.
pub(in crate::store) type ListRow =
    ((String, i64, Option<i64>, bool, bool, Option<String>, bool), Option<HolderRow>);
type HolderColumns = Nullable<(Text, Text, Text, BigInt, Bool)>;
type ListColumns = ((Text, BigInt, Nullable<BigInt>, Bool, Bool, Nullable<Text>, Bool), HolderColumns);

/// Every lease, by name.
pub(in crate::store) async fn all(session: &mut Session) -> QueryResult<Vec<ListRow>> {
    let select = Statement::new(
        "SELECT l.name, l.epoch, l.since, l.owed_us > 0, COALESCE(w.paused, FALSE),
                CASE WHEN w.desired_holder IS DISTINCT FROM l.holder THEN w.desired_holder END,
                EXISTS (SELECT 1 FROM lease_cooldown c WHERE c.name = l.name AND c.until > {now_us}),
                h.incarnation, h.label, h.host, h.pid, h.state = 'draining'
         FROM lease l
         LEFT JOIN lease_instance h ON h.incarnation = l.holder AND h.state <> 'dead'
         LEFT JOIN lease_wish w ON w.name = l.name
         ORDER BY l.name",
    );
    session.load::<ListColumns, ListRow>(select).await
}

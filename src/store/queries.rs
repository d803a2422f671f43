//! Every statement, a file per table or small family, a function per statement.

pub(super) mod backfill_repos;
pub(super) mod backfill_requests;
pub(super) mod backfill_runs;
pub(super) mod beacons;
pub(super) mod billing;
pub(super) mod crew_tiers;
pub(super) mod cursors;
pub(super) mod due_deliveries;
pub(super) mod fence;
pub(super) mod hold_records;
pub(super) mod hold_tiers;
pub(super) mod holds;
pub(super) mod labels;
pub(super) mod lease_instances;
pub(super) mod lease_list;
pub(super) mod lease_wishes;
pub(super) mod leases;
pub(super) mod manifests;
pub(super) mod outbox;
pub(super) mod records;
pub(super) mod rehearsal;
pub(super) mod repository_stats;
pub(super) mod status;
pub(super) mod sweeps;
pub(super) mod take_over;
pub(super) mod user_records;
pub(super) mod users;
pub(super) mod webhook_deliveries;
pub(super) mod webhooks;

use super::statement::Value;

/// Values per statement. SQLite takes 32,766, PostgreSQL 65,535; at half of it the statements only become more.
const VALUES_MAX: usize = 30_000;

/// A record's key in its table: the repository's DID, and the rkey.
pub(super) type Key<'a> = (&'a str, &'a str);

/// The rows of `items`, in lists that fit into a statement.
///
/// A statement that looks for pairs says `IN (SELECT … FROM name)` with the rows under a name: with
/// the rows in the `IN` itself SQLite reads the whole table.
fn chunked<T, const N: usize>(
    items: &[T],
    row: impl Fn(&T) -> [Value; N],
) -> impl Iterator<Item = Vec<[Value; N]>> {
    items.chunks(VALUES_MAX / N).map(move |chunk| chunk.iter().map(&row).collect())
}

//! What expires, table by table: a line of [`SWEEPS`] each, in the order in which they are swept.
//!
//! Ages are by the database's clock, which also wrote the times. Never in it: rows of `lease`, which carry the epochs,
//! and whatever the network can be asked for again.

use std::time::Duration;

use diesel::QueryResult;

use super::leases::micros;
use crate::store::session::Session;
use crate::store::statement::Statement;

/// Rows that one transaction deletes at most. At half, a backlog takes twice the transactions; at double, other writers
/// of a SQLite file begin to wait for it.
pub const SWEEP_ROWS_MAX: u32 = 500;

/// A table and what expires in it.
#[derive(Debug)]
pub struct Sweep {
    /// The table, as its metrics and logs call it.
    pub table: &'static str,
    keep: Keep,
    /// Deletes rows that have been expired for longer than its first `?` (microseconds), as many as its second at most.
    statement: &'static str,
}

/// For how long an expired row stays.
#[derive(Clone, Copy, Debug)]
enum Keep {
    /// As long as the settings keep the history of leases.
    History,
    /// So long.
    For(Duration),
}

/// A cool-down ends within minutes, and what it says of earlier failures is old news within the hour.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What a repository was read at is worth a month of memory after no relay lists it any more; what a run did, too.
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long the end of a label is remembered. It is there so that a replay of the label that it ended does not bring that one
/// back. Without it a replay does, until it comes to the negation, which every labeler keeps as long as the label and sends
/// after it: for moments, something is hidden that need not be, and never the other way round. What has expired is stored as
/// such again, and has no effect.
const LABEL_ENDS: Duration = MONTH;

/// Every table that is swept. Instances come after the events that name them.
pub const SWEEPS: &[Sweep] = &[
    Sweep {
        table: "lease_event",
        keep: Keep::History,
        statement: "DELETE FROM lease_event WHERE id IN (
                        SELECT id FROM lease_event WHERE at < {now_us} - ? ORDER BY at LIMIT ?)",
    },
    Sweep {
        table: "lease_instance",
        keep: Keep::History,
        statement: "DELETE FROM lease_instance WHERE incarnation IN (
                        SELECT incarnation FROM lease_instance WHERE state = 'dead' AND dead_at < {now_us} - ?
                        AND incarnation NOT IN (SELECT incarnation FROM lease_event)
                        AND incarnation NOT IN (SELECT holder FROM lease WHERE holder IS NOT NULL)
                        AND incarnation NOT IN (SELECT previous FROM lease WHERE previous IS NOT NULL)
                        LIMIT ?)",
    },
    Sweep {
        table: "lease_cooldown",
        keep: Keep::For(DAY),
        statement: "DELETE FROM lease_cooldown WHERE (name, process) IN (
                        SELECT name, process FROM lease_cooldown WHERE until < {now_us} - ? LIMIT ?)",
    },
    Sweep {
        table: "backfill_run",
        keep: Keep::For(MONTH),
        statement: "DELETE FROM backfill_run WHERE id IN (
                        SELECT id FROM backfill_run WHERE ended_at < {now_us} - ?
                        AND id < (SELECT MAX(id) FROM backfill_run) LIMIT ?)",
    },
    Sweep {
        table: "backfill_repo",
        keep: Keep::For(MONTH),
        statement: "DELETE FROM backfill_repo WHERE did IN (
                        SELECT did FROM backfill_repo WHERE found_at < {now_us} - ? AND next_at IS NULL LIMIT ?)",
    },
    Sweep {
        table: "labels",
        keep: Keep::For(LABEL_ENDS),
        statement: "DELETE FROM labels WHERE (src, uri, val) IN (
                        SELECT src, uri, val FROM labels WHERE ended_at < {now_us} - ? LIMIT ?)",
    },
];

/// Deletes what has expired, up to [`SWEEP_ROWS_MAX`] rows; how many it were.
pub(in crate::store) async fn run(
    session: &mut Session,
    sweep: &Sweep,
    history_for: Duration,
) -> QueryResult<u32> {
    let keep = match sweep.keep {
        Keep::History => history_for,
        Keep::For(time) => time,
    };
    let delete = Statement::new(sweep.statement).bind(micros(keep)).bind(i64::from(SWEEP_ROWS_MAX));
    let deleted = session.execute(delete).await?;
    Ok(u32::try_from(deleted).unwrap_or(u32::MAX))
}

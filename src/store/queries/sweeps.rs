//! What expires, table by table: a line of [`SWEEPS`] each, in the order in which they are swept.
//!
//! Ages are by the database's clock, which also wrote the times. Never in it: rows of `lease`, which carry the epochs,
//! and whatever the network can be asked for again.
//!
//! The registry beside us may have tables of its own in the same database. Those in [`REGISTRY`] are swept where they are
//! there with a time that we can read; whom it trusts for good (`devices`) is none of them.

use std::time::Duration;

use diesel::QueryResult;
use diesel::sql_types::Text;

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
    delete: Delete,
}

impl Sweep {
    /// Whether it is a table of the registry's, which need not be there.
    pub fn is_registrys(&self) -> bool {
        matches!(self.delete, Delete::Past(_))
    }
}

/// What is deleted.
#[derive(Debug)]
enum Delete {
    /// Deletes rows that have been expired for longer than its first `?` (microseconds), as many as its second at most.
    Statement(&'static str),
    /// Rows of a table of the registry's whose time in this column has been past for so long.
    Past(&'static str),
}

/// Whether a table can be swept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweepable {
    /// It can.
    Yes,
    /// It is not in the database.
    Absent,
    /// It has no such column of whole numbers.
    Without(&'static str),
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
        delete: Delete::Statement(
            "DELETE FROM lease_event WHERE id IN (
                        SELECT id FROM lease_event WHERE at < {now_us} - ? ORDER BY at LIMIT ?)",
        ),
    },
    Sweep {
        table: "lease_instance",
        keep: Keep::History,
        delete: Delete::Statement(
            "DELETE FROM lease_instance WHERE incarnation IN (
                        SELECT incarnation FROM lease_instance WHERE state = 'dead' AND dead_at < {now_us} - ?
                        AND incarnation NOT IN (SELECT incarnation FROM lease_event)
                        AND incarnation NOT IN (SELECT holder FROM lease WHERE holder IS NOT NULL)
                        AND incarnation NOT IN (SELECT previous FROM lease WHERE previous IS NOT NULL)
                        LIMIT ?)",
        ),
    },
    Sweep {
        table: "lease_cooldown",
        keep: Keep::For(DAY),
        delete: Delete::Statement(
            "DELETE FROM lease_cooldown WHERE (name, process) IN (
                        SELECT name, process FROM lease_cooldown WHERE until < {now_us} - ? LIMIT ?)",
        ),
    },
    Sweep {
        table: "backfill_run",
        keep: Keep::For(MONTH),
        delete: Delete::Statement(
            "DELETE FROM backfill_run WHERE id IN (
                        SELECT id FROM backfill_run WHERE ended_at < {now_us} - ?
                        AND id < (SELECT MAX(id) FROM backfill_run) LIMIT ?)",
        ),
    },
    Sweep {
        table: "backfill_repo",
        keep: Keep::For(MONTH),
        delete: Delete::Statement(
            "DELETE FROM backfill_repo WHERE did IN (
                        SELECT did FROM backfill_repo WHERE found_at < {now_us} - ? AND next_at IS NULL LIMIT ?)",
        ),
    },
    Sweep {
        table: "webhook_deliveries",
        keep: Keep::For(MONTH),
        delete: Delete::Statement(
            "DELETE FROM webhook_deliveries WHERE id IN (
                        SELECT id FROM webhook_deliveries WHERE finished_at < {now_us} - ?
                        ORDER BY finished_at LIMIT ?)",
        ),
    },
    Sweep {
        table: "labels",
        keep: Keep::For(LABEL_ENDS),
        delete: Delete::Statement(
            "DELETE FROM labels WHERE (src, uri, val) IN (
                        SELECT src, uri, val FROM labels WHERE ended_at < {now_us} - ? LIMIT ?)",
        ),
    },
];

/// A log-in that was begun and not ended is refused by then.
const LOG_IN: Duration = Duration::from_secs(10 * 60);

/// A session that was not used for so long: at half, people who come each season log in each time.
const SEASON: Duration = Duration::from_secs(90 * 24 * 3600);

/// The registry's own tables. Their times are microseconds since the Unix epoch, as in all tables here.
pub const REGISTRY: &[Sweep] = &[
    of_registry("oauth_auth_requests", "created_at", LOG_IN),
    of_registry("pending_device_auth", "expires_at", Duration::ZERO),
    of_registry("ui_sessions", "expires_at", Duration::ZERO),
    of_registry("oauth_sessions", "updated_at", SEASON),
    of_registry("hold_crew_approvals", "expires_at", Duration::ZERO),
    // The next denial doubles the wait of the one before, so that is remembered for a while.
    of_registry("hold_crew_denials", "next_retry_at", DAY),
];

const fn of_registry(table: &'static str, column: &'static str, keep: Duration) -> Sweep {
    Sweep { table, keep: Keep::For(keep), delete: Delete::Past(column) }
}

/// A time below it is none in microseconds, unless from before 2001: seconds and milliseconds must not pass for times
/// long past.
const MICROSECONDS_MIN: i64 = 1_000_000_000_000_000;

/// Whether a table can be swept. Our own can.
pub(in crate::store) async fn sweepable(session: &mut Session, sweep: &Sweep) -> QueryResult<Sweepable> {
    let Delete::Past(column) = sweep.delete else { return Ok(Sweepable::Yes) };
    let columns = Statement::new(if session.has_other_writers() {
        "SELECT CAST(column_name AS TEXT), CAST(data_type AS TEXT) FROM information_schema.columns
         WHERE table_schema = current_schema() AND table_name = ?"
    } else {
        "SELECT name, type FROM pragma_table_info(?)"
    });
    let columns: Vec<(String, String)> = session.load::<(Text, Text), _>(columns.bind(sweep.table)).await?;
    let is_number = |kind: &str| ["BIGINT", "INTEGER"].contains(&kind.to_ascii_uppercase().as_str());
    Ok(match columns.iter().find(|(name, _)| name == column) {
        _ if columns.is_empty() => Sweepable::Absent,
        Some((_, kind)) if is_number(kind) => Sweepable::Yes,
        _ => Sweepable::Without(column),
    })
}

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
    let delete = match sweep.delete {
        Delete::Statement(text) => Statement::new(text),
        // By the time alone: the key of a table that is not ours is not known.
        Delete::Past(column) => Statement::new(&format!(
            "DELETE FROM {table} WHERE {column} > {MICROSECONDS_MIN} AND {column} <= (
                 SELECT MAX(past.at) FROM (SELECT {column} AS at FROM {table}
                     WHERE {column} > {MICROSECONDS_MIN} AND {column} < {{now_us}} - ? ORDER BY {column} LIMIT ?) past)",
            table = sweep.table
        )),
    };
    let delete = delete.bind(micros(keep)).bind(i64::from(SWEEP_ROWS_MAX));
    let deleted = session.execute(delete).await?;
    Ok(u32::try_from(deleted).unwrap_or(u32::MAX))
}

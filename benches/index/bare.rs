//! The other side: the rows that the index made, as the least that any program must send to have them.

use atcr_workers::store::Backend;
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use tokio_postgres::NoTls;

use crate::fixture::Fixture;
use crate::stopwatch::{Cost, Stopwatch};

/// As the store sets its own sessions.
const SETTINGS: &str =
    "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 4000";

/// Every table that the frames write to, owners first.
const TABLES: [&str; 12] = [
    "users",
    "records",
    "manifests",
    "layers",
    "manifest_annotations",
    "tags",
    "stars",
    "repo_pages",
    "captains",
    "scans",
    "hold_repository_stats",
    "repository_stats",
];

/// How far each table was at the end of a batch: rows with a mark up to it were written by then.
pub(crate) type Marks = [i64; TABLES.len()];

/// How far the tables are now.
pub(crate) async fn marks(fixture: &Fixture) -> Marks {
    let marks = match fixture.database.backend() {
        Backend::Sqlite => {
            TABLES.map(|table| format!("(SELECT COALESCE(MAX(rowid), 0) FROM {table})")).join(" || ' ' || ")
        }
        Backend::Postgres => TABLES.map(|_| "pg_current_xact_id()::text").join(" || ' ' || "),
    };
    let line = fixture.lines(&format!("SELECT {marks} AS line")).await.remove(0);
    let mut marks = line.split(' ').map(|mark| mark.parse().unwrap());
    std::array::from_fn(|_| marks.next().unwrap())
}

/// The rows that are there as inserts of many rows each, a statement per table, in the batches that wrote them last; `marks`
/// are of the ends of the batches.
pub(crate) async fn batches(fixture: &Fixture, marks: &[Marks]) -> Vec<Vec<String>> {
    let mut batches = vec![Vec::new(); marks.len()];
    for (n, table) in TABLES.iter().enumerate() {
        let mut rows = rows(fixture, table).await.into_iter().peekable();
        for (batch, marks) in batches.iter_mut().zip(marks) {
            let mut list = Vec::new();
            while let Some((_, row)) = rows.next_if(|(mark, _)| *mark <= marks[n]) {
                list.push(row);
            }
            if !list.is_empty() {
                batch.push(insert_of(table, &list));
            }
        }
        assert!(rows.next().is_none(), "{table}: every row is of a batch");
    }
    for (n, batch) in batches.iter_mut().enumerate() {
        batch.push(cursor(n));
    }
    batches
}

/// The same rows table by table, in so many batches of one size: what nobody can do who follows a stream.
pub(crate) async fn sorted_batches(fixture: &Fixture, count: usize) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for table in TABLES {
        all.extend(rows(fixture, table).await.into_iter().map(|(_, row)| (table, row)));
    }
    let batch = |(n, rows): (usize, &[(&str, String)])| {
        let of_table = |rows: &[(&str, String)]| {
            insert_of(rows[0].0, &rows.iter().map(|(_, row)| row.clone()).collect::<Vec<_>>())
        };
        rows.chunk_by(|a, b| a.0 == b.0).map(of_table).chain([cursor(n)]).collect()
    };
    all.chunks(all.len().div_ceil(count)).enumerate().map(batch).collect()
}

fn insert_of(table: &str, rows: &[String]) -> String {
    format!("INSERT INTO {table} VALUES {}", rows.join(","))
}

fn cursor(n: usize) -> String {
    format!(
        "INSERT INTO stream_cursor (wire, host, time_us, saved_at) VALUES ('v1', 'bench.test:443', {n}, 0)
         ON CONFLICT (wire, host) DO UPDATE SET time_us = excluded.time_us"
    )
}

/// The first table whose rows are not the same in both databases.
pub(crate) async fn difference(one: &Fixture, other: &Fixture) -> Option<&'static str> {
    for table in TABLES {
        if sorted(rows(one, table).await) != sorted(rows(other, table).await) {
            return Some(table);
        }
    }
    None
}

fn sorted(rows: Vec<(i64, String)>) -> Vec<String> {
    let mut rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    rows.sort();
    rows
}

/// The rows of a table in the order in which they were written, each with its mark and as a list of literals.
async fn rows(fixture: &Fixture, table: &str) -> Vec<(i64, String)> {
    let (columns, quote, mark, order) = match fixture.database.backend() {
        Backend::Sqlite => {
            (format!("SELECT name AS line FROM pragma_table_info('{table}')"), "quote", "rowid", "rowid")
        }
        Backend::Postgres => (
            format!(
                "SELECT column_name::text AS line FROM information_schema.columns
                 WHERE table_name = '{table}' ORDER BY ordinal_position"
            ),
            "quote_nullable",
            "xmin::text::bigint",
            "xmin::text::bigint, ctid",
        ),
    };
    let columns = fixture.lines(&columns).await;
    let list =
        columns.iter().map(|column| format!("{quote}({column})")).collect::<Vec<_>>().join(" || ',' || ");
    let select = format!("SELECT {mark} || ' (' || {list} || ')' AS line FROM {table} ORDER BY {order}");
    let row = |line: String| {
        let (mark, row) = line.split_once(' ').unwrap();
        (mark.parse().unwrap(), row.to_owned())
    };
    fixture.lines(&select).await.into_iter().map(row).collect()
}

/// A transaction for each batch, a statement per table.
pub(crate) async fn insert(fixture: &Fixture, batches: Vec<Vec<String>>) -> Cost {
    let url = &fixture.options.url;
    match fixture.database.backend() {
        Backend::Sqlite => {
            let mut connection = SqliteConnection::establish(url.strip_prefix("sqlite://").unwrap()).unwrap();
            connection.batch_execute(SETTINGS).unwrap();
            let watch = Stopwatch::start();
            for batch in &batches {
                connection.batch_execute("BEGIN IMMEDIATE").unwrap();
                batch.iter().for_each(|statement| connection.batch_execute(statement).unwrap());
                connection.batch_execute("COMMIT").unwrap();
            }
            watch.stop()
        }
        Backend::Postgres => {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            let watch = Stopwatch::start();
            for batch in &batches {
                client.batch_execute("BEGIN").await.unwrap();
                for statement in batch {
                    client.batch_execute(statement).await.unwrap();
                }
                client.batch_execute("COMMIT").await.unwrap();
            }
            let cost = watch.stop();
            drop(client);
            connection.await.unwrap().unwrap();
            cost
        }
    }
}

//! The other side: the rows that the index made, as the least that any program must send to have them.

use atcr_workers::store::Backend;
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use tokio_postgres::NoTls;

use crate::fixture::Fixture;
use crate::stopwatch::{Cost, Stopwatch};

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

/// Rows of each table.
pub(crate) type Sizes = [usize; TABLES.len()];

/// How many rows there are now.
pub(crate) async fn sizes(fixture: &Fixture) -> Sizes {
    let counts = TABLES.map(|table| format!("(SELECT COUNT(*) FROM {table})")).join(" || ' ' || ");
    let line = fixture.lines(&format!("SELECT {counts} AS line")).await.remove(0);
    let mut counts = line.split(' ').map(|count| count.parse().unwrap());
    std::array::from_fn(|_| counts.next().unwrap())
}

/// The rows as inserts of many rows each, batch by batch; `sizes` tells where each batch ended.
pub(crate) async fn batches(fixture: &Fixture, sizes: &[Sizes]) -> Vec<Vec<String>> {
    let mut batches = vec![Vec::new(); sizes.len()];
    for (n, table) in TABLES.iter().enumerate() {
        let rows = rows(fixture, table).await;
        let mut from = 0;
        for (batch, sizes) in batches.iter_mut().zip(sizes) {
            let to = sizes[n];
            if from < to {
                batch.push(format!("INSERT INTO {table} VALUES {}", rows[from..to].join(",")));
            }
            from = to;
        }
        assert_eq!(from, rows.len(), "{table}: no row was ever taken away");
    }
    for (n, batch) in batches.iter_mut().enumerate() {
        batch.push(cursor(n));
    }
    batches
}

/// The rows that are there at the end, table by table, in so many batches of one size.
pub(crate) async fn even_batches(fixture: &Fixture, count: usize) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for table in TABLES {
        all.extend(rows(fixture, table).await.into_iter().map(|row| (table, row)));
    }
    let batch = |(n, rows): (usize, &[(&str, String)])| {
        let of_table = |rows: &[(&str, String)]| {
            let list: Vec<_> = rows.iter().map(|(_, row)| row.as_str()).collect();
            format!("INSERT INTO {} VALUES {}", rows[0].0, list.join(","))
        };
        rows.chunk_by(|a, b| a.0 == b.0).map(of_table).chain([cursor(n)]).collect()
    };
    all.chunks(all.len().div_ceil(count)).enumerate().map(batch).collect()
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
        let (mut one, mut other) = (rows(one, table).await, rows(other, table).await);
        one.sort();
        other.sort();
        if one != other {
            return Some(table);
        }
    }
    None
}

/// The rows of a table in the order in which they came, each as a list of literals.
async fn rows(fixture: &Fixture, table: &str) -> Vec<String> {
    let (columns, quote, order) = match fixture.database.backend() {
        Backend::Sqlite => {
            (format!("SELECT name AS line FROM pragma_table_info('{table}')"), "quote", "rowid")
        }
        Backend::Postgres => (
            format!(
                "SELECT column_name::text AS line FROM information_schema.columns
                 WHERE table_name = '{table}' ORDER BY ordinal_position"
            ),
            "quote_nullable",
            "xmin::text::bigint, ctid",
        ),
    };
    let columns = fixture.lines(&columns).await;
    let list =
        columns.iter().map(|column| format!("{quote}({column})")).collect::<Vec<_>>().join(" || ',' || ");
    fixture.lines(&format!("SELECT '(' || {list} || ')' AS line FROM {table} ORDER BY {order}")).await
}

/// A transaction for each batch, a statement per table.
pub(crate) async fn insert(fixture: &Fixture, batches: Vec<Vec<String>>) -> Cost {
    let url = &fixture.options.url;
    match fixture.database.backend() {
        Backend::Sqlite => {
            let mut connection = SqliteConnection::establish(url.strip_prefix("sqlite://").unwrap()).unwrap();
            connection.batch_execute("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON").unwrap();
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

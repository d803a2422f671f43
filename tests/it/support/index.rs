//! The index as it stands in a database, read past our code: every table and view, as plain rows that can be compared.

use std::collections::{BTreeMap, BTreeSet};

use diesel::{Connection, RunQueryDsl, SqliteConnection, connection::SimpleConnection, sql_types::Text};
use serde_json::Value;
use tokio_postgres::NoTls;

/// Rows by table. A row is a JSON object with its keys in order, so that equal rows are equal texts.
pub(crate) type Rows = BTreeMap<String, BTreeSet<String>>;

/// What to read: a name, the table or view, its columns (JSON booleans are marked with `?`), and which of its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) from: &'static str,
    pub(crate) columns: &'static str,
}

/// Everything that follows from what the network says. Left out are the columns about our own doings (when we first
/// saw an account, when we asked for its identity) and the revisions, which no `listRecords` tells.
pub(crate) const CONTENT: &[Part] = &[
    part("users", "users", "did handle pds active? status"),
    part("records", "records WHERE state <> 'absent'", "did collection rkey cid state"),
    part("tombstones", "records WHERE state = 'absent'", "did collection rkey cid"),
    part(
        "manifests",
        "manifests",
        "did rkey repository digest media_type schema_version hold_did created_at artifact_type config_digest \
         config_size config_media_type subject_digest",
    ),
    part("layers", "layers", "did rkey layer_index digest size media_type"),
    part(
        "manifest_references",
        "manifest_references",
        "did rkey reference_index digest size media_type os architecture variant os_version is_attestation?",
    ),
    part("manifest_annotations", "manifest_annotations", "did rkey key value"),
    part("repository_annotations", "repository_annotations", "did repository key value updated_at"),
    part("tags", "tags", "did rkey repository tag digest created_at"),
    part("stars", "stars", "did rkey owner_did repository created_at"),
    part("repo_pages", "repo_pages", "did rkey repository description avatar_cid created_at updated_at"),
    part("profiles", "profiles", "did rkey default_hold_did auto_remove_untagged? created_at updated_at"),
    part(
        "captains",
        "captains",
        "hold_did owner_did public? allow_all_crew? deployed_at region provider successor_did",
    ),
    part("crew", "crew", "hold_did rkey member_did role permissions added_at tier"),
    part(
        "hold_repository_stats",
        "hold_repository_stats",
        "hold_did rkey owner_did repository pull_count push_count last_pull last_push updated_at",
    ),
    part(
        "repository_stats",
        "repository_stats",
        "did repository pull_count push_count last_pull last_push updated_at",
    ),
    part(
        "scans",
        "scans",
        "hold_did rkey manifest_digest repository owner_did critical high medium low total scanner_version scanned_at",
    ),
];

/// The version that each record's rows come from.
pub(crate) const REVISIONS: Part = part("revisions", "records", "did collection rkey rev cid state");

/// Where each server's stream is.
pub(crate) const CURSORS: Part = part("stream_cursor", "stream_cursor", "wire host time_us seq");

/// What is to be read again from its repository.
pub(crate) const REQUESTS: Part = part("backfill_request", "backfill_request", "did reason asked_at");

/// A part of the index, for what [`CONTENT`] leaves out.
pub(crate) const fn part(name: &'static str, from: &'static str, columns: &'static str) -> Part {
    Part { name, from, columns }
}

/// Reads these parts in one statement, hence as they were at one moment. An error is a database that does not answer,
/// or has no such table yet.
pub(crate) async fn read(url: &str, parts: &[Part]) -> Result<Rows, String> {
    let sqlite = url.strip_prefix("sqlite://");
    let build = if sqlite.is_some() { "json_object" } else { "json_build_object" };
    let selects: Vec<_> = parts.iter().map(|part| part.select(build)).collect();
    let sql = selects.join(" UNION ALL ");
    let found = match sqlite {
        Some(path) => read_sqlite(path, &sql).map_err(|error| error.to_string())?,
        None => read_postgres(url, &sql).await.map_err(|error| error.to_string())?,
    };
    let mut rows: Rows = parts.iter().map(|part| (part.name.to_owned(), BTreeSet::new())).collect();
    for (name, row) in found {
        let part = parts.iter().find(|part| part.name == name).expect("the statement names its parts");
        assert!(rows.get_mut(&name).unwrap().insert(part.plain(&row)), "{name} has {row} twice");
    }
    Ok(rows)
}

/// One row as [`read`] gives it.
pub(crate) fn row(fields: impl IntoIterator<Item = (impl Into<String>, Value)>) -> String {
    let sorted: BTreeMap<String, Value> =
        fields.into_iter().map(|(column, value)| (column.into(), value)).collect();
    serde_json::to_string(&sorted).unwrap()
}

impl Part {
    fn columns(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let columns = self.columns.split_whitespace();
        columns.map(|column| column.strip_suffix('?').map_or((column, false), |column| (column, true)))
    }

    fn select(&self, build: &str) -> String {
        let fields: Vec<_> = self.columns().map(|(column, _)| format!("'{column}', {column}")).collect();
        let (name, fields, from) = (self.name, fields.join(", "), self.from);
        format!("SELECT '{name}' AS part, CAST({build}({fields}) AS TEXT) AS found FROM {from}")
    }

    /// SQLite knows no booleans.
    fn plain(&self, found: &str) -> String {
        let Value::Object(mut found) = serde_json::from_str(found).unwrap() else {
            panic!("no row: {found}")
        };
        for (column, is_boolean) in self.columns() {
            if let (true, Some(number)) = (is_boolean, found[column].as_i64()) {
                found[column] = Value::from(number != 0);
            }
        }
        row(found)
    }
}

#[derive(diesel::QueryableByName)]
struct Found {
    #[diesel(sql_type = Text)]
    part: String,
    #[diesel(sql_type = Text)]
    found: String,
}

fn read_sqlite(path: &str, sql: &str) -> diesel::QueryResult<Vec<(String, String)>> {
    let mut connection = SqliteConnection::establish(path)
        .map_err(|error| diesel::result::Error::QueryBuilderError(error.to_string().into()))?;
    connection.batch_execute("PRAGMA busy_timeout = 10000")?;
    let found = diesel::sql_query(sql).load::<Found>(&mut connection)?;
    Ok(found.into_iter().map(|row| (row.part, row.found)).collect())
}

async fn read_postgres(url: &str, sql: &str) -> Result<Vec<(String, String)>, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    let found = client.query(sql, &[]).await;
    drop(client);
    let _ = connection.await;
    Ok(found?.iter().map(|row| (row.get(0), row.get(1))).collect())
}

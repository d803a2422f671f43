//! The database of one test, and what the network's own record of events says that it must hold in the end.

use std::collections::BTreeMap;

use diesel::{Connection, SqliteConnection, connection::SimpleConnection};
use localnet::{Jetstream, Net, records};
use serde_json::Value;
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::support::{
    index::{self, Part, part},
    postgres::Postgres,
    truth::{self, Difference, Identity, Said},
};

/// Which database a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    Sqlite,
    Postgres,
}

const SAVED: Part = part("saved_positions", "saved_positions", "id host time_us");

/// A database of one test.
pub(super) enum Rows {
    Sqlite(TempDir),
    Postgres(String),
}

impl Rows {
    pub(super) async fn fresh(on: On) -> Self {
        match on {
            On::Sqlite => Rows::Sqlite(TempDir::new().unwrap()),
            On::Postgres => Rows::Postgres(Postgres::shared().fresh_database().await),
        }
    }

    /// For `database.url`.
    pub(super) fn url(&self) -> String {
        match self {
            Rows::Sqlite(directory) => format!("sqlite://{}", directory.path().join("atcr.db").display()),
            Rows::Postgres(url) => url.clone(),
        }
    }

    /// A connection of our own to the file.
    pub(super) fn sqlite(&self) -> SqliteConnection {
        let url = self.url();
        let path = url.strip_prefix("sqlite://").expect("a test on SQLite");
        let mut connection = SqliteConnection::establish(path).unwrap();
        connection.batch_execute("PRAGMA busy_timeout = 30000").unwrap();
        connection
    }

    /// Runs statements.
    pub(super) async fn execute(&self, sql: &str) {
        match self {
            Rows::Sqlite(_) => self.sqlite().batch_execute(sql).unwrap(),
            Rows::Postgres(url) => {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
                tokio::spawn(connection);
                client.batch_execute(sql).await.unwrap();
            }
        }
    }

    /// The rows of one part, as JSON objects, in no order.
    pub(super) async fn read(&self, part: Part) -> Vec<Value> {
        let rows = index::read(&self.url(), &[part]).await.unwrap();
        rows[part.name].iter().map(|row| serde_json::from_str(row).unwrap()).collect()
    }

    /// The saved position of a host.
    pub(super) async fn cursor(&self, host: &str) -> Option<i64> {
        let cursors = self.read(index::CURSORS).await;
        cursors.iter().find(|row| row["host"] == host).and_then(|row| row["time_us"].as_i64())
    }

    /// The saved number of a host on the second wire.
    pub(super) async fn number(&self, host: &str) -> Option<i64> {
        let cursors = self.read(index::CURSORS).await;
        cursors
            .iter()
            .find(|row| row["host"] == host && row["wire"] == "v2")
            .and_then(|row| row["seq"].as_i64())
    }

    /// What is to be read again, as `DID REASON`, in order.
    pub(super) async fn requests(&self) -> Vec<String> {
        let rows = self.read(index::REQUESTS).await;
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let mut requests: Vec<_> =
            rows.iter().map(|row| format!("{} {}", text(row, "did"), text(row, "reason"))).collect();
        requests.sort();
        requests
    }

    /// From now on every saved position is written down, in the transaction that saves it.
    pub(super) async fn write_down_positions(&self) {
        let insert = "INSERT INTO saved_positions (host, time_us) VALUES (NEW.host, NEW.time_us)";
        let sql = match self {
            Rows::Sqlite(_) => format!(
                "CREATE TABLE saved_positions (id INTEGER PRIMARY KEY, host TEXT, time_us BIGINT);
                 CREATE TRIGGER inserted AFTER INSERT ON stream_cursor BEGIN {insert}; END;
                 CREATE TRIGGER updated AFTER UPDATE ON stream_cursor BEGIN {insert}; END"
            ),
            Rows::Postgres(_) => format!(
                "CREATE TABLE saved_positions (id BIGSERIAL PRIMARY KEY, host TEXT, time_us BIGINT);
                 CREATE FUNCTION write_down() RETURNS trigger LANGUAGE plpgsql AS
                     $$ BEGIN {insert}; RETURN NEW; END $$;
                 CREATE TRIGGER saved AFTER INSERT OR UPDATE ON stream_cursor
                     FOR EACH ROW EXECUTE FUNCTION write_down()"
            ),
        };
        self.execute(&sql).await;
    }

    /// Every position of a host that was ever saved, in the order of saving.
    pub(super) async fn saved_positions(&self, host: &str) -> Vec<i64> {
        let rows = self.read(SAVED).await;
        let rows = rows.iter().filter(|row| row["host"] == host);
        let in_order: BTreeMap<_, _> =
            rows.map(|row| (row["id"].as_i64(), row["time_us"].as_i64())).collect();
        in_order.into_values().flatten().collect()
    }

    /// No saved position was ever lower than the one before it.
    pub(super) async fn position_never_went_down(&self, host: &str) {
        let saved = self.saved_positions(host).await;
        assert!(!saved.is_empty(), "no position of {host} was saved");
        assert!(saved.is_sorted(), "{saved:?}");
    }
}

/// The content, if it is what the first Jetstream's events, taken in their order, and the accounts leave. `more` are
/// records whose events the Jetstream does not count as its own.
pub(super) async fn as_folded(net: &Net, rows: &Rows, more: &[Said]) -> Result<index::Rows, Difference> {
    let said = [&fold(net.jetstream(0)), more].concat();
    let found = index::read(&rows.url(), index::CONTENT).await.unwrap();
    truth::compare(&found, &truth::rows(&said, &identities(net))).map(|()| found)
}

/// What the events of a Jetstream, taken one by one in their order, leave of each record.
fn fold(jetstream: &Jetstream) -> Vec<Said> {
    let mut said = BTreeMap::new();
    for event in jetstream.published_commits() {
        let commit = &event["commit"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let [did, collection, rkey] =
            [&event["did"], &commit["collection"], &commit["rkey"]].map(|value| text(value).unwrap());
        if !records::COLLECTIONS.contains(&collection.as_str()) {
            continue;
        }
        let value = commit.get("record").cloned();
        let latest = Said { did, collection, rkey, cid: text(&commit["cid"]), value };
        said.insert((latest.did.clone(), latest.collection.clone(), latest.rkey.clone()), latest);
    }
    said.into_values().collect()
}

/// Who the accounts of the network are.
fn identities(net: &Net) -> BTreeMap<String, Identity> {
    let of = |did: String| {
        let account = net.account(&did).unwrap();
        let own = did.strip_prefix("did:web:").map(|host| format!("http://{host}"));
        let pds = account.pds.map(|number| net.pds_url_of(number)).or(own);
        let identity =
            Identity { handle: account.handle, pds, active: account.active, status: account.status };
        (did, identity)
    };
    net.dids().into_iter().map(of).collect()
}

//! A database for one test, of either kind, and a look into it that does not go through the product.

use diesel::{Connection, RunQueryDsl, SqliteConnection, connection::SimpleConnection, sql_types::Text};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::postgres::Postgres;

/// Which database a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// Makes a test for each kind of database of each of these functions, which take the kind.
macro_rules! on_both_databases {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::support::place::Kind::Sqlite).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::support::place::Kind::Postgres).await;
            })*
        }
    };
}
pub(crate) use on_both_databases;

/// An empty database. A SQLite file goes with the test, a PostgreSQL database with its server.
pub(crate) struct Place {
    kind: Kind,
    url: String,
    _directory: Option<TempDir>,
}

/// A session with it.
pub(crate) enum Session {
    Sqlite(SqliteConnection),
    Postgres(Client),
}

#[derive(diesel::QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

impl Place {
    pub(crate) async fn fresh(kind: Kind) -> Place {
        match kind {
            Kind::Postgres => Place::on(Postgres::shared()).await,
            Kind::Sqlite => {
                let directory = tempfile::Builder::new().prefix("atcr-it-").tempdir().unwrap();
                let url = format!("sqlite://{}", directory.path().join("atcr.db").display());
                Place { kind, url, _directory: Some(directory) }
            }
        }
    }

    /// A file in this folder, which is not ours to remove.
    pub(crate) fn in_folder(folder: &std::path::Path) -> Place {
        let url = format!("sqlite://{}", folder.join("atcr.db").display());
        Place { kind: Kind::Sqlite, url, _directory: None }
    }

    /// On a server of the test's own, which it may stop or break.
    pub(crate) async fn on(server: &Postgres) -> Place {
        Place { kind: Kind::Postgres, url: server.fresh_database().await, _directory: None }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// For `database.url`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Opens a session.
    ///
    /// # Errors
    /// If the database does not answer.
    pub(crate) async fn open(&self) -> Result<Session, String> {
        if self.kind == Kind::Postgres {
            let connected = tokio_postgres::connect(&self.url, NoTls).await;
            let (client, connection) = connected.map_err(|error| error.to_string())?;
            tokio::spawn(connection);
            return Ok(Session::Postgres(client));
        }
        let path = self.url.strip_prefix("sqlite://").unwrap();
        let mut connection = SqliteConnection::establish(path).map_err(|error| error.to_string())?;
        // Longer than any writer of ours takes, a stopped one apart.
        connection.batch_execute("PRAGMA busy_timeout = 10000").map_err(|error| error.to_string())?;
        Ok(Session::Sqlite(connection))
    }

    /// What a statement gives that selects one text, named `line`.
    pub(crate) async fn lines(&self, select: &str) -> Vec<String> {
        let mut session = self.open().await.unwrap();
        session.lines(select).await.unwrap_or_else(|error| panic!("{select}: {error}"))
    }

    /// Runs statements, as somebody with a database tool does.
    pub(crate) async fn execute(&self, sql: &str) {
        let mut session = self.open().await.unwrap();
        session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Keeps every release and every fenced write waiting until the session is dropped.
    pub(crate) async fn lock_leases(&self) -> Session {
        let mut session = self.open().await.unwrap();
        let lock = match self.kind {
            Kind::Sqlite => "BEGIN IMMEDIATE",
            Kind::Postgres => "BEGIN; LOCK TABLE lease IN EXCLUSIVE MODE",
        };
        session.execute(lock).await.unwrap();
        session
    }
}

impl Session {
    /// See [`Place::lines`].
    ///
    /// # Errors
    /// If the database does not answer, or refuses.
    pub(crate) async fn lines(&mut self, select: &str) -> Result<Vec<String>, String> {
        match self {
            Session::Sqlite(connection) => {
                let lines = diesel::sql_query(select).load::<Line>(connection);
                Ok(lines.map_err(|error| error.to_string())?.into_iter().map(|line| line.line).collect())
            }
            Session::Postgres(client) => {
                let messages = client.simple_query(select).await.map_err(|error| error.to_string())?;
                let line = |message: &SimpleQueryMessage| match message {
                    SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                    _ => None,
                };
                Ok(messages.iter().filter_map(line).collect())
            }
        }
    }

    /// Runs statements.
    ///
    /// # Errors
    /// If the database does not answer, or refuses.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<(), String> {
        match self {
            Session::Sqlite(connection) => connection.batch_execute(sql).map_err(|error| error.to_string()),
            Session::Postgres(client) => client.batch_execute(sql).await.map_err(|error| error.to_string()),
        }
    }
}

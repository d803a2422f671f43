//! A database for one test, with a lease taken, and a reader of its rows that goes around the store.

use std::time::Duration;

use atcr_workers::atproto::Change;
use atcr_workers::store::{Applied, Backend, Database, Fencing, Options, SqlLeases, Tx};
use diesel::connection::SimpleConnection;
use diesel::{Connection, QueryableByName, RunQueryDsl, SqliteConnection, sql_query, sql_types::Text};
use leased_actors::clock::Clock;
use leased_actors::lease::{
    Ask, Claim, Incarnation, LeaseName, LeaseStore, LeaseView, News, Registration, Release, Renewal,
    StoreError, Term, TermId, Trust,
};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::support::postgres::Postgres;

pub(crate) struct Fixture {
    pub(crate) database: Database,
    pub(crate) leases: SqlLeases,
    pub(crate) options: Options,
    _directory: Option<TempDir>,
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

#[derive(QueryableByName)]
struct PlanStep {
    #[diesel(sql_type = Text)]
    detail: String,
}

impl Fixture {
    pub(crate) async fn sqlite() -> Self {
        let fixture = Self::empty_sqlite().await;
        fixture.database.migrate().await.unwrap();
        fixture
    }

    pub(crate) async fn postgres() -> Self {
        let fixture = Self::empty_postgres().await;
        fixture.database.migrate().await.unwrap();
        fixture
    }

    pub(crate) async fn empty_sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/atcr.db", directory.path().display());
        Self::open(url, Some(directory)).await
    }

    /// A migrated database on a server of the test's own.
    pub(crate) async fn on(server: &Postgres) -> Self {
        let fixture = Self::open(server.fresh_database().await, None).await;
        fixture.database.migrate().await.unwrap();
        fixture
    }

    pub(crate) async fn empty_postgres() -> Self {
        Self::open(Postgres::shared().fresh_database().await, None).await
    }

    pub(crate) async fn open(url: String, directory: Option<TempDir>) -> Self {
        let options = Options {
            url,
            direct_url: None,
            max_connections: 5,
            renew_timeout: Duration::from_secs(10),
            stop_within: Duration::from_secs(20),
            fencing: Fencing::Leased,
        };
        let database = Database::open(&options).await.unwrap();
        let leases = SqlLeases::new(database.clone());
        Self { database, leases, options, _directory: directory }
    }

    /// Registers an instance and acquires `work` for it.
    pub(crate) async fn acquire(&self) -> Claim {
        let me = registration();
        self.leases.register(&me, &[name()]).await.unwrap();
        self.leases.claim(&ask(me.incarnation)).await.unwrap().unwrap()
    }

    /// A trusted term of `work`.
    pub(crate) async fn term(&self) -> Term {
        Term::new(self.acquire().await.term, trust())
    }

    /// Applies changes in one fenced transaction.
    pub(crate) async fn apply(&self, term: &Term, changes: &[Change]) -> Applied {
        let changes = changes.to_vec();
        self.database.fenced(term, async move |tx: &mut Tx| tx.apply(&changes).await).await.unwrap()
    }

    /// The texts that a query gives in its one column, which is called `line`.
    pub(crate) async fn lines(&self, query: &str) -> Vec<String> {
        match self.database.backend() {
            Backend::Postgres => {
                let (client, connection) = tokio_postgres::connect(&self.options.url, NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                let rows = client.query(query, &[]).await.unwrap_or_else(|e| panic!("{query}: {e:?}"));
                let lines = rows.iter().map(|row| row.get(0)).collect();
                drop(client);
                connection.await.unwrap().unwrap();
                lines
            }
            Backend::Sqlite => {
                let path = self.options.url.strip_prefix("sqlite://").unwrap();
                let mut connection = SqliteConnection::establish(path).unwrap();
                let lines = sql_query(query).load::<Line>(&mut connection);
                lines.unwrap_or_else(|e| panic!("{query}: {e}")).into_iter().map(|row| row.line).collect()
            }
        }
    }

    /// How SQLite would run a statement: the steps of its plan.
    pub(crate) async fn plan(&self, statement: &str) -> Vec<String> {
        let path = self.options.url.strip_prefix("sqlite://").unwrap();
        let mut connection = SqliteConnection::establish(path).unwrap();
        let steps = sql_query(format!("EXPLAIN QUERY PLAN {statement}")).load::<PlanStep>(&mut connection);
        steps.unwrap_or_else(|e| panic!("{statement}: {e}")).into_iter().map(|step| step.detail).collect()
    }

    /// The file, for what goes around the store; waits for longer than a worker's batch takes.
    fn file(&self) -> SqliteConnection {
        let path = self.options.url.strip_prefix("sqlite://").unwrap();
        let mut connection = SqliteConnection::establish(path).unwrap();
        connection.batch_execute("PRAGMA busy_timeout = 10000").unwrap();
        connection
    }

    /// Keeps every other writer out of the leases until what it returns is dropped.
    pub(crate) async fn block(&self) -> Box<dyn std::any::Any + Send> {
        match self.database.backend() {
            Backend::Postgres => {
                let (client, connection) = tokio_postgres::connect(&self.options.url, NoTls).await.unwrap();
                tokio::spawn(connection);
                client.batch_execute("BEGIN; LOCK TABLE lease, lease_instance").await.unwrap();
                Box::new(client)
            }
            Backend::Sqlite => {
                let mut connection = self.file();
                sql_query("BEGIN IMMEDIATE").execute(&mut connection).unwrap();
                Box::new(connection)
            }
        }
    }

    /// A statement that goes around the store.
    pub(crate) async fn execute(&self, statement: &str) {
        match self.database.backend() {
            Backend::Postgres => {
                let (client, connection) = tokio_postgres::connect(&self.options.url, NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                client.batch_execute(statement).await.unwrap();
                drop(client);
                connection.await.unwrap().unwrap();
            }
            Backend::Sqlite => {
                let mut connection = self.file();
                sql_query(statement).execute(&mut connection).unwrap();
            }
        }
    }
}

pub(crate) fn name() -> LeaseName {
    "work".parse().unwrap()
}

/// A claim of `work` by somebody whose worker is fenced.
pub(crate) fn ask(me: Incarnation) -> Ask {
    Ask { name: name(), me, grace: Duration::ZERO, beaconless: None, ends_wish: false }
}

pub(crate) fn registration() -> Registration {
    leased_actors::testing::registration("here")
}

pub(crate) fn trust() -> Trust {
    let clock = Clock::boottime();
    let trust = Trust::none(clock.clone());
    trust.extend(clock.now() + Duration::from_secs(3600));
    trust
}

/// A fixture is a lease store, so that the suite keeps the directory of the file for as long as it needs it.
#[async_trait::async_trait]
impl LeaseStore for Fixture {
    async fn register(&self, me: &Registration, names: &[LeaseName]) -> Result<(), StoreError> {
        self.leases.register(me, names).await
    }

    async fn renew(&self, me: Incarnation) -> Result<Renewal, StoreError> {
        self.leases.renew(me).await
    }

    async fn declare_dead(&self, who: Incarnation, seen: i64) -> Result<bool, StoreError> {
        self.leases.declare_dead(who, seen).await
    }

    async fn bury(&self, me: Incarnation) -> Result<Vec<Incarnation>, StoreError> {
        self.leases.bury(me).await
    }

    async fn claim(&self, ask: &Ask) -> Result<Option<Claim>, StoreError> {
        self.leases.claim(ask).await
    }

    async fn end_wait(&self, term: &TermId) -> Result<bool, StoreError> {
        self.leases.end_wait(term).await
    }

    async fn release(&self, term: &TermId, how: Release) -> Result<bool, StoreError> {
        self.leases.release(term, how).await
    }

    async fn depart(&self, me: Incarnation) -> Result<(), StoreError> {
        self.leases.depart(me).await
    }

    async fn news(&self, me: Incarnation) -> News {
        self.leases.news(me).await
    }

    async fn list(&self) -> Result<Vec<LeaseView>, StoreError> {
        self.leases.list().await
    }
}

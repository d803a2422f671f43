//! Migrations: embedded, the same for both databases, applied by one process at a time.

mod spoken;

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use diesel::migration::{Migration, MigrationSource};
use diesel_async::{AsyncMigrationHarness, RunQueryDsl};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use tokio::time::Instant;

use super::error::MigrateError;
use super::sqlite::{self, Sync};
use super::statement::Dialect;
use super::{Database, Store, postgres};

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations");

/// The key of the advisory lock: "atcr-mig" in bytes. Anything else of ours that locks uses random keys of 62 bits.
const LOCK_KEY: i64 = 0x6174_6372_2d6d_6967;

/// How long to wait for another process's migrations. At half of it a large index could be slower; nothing else
/// depends on it.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(120);

/// A free lock is seen after half of this on average.
const LOCK_POLL_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
enum Step {
    List,
    Up,
    Down,
}

impl Database {
    /// Applies what is missing and returns the names of it. Any number of processes may start at once: one migrates,
    /// the others wait and find nothing to do. Needs a multi-thread runtime.
    pub async fn migrate(&self) -> Result<Vec<String>, MigrateError> {
        self.migration_step(Step::Up).await
    }

    /// The names of the migrations that are missing, in their order.
    pub async fn pending_migrations(&self) -> Result<Vec<String>, MigrateError> {
        self.migration_step(Step::List).await
    }

    /// Reverts all migrations: the database is empty afterwards. For the test of the way down.
    #[doc(hidden)]
    pub async fn revert_migrations(&self) -> Result<Vec<String>, MigrateError> {
        self.migration_step(Step::Down).await
    }

    async fn migration_step(&self, step: Step) -> Result<Vec<String>, MigrateError> {
        match self.store() {
            Store::Postgres { sessions, .. } => {
                let mut session = sessions.unhurried().connect().await.map_err(failed)?;
                let lock = format!("SELECT pg_advisory_lock({LOCK_KEY})");
                diesel::sql_query(lock).execute(&mut session).await.map_err(failed)?;
                // The lock ends with the session, which the harness owns.
                run(AsyncMigrationHarness::new(session), &postgres::DIALECT, step)
            }
            Store::Sqlite { place, busy, .. } => {
                let migrated = async {
                    let _lock = lock_file(place.path()).await?;
                    let session = sqlite::connect(place, *busy, Sync::Full).await.map_err(failed)?;
                    run(AsyncMigrationHarness::new(session), &sqlite::DIALECT, step)
                };
                migrated.await.map_err(|error| explain(error, place.path()))
            }
        }
    }
}

/// What SQLite says of a disk does not tell which.
fn explain(error: MigrateError, path: &Path) -> MigrateError {
    match (error, sqlite::obstacle::of_writing(path)) {
        (MigrateError::Database(reason), Some(what)) => MigrateError::Database(format!("{reason}: {what}")),
        (MigrateError::Database(reason), None) => {
            MigrateError::Database(format!("{}: {reason}", path.display()))
        }
        (error, _) => error,
    }
}

fn run<DB, H>(mut harness: H, dialect: &Dialect, step: Step) -> Result<Vec<String>, MigrateError>
where
    DB: diesel::backend::Backend + 'static,
    H: MigrationHarness<DB>,
{
    let mut known: Vec<Box<dyn Migration<DB>>> = MIGRATIONS.migrations().map_err(failed)?;
    known = known.into_iter().map(|migration| spoken::complete(migration, dialect)).collect();
    known.sort_by(|a, b| a.name().version().cmp(&b.name().version()));
    let applied = harness.applied_migrations().map_err(failed)?;
    let unknown: Vec<String> = applied
        .iter()
        .filter(|version| !known.iter().any(|m| m.name().version() == **version))
        .map(ToString::to_string)
        .collect();
    if !unknown.is_empty() {
        return Err(MigrateError::Newer(unknown.join(", ")));
    }
    let is_applied = |m: &dyn Migration<DB>| applied.iter().any(|v| *v == m.name().version());
    let (there, missing): (Vec<_>, Vec<_>) = known.into_iter().partition(|m| is_applied(m.as_ref()));
    let names = |list: &[Box<dyn Migration<DB>>]| list.iter().map(|m| m.name().to_string()).collect();
    match step {
        Step::List => Ok(names(&missing)),
        Step::Up => {
            for migration in &missing {
                harness.run_migration(migration.as_ref()).map_err(failed)?;
            }
            Ok(names(&missing))
        }
        Step::Down => {
            for migration in there.iter().rev() {
                harness.revert_migration(migration.as_ref()).map_err(failed)?;
            }
            Ok(names(&there))
        }
    }
}

/// The lock beside the database, never on it: closing any descriptor of SQLite's own files drops SQLite's locks. Polled,
/// because a blocked lock in a thread of the runtime would hold up the exit of the process.
async fn lock_file(database: &Path) -> Result<File, MigrateError> {
    let mut path = database.as_os_str().to_owned();
    path.push(".migrate");
    let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
    let give_up = Instant::now() + LOCK_WAIT_MAX;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < give_up => {
                tokio::time::sleep(LOCK_POLL_EVERY).await;
            }
            Err(error) => return Err(failed(format!("lock {}: {error}", path.to_string_lossy()))),
        }
    }
}

fn failed(reason: impl ToString) -> MigrateError {
    MigrateError::Database(reason.to_string())
}

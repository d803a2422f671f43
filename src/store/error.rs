//! What can go wrong, one enum per operation of the store, and what a caller does about it.

use std::path::PathBuf;

use leased_actors::lease::TermId;

/// The database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be read. A restart cannot help.
    #[error("database.url: {reason}")]
    Url {
        /// What was expected. Never the address itself, which may hold a password.
        reason: String,
    },
    /// The file is where a lock does not prove that a process lives. A restart cannot help.
    #[error(
        "database.url: {} is on {file_system}, where a file lock does not prove that an instance lives: move it to \
         ext4, xfs, btrfs, zfs, f2fs or tmpfs on this machine, or use PostgreSQL; for a single instance, set \
         leases.enabled = false",
        path.display()
    )]
    FileSystem {
        /// The database.
        path: PathBuf,
        /// What it is on.
        file_system: String,
    },
    /// It names something that is no database. A restart cannot help.
    #[error("database.url: {0}")]
    NotADatabase(String),
    /// A pooler on the way gives one client the prepared statements of another. A restart cannot help.
    #[error(
        "database.url: it leads to a pooler in transaction mode that mixes up the statements of its clients, so that \
         writes get lost: use pgbouncer 1.21 or later with max_prepared_statements above 0, or its session mode, or \
         PostgreSQL itself"
    )]
    Pooler,
    /// The database does not answer, or refuses us. A restart may help.
    #[error("open the database: {0}: is it up, and is database.url right? `atcr-workers settings` shows it")]
    Connect(String),
}

/// A migration that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// It holds migrations that this program does not know. A restart cannot help.
    #[error(
        "the database is of a newer version of this program: it has the unknown migrations {0}: use a program that is as \
         new, or go back as migrations/README.md says"
    )]
    Newer(String),
    /// The lock, the connection or a statement failed; what was begun was rolled back.
    #[error("migrate the database: {0}")]
    Database(String),
}

/// A read that failed.
#[derive(Debug, thiserror::Error)]
#[error("read from the database: {0}")]
pub struct ReadError(pub(super) String);

/// A fenced transaction that was not committed. Nothing of it is in the database, except that after
/// [`WriteError::Database`] a commit whose answer was lost may be.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Our own trust deadline has passed: try again once a renewal was acknowledged.
    #[error("write under {0}: its trust deadline has passed")]
    Untrusted(TermId),
    /// The lease has another holder or epoch, or its holder was declared dead: stop.
    #[error("write under {0}: the term is over")]
    Stale(TermId),
    /// The database failed, or its disk is full: try again.
    #[error("write to the database: {0}")]
    Database(String),
}

impl From<diesel::result::Error> for WriteError {
    fn from(error: diesel::result::Error) -> Self {
        WriteError::Database(error.to_string())
    }
}

impl From<diesel::result::Error> for ReadError {
    fn from(error: diesel::result::Error) -> Self {
        ReadError(error.to_string())
    }
}

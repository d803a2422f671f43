//! Which database, from its address.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::secret::masked;

/// The two databases that the same code runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// One file on one machine.
    Sqlite,
    /// A server for several machines.
    Postgres,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        })
    }
}

/// Where the database is. Its `Debug` and `Display` mask a password.
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// The file, relative to the working directory where it is not absolute.
    Sqlite(PathBuf),
    /// The whole URL, which may hold a password.
    Postgres(String),
}

impl DatabaseUrl {
    /// Which of the two.
    pub fn backend(&self) -> Backend {
        match self {
            Self::Sqlite(_) => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }
}

impl DatabaseUrl {
    /// The whole address, with the password that it may hold: for the driver only.
    pub fn reveal(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite://{}", path.display()),
            Self::Postgres(url) => url.clone(),
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(url) => f.write_str(&masked("database.url", url)),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DatabaseUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.starts_with("sqlite:") && text.contains(":memory:") {
            return Err(
                "expected a file: several processes share the database, and memory is one process's own",
            );
        }
        if let Some(path) = text.strip_prefix("sqlite://") {
            // Options would be SQLite's, and the ones that matter are ours to set.
            let good = !path.is_empty() && !path.ends_with('/') && !path.contains(['?', '#', '\0']);
            let file = good.then(|| Self::Sqlite(path.into()));
            return file.ok_or("expected a file: \"sqlite://relative.db\" or \"sqlite:///absolute/path.db\"");
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let good = text.parse::<tokio_postgres::Config>().is_ok();
            // Not the parser's own words: they may quote a piece of a password.
            return good.then(|| Self::Postgres(text.into())).ok_or(
                "expected a PostgreSQL URL such as \"postgres://user:password@host:5432/database\" (in a password, write \
                 % @ / ? # as %25 %40 %2F %3F %23), with no other options than the driver's, such as sslmode=require",
            );
        }
        Err("expected \"sqlite://FILE\" or \"postgres://USER:PASSWORD@HOST/DATABASE\"")
    }
}

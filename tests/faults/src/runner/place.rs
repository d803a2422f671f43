//! The database of a run: one file, or a server with a network before it. It numbers the commits of fenced workers.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use diesel::connection::SimpleConnection;
use diesel::sql_types::{BigInt, Text};
use diesel::{Connection, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

use super::machine::{Machine, Need, run};
use super::network::Network;
use super::postgres::{Server, free_port};

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    Sqlite,
    Postgres,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Sqlite => "sqlite",
            Kind::Postgres => "postgres",
        })
    }
}

/// Numbers commits: the number's row is locked until the commit, so numbers are in the order of commits.
const NUMBER_ON_POSTGRES: &str = "
CREATE TABLE faults_order (name TEXT PRIMARY KEY, last BIGINT NOT NULL);
CREATE TABLE faults_commit (name TEXT, place BIGINT, epoch BIGINT, n BIGINT);
CREATE FUNCTION faults_number() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE place BIGINT;
BEGIN
    INSERT INTO faults_order AS o VALUES (NEW.host, 1)
        ON CONFLICT (name) DO UPDATE SET last = o.last + 1 RETURNING last INTO place;
    INSERT INTO faults_commit VALUES (NEW.host, place, NEW.wire::BIGINT, NEW.time_us);
    RETURN NULL;
END $$;
CREATE TRIGGER faults_number AFTER INSERT OR UPDATE ON stream_cursor FOR EACH ROW EXECUTE FUNCTION faults_number();";

/// The same where there is one writer at a time.
const NUMBER_ON_SQLITE: &str = "
CREATE TABLE faults_commit (place INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, epoch INTEGER, n INTEGER);
CREATE TRIGGER faults_number_inserted AFTER INSERT ON stream_cursor BEGIN
    INSERT INTO faults_commit (name, epoch, n) VALUES (NEW.host, CAST(NEW.wire AS INTEGER), NEW.time_us);
END;
CREATE TRIGGER faults_number_updated AFTER UPDATE ON stream_cursor BEGIN
    INSERT INTO faults_commit (name, epoch, n) VALUES (NEW.host, CAST(NEW.wire AS INTEGER), NEW.time_us);
END;";

const COMMITS: &str = "SELECT name, place, epoch, n FROM faults_commit";

/// One numbered commit.
#[derive(QueryableByName)]
pub(super) struct Commit {
    #[diesel(sql_type = Text)]
    pub(super) name: String,
    #[diesel(sql_type = BigInt)]
    pub(super) place: i64,
    #[diesel(sql_type = BigInt)]
    pub(super) epoch: i64,
    #[diesel(sql_type = BigInt)]
    pub(super) n: i64,
}

/// The database of one run.
pub(super) enum Place {
    /// A file, on a small disk of its own where that can be had.
    File(Disk),
    /// A server, which one of two ports leads to, and the cables to it.
    Server { server: Box<Server>, ports: [u16; 2], network: Option<Network> },
}

/// A folder, and whether something is mounted there. Dropping it unmounts.
pub(super) struct Disk {
    pub(super) folder: PathBuf,
    mounted: bool,
}

impl Place {
    pub(super) fn make(
        kind: Kind,
        folder: &Path,
        instances: usize,
        machine: &Machine,
    ) -> Result<Self, String> {
        if kind == Kind::Sqlite {
            return Disk::make(folder, machine).map(Self::File);
        }
        let network = match machine.lacks(Need::Network) {
            None => Some(Network::make(instances)?),
            Some(_) => None,
        };
        let addresses = network.iter().flat_map(|n| (0..instances).map(|at| n.address(at))).collect();
        let server = Box::new(Server::fresh(folder, addresses)?);
        let ports = [server.port, free_port()?];
        Ok(Self::Server { server, ports, network })
    }

    /// The address for contender `at`; through a pooler on `port`, if one is given.
    pub(super) fn url(&self, at: usize, port: Option<u16>) -> String {
        match self {
            Self::File(disk) => format!("sqlite://{}", disk.file().display()),
            Self::Server { ports, network, .. } => {
                let host =
                    network.as_ref().map_or_else(|| "127.0.0.1".to_owned(), |network| network.address(at));
                Server::url(&host, port.as_slice().first().map_or(ports.as_slice(), std::slice::from_ref))
            }
        }
    }

    /// An address for the runner itself.
    pub(super) fn own_url(&self) -> String {
        match self {
            Self::File(_) => self.url(0, None),
            Self::Server { server, .. } => Server::url("127.0.0.1", &[server.port]),
        }
    }

    pub(super) fn space(&self, at: usize) -> Option<String> {
        match self {
            Self::Server { network: Some(network), .. } => Some(network.space(at)),
            _ => None,
        }
    }

    /// From now on commits are numbered; the schema is there.
    pub(super) fn number_commits(&self) -> Result<(), String> {
        match self {
            Self::File(disk) => {
                connect(disk)?.batch_execute(NUMBER_ON_SQLITE).map_err(|error| error.to_string())
            }
            Self::Server { server, .. } => server.sql("faults", NUMBER_ON_POSTGRES).map(drop),
        }
    }

    /// Every numbered commit.
    pub(super) fn commits(&self) -> Result<Vec<Commit>, String> {
        match self {
            Self::File(disk) => {
                sql_query(COMMITS).load(&mut connect(disk)?).map_err(|error| error.to_string())
            }
            Self::Server { server, .. } => {
                let lines = server.sql("faults", COMMITS)?;
                let commit = |line: &str| {
                    let mut words = line.split(' ');
                    let name = words.next()?.to_owned();
                    let mut number = || words.next()?.parse().ok();
                    Some(Commit { name, place: number()?, epoch: number()?, n: number()? })
                };
                Ok(lines.lines().filter_map(commit).collect())
            }
        }
    }
}

impl Disk {
    fn make(folder: &Path, machine: &Machine) -> Result<Self, String> {
        let folder = folder.join("disk");
        fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let mounted = machine.lacks(Need::Mounts).is_none();
        if mounted {
            sweep();
            run(&format!("mount -t tmpfs -o size=64m faults-{} {}", std::process::id(), folder.display()))?;
        }
        Ok(Self { folder, mounted })
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.join("faults.db")
    }
}

/// Unmounts what earlier runs left behind, killed in the middle.
fn sweep() {
    for line in fs::read_to_string("/proc/mounts").unwrap_or_default().lines() {
        let mut words = line.split(' ');
        let pid = words.next().and_then(|source| source.strip_prefix("faults-"));
        if let (Some(pid), Some(folder)) = (pid, words.next())
            && pid.parse::<u32>().is_ok()
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = run(&format!("umount -l {folder}"));
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = run(&format!("umount -l {}", self.folder.display()));
        }
    }
}

/// A connection of the runner's own.
pub(super) fn connect(disk: &Disk) -> Result<SqliteConnection, String> {
    let mut connection =
        SqliteConnection::establish(&disk.file().to_string_lossy()).map_err(|error| error.to_string())?;
    connection.batch_execute("PRAGMA busy_timeout = 10000").map_err(|error| error.to_string())?;
    Ok(connection)
}

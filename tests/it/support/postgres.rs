//! A private PostgreSQL, started from the installed server programs and gone when the test process is gone.
//!
//! It is started and stopped by the script below (`supervisor.rs` says why), which also removes its directory.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio_postgres::NoTls;

use super::{ports, supervisor::Supervisor};

/// `$1` is the directory, `$2` the folder of the server programs.
const SCRIPT: &str = r#"
directory=$1 bin=$2
cd "$directory"
pg_ctl() { "$bin/pg_ctl" -D data -w -t 60 "$@" >>supervisor.log 2>&1; }
initialise() {
    "$bin/initdb" -D data -U postgres --pwfile=password --auth-local=trust --auth-host=password \
        --encoding=UTF8 --locale=C --no-sync >>supervisor.log 2>&1 &&
        cat settings.conf >>data/postgresql.conf
}
start() { pg_ctl -l server.log -o "-p $1" start; }
stop() { pg_ctl -m "$1" stop; }
clean_up() {
    stop immediate
    cd / && rm -rf "$directory"
}
"#;

const INSTALL: &str = "the tests need the PostgreSQL server programs (initdb, pg_ctl, postgres), and there are none \
    in PATH or /usr/lib/postgresql/*/bin; install them with:\n    \
    apt-get install -y --no-install-recommends postgresql\nor let tests/run do it, as root";

/// Starts tried before giving up: each on another port, since a port that was free may be taken a moment later.
const STARTS_MAX: usize = 5;

/// How a server is stopped; the words of `pg_ctl stop`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// Ends the sessions, writes everything out.
    Fast,
    /// As a crash: the next start goes through recovery.
    Immediate,
}

/// One server. Dropping it stops it and removes its directory.
pub(crate) struct Postgres {
    port: u16,
    password: String,
    directory: PathBuf,
    supervisor: Supervisor,
}

impl Postgres {
    /// The server that all tests of this process share, started by the first of them. `fsync` is on, as it is in
    /// production; `ATCR_TEST_POSTGRES_FSYNC=off` is for slow disks.
    pub(crate) fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| {
            let fsync = std::env::var("ATCR_TEST_POSTGRES_FSYNC").unwrap_or_else(|_| "on".into());
            Postgres::private_with(&[("fsync", &fsync)])
        })
    }

    /// A running server for one test that stops, restarts or breaks it.
    pub(crate) fn private() -> Postgres {
        Postgres::private_with(&[])
    }

    /// As [`Postgres::private`], with lines of `postgresql.conf` that win over ours.
    pub(crate) fn private_with(settings: &[(&str, &str)]) -> Postgres {
        let programs = server_programs().unwrap_or_else(|| panic!("{INSTALL}"));
        let password = format!("{:032x}", rand::random::<u128>());
        let directory = prepare_directory(&password, settings);
        let supervisor = Supervisor::spawn(SCRIPT, |command| {
            command.arg(&directory).arg(programs).current_dir("/");
            if let Some((uid, gid)) = unprivileged() {
                command.uid(uid).gid(gid);
            }
        });
        let mut server = Postgres { port: 0, password, directory, supervisor };
        server.expect("initialise");
        let started = (0..STARTS_MAX).any(|_| {
            server.port = ports::free_block(1);
            server.supervisor.request(&format!("start {}", server.port))
        });
        assert!(started, "PostgreSQL did not start:\n{}", server.logs());
        server
    }

    /// The address of a new, empty database of its own: `postgres://…`.
    pub(crate) async fn fresh_database(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        self.url(&name)
    }

    /// The address of a database by its name, over TCP and as superuser.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres:{}@127.0.0.1:{}/{database}", self.password, self.port)
    }

    /// Runs statements in the maintenance database: what an administrator does (terminate sessions, roles).
    pub(crate) async fn execute(&self, sql: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url("postgres"), NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        drop(client);
        connection.await.unwrap().unwrap();
    }

    /// Starts a stopped server, on the same port and with the same data.
    pub(crate) fn start(&self) {
        self.expect(&format!("start {}", self.port));
    }

    /// Stops the server and waits until it is gone.
    pub(crate) fn stop(&self, how: Stop) {
        self.expect(match how {
            Stop::Fast => "stop fast",
            Stop::Immediate => "stop immediate",
        });
    }

    /// Stops and starts, as an update of the server does.
    pub(crate) fn restart(&self) {
        self.stop(Stop::Fast);
        self.start();
    }

    /// The process id of the running server's first process.
    pub(crate) fn pid(&self) -> i32 {
        let file = fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }

    /// Where the server keeps its data, its Unix socket and its log.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn expect(&self, request: &str) {
        assert!(self.supervisor.request(request), "PostgreSQL: `{request}` failed:\n{}", self.logs());
    }

    fn logs(&self) -> String {
        let read = |name| fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        read("supervisor.log") + &read("server.log")
    }
}

/// The folder with the server programs: that of `PATH`, or else Debian's with the highest version.
fn server_programs() -> Option<PathBuf> {
    let complete =
        |folder: &PathBuf| ["initdb", "pg_ctl", "postgres"].iter().all(|name| folder.join(name).is_file());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let version = |folder: &PathBuf| -> Option<u32> { folder.file_name()?.to_str()?.parse().ok() };
    let debian =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let debian = debian.filter(|folder| complete(&folder.join("bin"))).max_by_key(version);
    std::env::split_paths(&path).find(complete).or_else(|| debian.map(|folder| folder.join("bin")))
}

/// A directory that only the server's user can enter, with what the supervisor needs for `initdb`.
fn prepare_directory(password: &str, settings: &[(&str, &str)]) -> PathBuf {
    let directory = tempfile::Builder::new().prefix("atcr-pg-").tempdir().unwrap().keep();
    let ours = [
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", directory.to_str().unwrap()),
        ("max_connections", "200"),
        ("fsync", "on"),
    ];
    let settings: String =
        ours.iter().chain(settings).map(|(name, value)| format!("{name} = '{value}'\n")).collect();
    fs::write(directory.join("password"), password).unwrap();
    fs::write(directory.join("settings.conf"), settings).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    if let Some((uid, gid)) = unprivileged() {
        for path in [&directory, &directory.join("password"), &directory.join("settings.conf")] {
            chown(path, Some(uid), Some(gid)).unwrap();
        }
    }
    directory
}

/// Who runs the server when we are root, which it refuses: `postgres`, or `nobody`. None: we are not root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let ids = |name: &str| {
        let mut fields = users.lines().find(|line| line.split(':').next() == Some(name))?.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(ids("postgres").or_else(|| ids("nobody")).expect("root has a user `postgres` or `nobody` to lend"))
}

//! Private PostgreSQL servers: started from the installed programs, under a user that the server accepts, and ended by
//! the kernel when the runner is.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::machine::{hand_over, unprivileged};
use super::process::{poll, reap};

const PASSWORD: &str = "faults";

/// For a start or a stop, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One server. Dropping it stops it at once.
pub(super) struct Server {
    programs: PathBuf,
    directory: PathBuf,
    addresses: Vec<String>,
    pub(super) port: u16,
    child: Option<Child>,
}

impl Server {
    /// A fresh server under `folder`, started. It listens on these addresses and on loopback.
    pub(super) fn fresh(folder: &Path, addresses: Vec<String>) -> Result<Self, String> {
        let programs = programs().ok_or("no PostgreSQL server programs: install postgresql")?;
        let directory = folder.join("primary");
        let password = folder.join("password");
        fs::write(&password, PASSWORD).map_err(|error| error.to_string())?;
        fs::create_dir(&directory).map_err(|error| error.to_string())?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))
            .map_err(|error| error.to_string())?;
        hand_over(&password)?;
        hand_over(&directory)?;
        let mut server = Self { programs, directory, addresses, port: free_port()?, child: None };
        let mut initdb = server.program("initdb");
        initdb.args([
            "-U",
            "postgres",
            "--auth=password",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--pwfile",
        ]);
        output(initdb.arg(password).arg("-D").arg(&server.directory))?;
        server.configure()?;
        server.start(&[])?;
        server.sql("postgres", "CREATE DATABASE faults")?;
        Ok(server)
    }

    /// A copy of this one that follows it, on a port of its own, and is up to date.
    pub(super) fn standby(&self, folder: &Path, port: u16) -> Result<Self, String> {
        let directory = folder.join(format!("standby-{}", rand::random::<u32>()));
        let mut copy = self.program("pg_basebackup");
        copy.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-U",
            "postgres",
            "-X",
            "stream",
            "-R",
            "-c",
            "fast",
        ]);
        output(copy.env("PGPASSWORD", PASSWORD).arg("-D").arg(&directory))?;
        let (programs, addresses) = (self.programs.clone(), self.addresses.clone());
        let mut standby = Self { programs, directory, addresses, port, child: None };
        standby.start(&[])?;
        poll("the standby follows", PATIENCE, || {
            let following = self.sql("postgres", "SELECT state FROM pg_stat_replication")?;
            if following.trim() == "streaming" { Ok(()) } else { Err(following) }
        })?;
        Ok(standby)
    }

    /// Makes a standby the primary.
    pub(super) fn promote(&self) -> Result<(), String> {
        self.sql("postgres", "SELECT pg_promote()").map(drop)
    }

    /// Starts the stopped server with this environment, and waits until it answers.
    pub(super) fn start(&mut self, environment: &[(&str, String)]) -> Result<(), String> {
        let log = fs::OpenOptions::new().append(true).create(true).open(self.directory.with_extension("log"));
        let log = log.map_err(|error| error.to_string())?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "QUIT"]).arg(self.programs.join("postgres"));
        command.arg("-D").arg(&self.directory).args(["-p", &self.port.to_string()]);
        command.envs(environment.iter().map(|(name, value)| (name, value))).current_dir("/").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(as_its_user(&mut command).spawn().map_err(|error| format!("setpriv: {error}"))?);
        poll("PostgreSQL answers", PATIENCE, || self.sql("postgres", "SELECT 1").map(drop))
    }

    /// Stops it: at once, as a crash would, or in order. Waits until it is gone.
    pub(super) fn stop(&mut self, at_once: bool) -> Result<(), String> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let signal = if at_once { Signal::QUIT } else { Signal::INT };
        kill_process(Pid::from_child(&child), signal).map_err(|error| error.to_string())?;
        reap(&mut child, PATIENCE)
    }

    /// Runs statements as superuser, over loopback; what they return, columns separated by spaces.
    pub(super) fn sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-F",
            " ",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
        ]);
        psql.args(["-p", &self.port.to_string(), "-d", database, "-c", sql]);
        output(psql.env("PGPASSWORD", PASSWORD).env("PGCONNECT_TIMEOUT", "5"))
    }

    /// The address of a server at one of these ports, of which one takes writes.
    pub(super) fn url(host: &str, ports: &[u16]) -> String {
        let hosts: Vec<String> = ports.iter().map(|port| format!("{host}:{port}")).collect();
        format!("postgres://postgres:{PASSWORD}@{}/faults", hosts.join(","))
    }

    fn configure(&self) -> Result<(), String> {
        let addresses: Vec<&str> = self.addresses.iter().map(String::as_str).chain(["127.0.0.1"]).collect();
        let settings = format!(
            "listen_addresses = '{}'\nunix_socket_directories = ''\nmax_connections = 200\nwal_level = replica\n\
             max_wal_senders = 4\nlog_min_messages = warning\n",
            addresses.join(",")
        );
        let append = |name: &str, text: &str| {
            let path = self.directory.join(name);
            let whole = fs::read_to_string(&path).map(|old| old + text);
            whole.and_then(|whole| fs::write(&path, whole)).map_err(|error| format!("{name}: {error}"))
        };
        append("postgresql.conf", &settings)?;
        append("pg_hba.conf", "host all all 10.0.0.0/8 password\n")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        as_its_user(command.current_dir("/"));
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop(true);
    }
}

/// Lends the command the user that PostgreSQL accepts.
pub(super) fn as_its_user(command: &mut Command) -> &mut Command {
    match unprivileged() {
        Some((uid, gid)) => command.uid(uid).gid(gid),
        None => command,
    }
}

/// A free port on loopback, below the range that outgoing connections take theirs from.
pub(super) fn free_port() -> Result<u16, String> {
    let ports = (0..200).map(|_| rand::random_range(20_000..32_000));
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
    ports.into_iter().find(free).ok_or_else(|| "no free port".to_owned())
}

/// The folder with the server programs: that of `PATH`, or else Debian's with the highest version.
fn programs() -> Option<PathBuf> {
    let complete =
        |folder: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| folder.join(name).is_file());
    let debian =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let version = |folder: &PathBuf| -> Option<u32> { folder.file_name()?.to_str()?.parse().ok() };
    let debian = debian.filter(|folder| complete(&folder.join("bin"))).max_by_key(version);
    let path = std::env::var_os("PATH").unwrap_or_default();
    debian.map(|folder| folder.join("bin")).or_else(|| std::env::split_paths(&path).find(complete))
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

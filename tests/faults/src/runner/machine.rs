//! What this machine can do, and what it lacks: a nemesis that it cannot carry out is told, never passed in silence.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a nemesis may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    Network,
    Mounts,
    Pooler,
    FakeTime,
}

/// What was found.
pub(super) struct Machine {
    root: bool,
    ip: bool,
    /// The program `pgbouncer`.
    pub(super) pooler: Option<PathBuf>,
    /// The library that fakes time.
    pub(super) fake_time: Option<PathBuf>,
}

impl Machine {
    pub(super) fn look() -> Self {
        let root = rustix::process::geteuid().is_root();
        let pooler = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].map(PathBuf::from);
        Self {
            root,
            ip: root && quiet(Command::new("ip").args(["netns", "list"])),
            pooler: pooler.into_iter().find(|path| path.is_file()),
            fake_time: fake_time(),
        }
    }

    /// Why this cannot be had.
    pub(super) fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            Need::Network if !self.root => Some("needs root"),
            Need::Network if !self.ip => Some("no `ip netns`: install iproute2"),
            Need::Mounts if !self.root => Some("needs root"),
            Need::Pooler if self.pooler.is_none() => Some("no pgbouncer: install pgbouncer"),
            Need::FakeTime if self.fake_time.is_none() => Some("no libfaketime: install libfaketime"),
            _ => None,
        }
    }
}

fn fake_time() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let library = |folder: PathBuf| folder.join("faketime/libfaketimeMT.so.1");
    folders.map(library).find(|path| path.is_file())
}

/// Runs a command to its end; whether it succeeded.
pub(super) fn quiet(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// The same of one line of words. Err: what it was, and what it said.
pub(super) fn run(line: &str) -> Result<(), String> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    let output =
        command.args(words).stdin(Stdio::null()).output().map_err(|error| format!("{line}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// The ids that PostgreSQL and pgbouncer run under when we are root, which they refuse.
pub(super) fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let mut fields = users.lines().find(|line| line.split(':').next() == Some(name))?.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    ids("postgres").or_else(|| ids("nobody"))
}

/// Gives a path to those.
pub(super) fn hand_over(path: &Path) -> Result<(), String> {
    let Some((uid, gid)) = unprivileged() else { return Ok(()) };
    std::os::unix::fs::chown(path, Some(uid), Some(gid))
        .map_err(|error| format!("{}: {error}", path.display()))
}

//! Machines and neighbours that are not as they should be: each is told in one line that names what is wrong, where, and
//! what to do about it, and ends with the right code; or the program goes on, and right.

mod clocks;
mod disks;
mod limits;
mod networks;
mod servers;

use std::{ffi::OsStr, path::Path, process::Command};

use crate::support::{
    process::{Exit, Instance},
    stage::{PATIENCE, SETTINGS},
};

/// Our program, started in another way than [`Instance::spawn`] does.
struct Started {
    command: Command,
}

impl Started {
    /// Our program by these words, with the settings of the tests and `database.url`.
    fn new(through: &[String], arguments: &[&str], url: &str) -> Self {
        Self::with_files(through, Path::new(env!("CARGO_BIN_EXE_atcr-workers")), SETTINGS, arguments, url)
    }

    /// The same with another binary and other settings.
    fn with_files(through: &[String], binary: &Path, settings: &str, arguments: &[&str], url: &str) -> Self {
        let mut command = match through.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(binary);
                command
            }
            None => Command::new(binary),
        };
        command.args(["--settings", settings]).args(arguments);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("ATCR__DATABASE__URL", url);
        Self { command }
    }

    fn with<K: AsRef<OsStr>, V: AsRef<OsStr>>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self {
        self.command.envs(variables);
        self
    }

    fn start(mut self) -> Instance {
        Instance::spawn_as(&mut self.command)
    }

    /// How it ended, and what it said.
    fn end(self) -> (Exit, String) {
        let mut instance = self.start();
        let exit = instance.wait_exit(PATIENCE);
        (exit, instance.lines().join("\n"))
    }
}

/// Ends with this code, and says all of this in one line.
#[track_caller]
fn says((exit, said): (Exit, String), code: i32, parts: &[&str]) {
    assert_eq!(exit, Exit::Code(code), "{said}");
    let line = said.lines().find(|line| line.starts_with("atcr-workers: "));
    let line = line.unwrap_or_else(|| panic!("it does not say why:\n{said}"));
    let missing: Vec<_> = parts.iter().filter(|part| !line.contains(**part)).collect();
    assert!(missing.is_empty(), "{missing:?} not in {line:?}");
}

//! Waiting, and one contender as a process.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Short against anything that is waited for, long against the cost of asking.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Asks until it is so. Err: what was waited for, and what was seen instead.
pub(super) fn poll<T>(
    what: &str,
    within: Duration,
    mut probe: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let give_up = Instant::now() + within;
    loop {
        match probe() {
            Ok(value) => return Ok(value),
            Err(seen) if Instant::now() >= give_up => {
                return Err(format!("not within {within:?}: {what} ({seen})"));
            }
            Err(_) => pause(ASK_EVERY),
        }
    }
}

/// Lets a fault last.
#[allow(clippy::disallowed_methods, reason = "no runtime here, and the time is what is wanted")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Waits for the end of a process.
pub(super) fn reap(child: &mut Child, within: Duration) -> Result<(), String> {
    poll("the process ends", within, || match child.try_wait() {
        Ok(Some(_)) => Ok(()),
        other => Err(format!("{other:?}")),
    })
}

/// A contender. Dropping it kills it.
pub(super) struct Contender {
    child: Child,
    stdin: ChildStdin,
}

impl Contender {
    /// Starts one, in this network namespace; its log is appended to a file.
    pub(super) fn spawn(
        space: Option<&str>,
        arguments: &[String],
        environment: &[(String, String)],
        log: &Path,
    ) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let program = own.with_file_name("contender");
        let mut command = match space {
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space]).arg(program);
                command
            }
            None => Command::new(program),
        };
        let log =
            OpenOptions::new().append(true).create(true).open(log).map_err(|error| error.to_string())?;
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(arguments).env_clear().env("PATH", path).envs(environment.iter().cloned());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("contender: {error}"))?;
        let stdin = child.stdin.take().ok_or("no pipe")?;
        Ok(Self { child, stdin })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn signal(&self, signal: Signal) {
        // One that is gone needs none.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// A command on its stdin.
    pub(super) fn tell(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.stdin, "{line}").map_err(|error| format!("{line}: {error}"))
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub(super) fn reap(&mut self, within: Duration) -> Result<(), String> {
        reap(&mut self.child, within)
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

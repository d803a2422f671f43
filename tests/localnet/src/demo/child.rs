//! One instance of the program: its process, and its output with a prefix.

use std::io;
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::future::select_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{self, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::intro::Place;

/// A process of its own may still hold the pipe after the instance has gone; its output is not waited for longer.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Child {
    pub(super) label: &'static str,
    pub(super) pid: u32,
    pub(super) admin: SocketAddr,
    process: process::Child,
    output: JoinSet<()>,
}

impl Child {
    pub(super) fn start(place: &Place, label: &'static str, admin: SocketAddr) -> io::Result<Self> {
        let mut command = Command::new(&place.binary);
        command.arg("run").envs(place.environment(label, admin)).current_dir(&place.directory);
        // A group of its own: Ctrl-C at the keyboard reaches only the demo, which then stops them in order.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start {}: {error}", place.binary.display()))
        })?;
        let pid = process.id().unwrap_or(0);
        Ok(Self { label, pid, admin, process, output: JoinSet::new() })
    }

    /// From now on what it says is printed, and what it has said so far.
    pub(super) fn pass_output_through(&mut self) {
        if let (Some(stdout), Some(stderr)) = (self.process.stdout.take(), self.process.stderr.take()) {
            self.output.spawn(pass_through(self.label, stdout));
            self.output.spawn(pass_through(self.label, stderr));
        }
    }

    /// SIGTERM, if it still runs.
    pub(super) fn terminate(&self) {
        let running = self.process.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = running {
            // It may have ended in this instant; waiting for it says so.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// SIGKILL, and waits for the end.
    pub(super) async fn kill(&mut self) {
        if let Err(error) = self.process.kill().await {
            println!("demo: [{}] cannot be killed: {error}", self.label);
        }
    }

    /// Lets the last lines through after the process has ended.
    pub(super) async fn finish_output(&mut self) {
        let _ = timeout(OUTPUT_LIMIT, async { while self.output.join_next().await.is_some() {} }).await;
        self.output.shutdown().await;
    }
}

/// Waits until one has ended: its place among them, and how it ended. Cancel-safe.
///
/// # Panics
/// When there are none.
pub(super) async fn first_exit(children: &mut [Child]) -> (usize, io::Result<ExitStatus>) {
    let exits = children.iter_mut().map(|child| Box::pin(child.process.wait()));
    let (status, number, _) = select_all(exits).await;
    (number, status)
}

/// The exit code in words.
pub(super) fn describe(status: ExitStatus) -> String {
    let meaning = match status.code() {
        Some(0) => "stopped, every lease released",
        Some(1) => "failed; a restart may help",
        Some(75) => "stopped, but a lease was left to expire",
        Some(78) => "settings refused",
        Some(130) => "a second signal",
        Some(_) => "not a code of its own",
        None => return status.to_string(),
    };
    format!("exit code {} ({meaning})", status.code().unwrap_or_default())
}

async fn pass_through(label: &'static str, stream: impl AsyncRead + Unpin) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = reader.read_until(b'\n', &mut line).await {
        println!("[{label}] {}", String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}

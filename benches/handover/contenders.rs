//! Contenders of `tests/faults`: the product's leases and supervisor over workers that do nothing, as many as wanted.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::process::{Group, Line};

const ACQUIRED: &str = "lease acquired, worker started";

/// For a start, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes on one database, told apart by number.
pub(crate) struct Contenders {
    pub(crate) group: Group,
    program: String,
    arguments: Vec<String>,
}

/// A worker that has begun.
pub(crate) struct Began {
    pub(crate) lease: String,
    pub(crate) by: usize,
    pub(crate) at: Instant,
}

impl Contenders {
    /// None yet; each will run these workers: names, or `--leases N`.
    pub(crate) fn new(workers: &[&str]) -> Self {
        let arguments = workers.iter().map(|word| (*word).to_owned()).chain(["--pace".into(), "0".into()]);
        Self { group: Group::new(), program: built(), arguments: arguments.collect() }
    }

    /// Starts one more, in this network namespace if it is given.
    pub(crate) fn start(&mut self, url: &str, space: Option<&str>) {
        let mut words: Vec<&str> =
            space.map_or_else(Vec::new, |space| vec!["netns", "exec", space, &self.program]);
        words.extend(self.arguments.iter().map(String::as_str));
        let program = if space.is_some() { "ip" } else { &self.program };
        self.group.start(program, &words, &environment(url));
    }

    /// Starts another in the place of one that has ended.
    pub(crate) fn replace(&mut self, at: usize, url: &str) {
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.group.replace(at, &self.program, &words, &environment(url));
    }

    pub(crate) fn signal(&self, to: usize, signal: Signal) -> Instant {
        self.group.signal(to, signal)
    }

    /// The next start of a worker.
    pub(crate) fn began(&self) -> Began {
        began(&self.group.line(ACQUIRED))
    }

    /// The next start of a worker, if there is one in time.
    pub(crate) fn began_within(&self, within: Duration) -> Option<Began> {
        self.group.line_within(ACQUIRED, within).map(|line| began(&line))
    }

    /// Waits until the one that was started last is registered, and a moment more, in which it sees the others.
    #[allow(clippy::disallowed_methods, reason = "a pause, no waiting for anything that can be asked for")]
    pub(crate) fn until_registered(&self) {
        self.group.line_within("\"registered\"", PATIENCE).expect("it registers");
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn began(line: &Line) -> Began {
    let words: Value = serde_json::from_str(&line.text).expect("a line of JSON");
    let lease = words["lease.name"].as_str().expect("the line names the lease").to_owned();
    Began { lease, by: line.from, at: line.at }
}

/// Builds the contender beside this bench, in the bench's own profile.
fn built() -> String {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--profile", "bench", "-p", "faults", "--bin", "contender"])
        .status()
        .expect("cargo runs");
    assert!(built.success(), "the contender was not built");
    let beside = PathBuf::from(env!("CARGO_BIN_EXE_atcr-workers")).with_file_name("contender");
    beside.to_str().expect("a path in UTF-8").to_owned()
}

fn environment(url: &str) -> [(&str, &str); 4] {
    [
        ("ATCR__DATABASE__URL", url),
        ("ATCR__TELEMETRY__FORMAT", "json"),
        ("ATCR__TELEMETRY__LEVEL", "info"),
        ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
    ]
}

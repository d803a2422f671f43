//! Our own program as its users run it: the built binary, in a process of its own.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{eventually::eventually_blocking, http};

/// From the start of the process to its line with the admin address, on a loaded machine.
const START_WITHIN: Duration = Duration::from_secs(30);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
}

/// A running instance. Dropping it kills it at once, as a power cut would, and waits until it is gone.
pub(crate) struct Instance {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Instance {
    /// Runs the program with these arguments, and with this environment and nothing else.
    pub(crate) fn spawn(arguments: &[&str], environment: &[(&str, &str)]) -> Instance {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atcr-workers"));
        command.args(arguments).env_clear().env("RUST_BACKTRACE", "1").envs(environment.iter().copied());
        Instance::spawn_as(&mut command)
    }

    /// The same by a command that ends in it.
    pub(crate) fn spawn_as(command: &mut Command) -> Instance {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = Arc::default();
        let stdout = read_lines(child.stdout.take().unwrap(), &lines);
        let stderr = read_lines(child.stderr.take().unwrap(), &lines);
        Instance { child, lines, readers: vec![stdout, stderr] }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal: TERM and INT ask it to stop, STOP and CONT freeze and thaw it, KILL is a crash.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends STOP, and waits until every thread has stopped: the signal reaches some of them later than others.
    #[track_caller]
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let state = |task: &fs::DirEntry| -> Option<char> {
            let stat = fs::read_to_string(task.path().join("stat")).ok()?;
            stat.rsplit_once(") ")?.1.chars().next()
        };
        eventually_blocking("every thread is stopped", START_WITHIN, || {
            let states = fs::read_dir(&tasks).unwrap().filter_map(|task| state(&task.unwrap()));
            let states: String = states.collect();
            if states.chars().all(|state| state == 'T') { Ok(()) } else { Err(states) }
        });
    }

    /// Waits for the end of the process and of what it wrote, so that [`Instance::lines`] is complete afterwards.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self, within: Duration) -> Exit {
        let (child, lines) = (&mut self.child, &self.lines);
        let status = eventually_blocking("the process ends", within, || {
            child.try_wait().unwrap().ok_or_else(|| tail(lines))
        });
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        match status.code() {
            Some(code) => Exit::Code(code),
            None => Exit::Signal(status.signal().expect("what ended without a code ended by a signal")),
        }
    }

    /// Everything written so far to stdout and stderr, in the order of arrival.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The first line ever written for which `matches` holds; `what` names it when it does not come.
    #[track_caller]
    pub(crate) fn wait_for_line(
        &self,
        what: &str,
        within: Duration,
        matches: impl Fn(&str) -> bool,
    ) -> String {
        eventually_blocking(what, within, || {
            self.lines().into_iter().find(|line| matches(line)).ok_or_else(|| tail(&self.lines))
        })
    }

    /// Where it serves status, health and metrics, `host:port`: the field `admin.address` of its log.
    pub(crate) fn admin_address(&self) -> String {
        let address = |line: &str| field(line, "admin.address")?.as_str().map(str::to_owned);
        let line = self
            .wait_for_line("a log line with `admin.address`", START_WITHIN, |line| address(line).is_some());
        address(&line).expect("the line was chosen for having it")
    }

    /// The sum over a metric's series that carry all of these labels. None: there is no such series (yet).
    pub(crate) fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let response = http::get(&format!("http://{}/metrics", self.admin_address())).unwrap();
        assert_eq!(response.status, 200, "GET /metrics: {}", response.body);
        sum_of_series(&response.body, name, labels)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("instance {}:\n{}", self.pid(), self.lines().join("\n"));
        }
    }
}

/// A field of a JSON log line. None: not JSON, or no such field.
pub(crate) fn field(line: &str, name: &str) -> Option<Value> {
    let line: Value = serde_json::from_str(line).ok()?;
    line.get("fields").unwrap_or(&line).get(name).cloned()
}

fn read_lines(from: impl Read + Send + 'static, into: &Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            into.lock().unwrap().push(line);
        }
    })
}

/// What a failed wait shows: enough to see what the process was doing.
fn tail(lines: &Mutex<Vec<String>>) -> Vec<String> {
    let lines = lines.lock().unwrap();
    lines[lines.len().saturating_sub(5)..].to_vec()
}

/// Reads Prometheus' text format: `name{label="value",…} number`.
pub(crate) fn sum_of_series(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let of_series = |line: &str| -> Option<f64> {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, rest) = series.split_once('{').unwrap_or((series, ""));
        let carried: Vec<&str> = rest.trim_end_matches('}').split(',').collect();
        let wanted = found == name && labels.iter().all(|label| carried.contains(&label.as_str()));
        if wanted { value.parse().ok() } else { None }
    };
    text.lines().filter_map(of_series).reduce(|sum, value| sum + value)
}

#[test]
fn a_metric_is_the_sum_of_the_series_with_the_labels_asked_for() {
    let text = "# TYPE a_total counter\na_total{x=\"1\",y=\"2\"} 3\na_total{x=\"1\",y=\"3\"} 4\nb 5\na_total_more 6\n";
    assert_eq!(sum_of_series(text, "a_total", &[("x", "1")]), Some(7.0));
    assert_eq!(sum_of_series(text, "a_total", &[("x", "1"), ("y", "3")]), Some(4.0));
    assert_eq!(sum_of_series(text, "a_total", &[("x", "2")]), None);
    assert_eq!(sum_of_series(text, "b", &[]), Some(5.0));
}

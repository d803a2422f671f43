//! Processes that tell by lines on stderr, each stamped as it is read, and that the kernel ends with this one.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

/// The hidden argument of [`become_child`].
pub(crate) const CHILD: &str = "child";

/// For whatever has no bound of its own, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lines that wait to be read; a process that writes more waits.
const LINES_MAX: usize = 10_000;

/// What a process wrote.
pub(crate) struct Line {
    /// Which of the group.
    pub(crate) from: usize,
    /// When it was read: on Linux, CLOCK_MONOTONIC.
    pub(crate) at: Instant,
    pub(crate) text: String,
}

/// Processes that are told apart by number, and what they write in the order of arrival.
pub(crate) struct Group {
    processes: Vec<Process>,
    lines: Receiver<Line>,
    sender: SyncSender<Line>,
}

struct Process {
    child: Child,
    input: ChildStdin,
}

impl Group {
    /// An empty one.
    pub(crate) fn new() -> Group {
        let (sender, lines) = sync_channel(LINES_MAX);
        Group { processes: Vec::new(), lines, sender }
    }

    /// Starts one more; it gets the next number. On the main thread: a child lives as long as the thread that made it.
    pub(crate) fn start(&mut self, program: &str, arguments: &[&str], environment: &[(&str, &str)]) {
        let process = self.spawn(self.processes.len(), program, arguments, environment);
        self.processes.push(process);
    }

    /// Waits until this one has ended by itself or by a signal, and starts another in its place.
    pub(crate) fn replace(
        &mut self,
        at: usize,
        program: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) {
        self.processes[at].child.wait().unwrap();
        self.processes[at] = self.spawn(at, program, arguments, environment);
    }

    pub(crate) fn pid(&self, of: usize) -> u32 {
        self.processes[of].child.id()
    }

    /// Sends a signal; when it was sent.
    pub(crate) fn signal(&self, to: usize, signal: Signal) -> Instant {
        let (pid, now) = (Pid::from_child(&self.processes[to].child), Instant::now());
        kill_process(pid, signal).unwrap();
        now
    }

    /// Writes a line to its input; when it was sent.
    pub(crate) fn tell(&mut self, to: usize, line: &str) -> Instant {
        let now = Instant::now();
        self.processes[to].input.write_all(format!("{line}\n").as_bytes()).unwrap();
        now
    }

    /// The next line with this in it.
    pub(crate) fn line(&self, what: &str) -> Line {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.text.contains(what) => return line,
                Ok(line) => seen.push(line.text),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("not within {PATIENCE:?}: {what}\n{}", seen.join("\n"))
                }
            }
        }
    }

    /// The next line with this in it, if it comes in time.
    pub(crate) fn line_within(&self, what: &str, within: Duration) -> Option<Line> {
        let deadline = Instant::now() + within;
        loop {
            let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
            if line.text.contains(what) {
                return Some(line);
            }
        }
    }

    fn spawn(&self, from: usize, program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([CHILD, program])
            .args(arguments)
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, written) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
        let sender = self.sender.clone();
        thread::spawn(move || {
            for text in BufReader::new(written).lines().map_while(Result::ok) {
                let line = Line { from, at: Instant::now(), text };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Process { child, input }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has the kernel kill this process when its parent's thread ends, however it does, and becomes the program.
pub(crate) fn become_child(program: &str, arguments: &[&str]) {
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let error = Command::new(program).args(arguments).exec();
    panic!("{program}: {error}");
}

/// Milliseconds.
pub(crate) fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

//! Programs that must not outlive the test process, however it ends.
//!
//! A supervising `sh` starts and stops them on request over a pipe. When the pipe closes, and the kernel closes it at
//! any end of the test process, SIGKILL included, the script leaves its loop and cleans up. Requests are served one
//! after the other, so the end cannot overtake a start that is under way.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
};

/// The pipe to a supervising script. Dropping it waits until the script has cleaned up.
pub(crate) struct Supervisor {
    child: Child,
    pipe: Option<Mutex<Pipe>>,
}

struct Pipe {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Supervisor {
    /// `command` runs a script that answers each line it reads with a line, `ok` or anything else, and cleans up
    /// when there are no more.
    pub(crate) fn spawn(mut command: Command) -> Supervisor {
        // Its own process group: an interrupt from the terminal is for the tests, and their end is what it acts on.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let requests = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Supervisor { child, pipe: Some(Mutex::new(Pipe { requests, answers })) }
    }

    /// Makes one request and waits for its answer: whether it was `ok`.
    pub(crate) fn request(&self, request: &str) -> bool {
        let pipe = self.pipe.as_ref().expect("the pipe is taken only by drop");
        let mut pipe = pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut answer = String::new();
        writeln!(pipe.requests, "{request}").and_then(|()| pipe.answers.read_line(&mut answer)).unwrap();
        answer.trim_end() == "ok"
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.child.wait();
    }
}

//! Programs that must not outlive the test process, however it ends.
//!
//! A supervising `sh` starts and stops them on request over a pipe. When the pipe closes, and the kernel closes it at
//! any end of the test process, SIGKILL included, it leaves its loop and cleans up. Requests are served one after the
//! other, so the end cannot overtake a start that is under way.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use super::eventually::eventually_blocking;

/// Follows the caller's functions: a request is the name of one and its argument. An answer that nobody reads any
/// more must not end this before it has cleaned up, hence the trap.
const LOOP: &str = r#"
trap : PIPE
while read -r name argument; do
    "$name" "$argument" </dev/null && echo ok || echo failed
done
clean_up
"#;

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
    /// `script` defines the functions that requests name, and `clean_up`. They are silent: stdout is for answers.
    /// `prepare` adds what the script needs: its `$1` and so on, environment, user.
    pub(crate) fn spawn(script: &str, prepare: impl FnOnce(&mut Command)) -> Supervisor {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{script}{LOOP}"), "supervisor"]);
        prepare(&mut command);
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
        writeln!(pipe.requests, "{request}").unwrap();
        pipe.answers.read_line(&mut answer).unwrap();
        answer.trim_end() == "ok"
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.child.wait();
    }
}

#[test]
fn an_end_in_the_middle_of_a_request_still_cleans_up() {
    let directory = tempfile::tempdir().unwrap();
    let begun = directory.path().join("begun");
    let cleaned = directory.path().join("cleaned");
    let script = r#"begun=$1 cleaned=$2
        slow() { : >"$begun"; sleep 0.5; }
        clean_up() { : >"$cleaned"; }"#;
    let supervisor = Supervisor::spawn(script, |command| {
        command.arg(&begun).arg(&cleaned);
    });
    writeln!(supervisor.pipe.as_ref().unwrap().lock().unwrap().requests, "slow").unwrap();
    eventually_blocking("the request is under way", Duration::from_secs(10), || {
        begun.exists().then_some(()).ok_or(())
    });

    drop(supervisor);

    assert!(cleaned.exists());
}

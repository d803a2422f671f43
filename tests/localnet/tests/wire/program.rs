//! The program: `serve` with its control endpoints, and `demo` with a stand-in for atcr-workers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, getpgid, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::client::{Answer, SOON, address, get, request};

pub(crate) struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_localnet"));
        let mut child = command.args(arguments).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) async fn line(&mut self) -> Option<String> {
        timeout(SOON, self.lines.next_line()).await.expect("a line within the deadline").unwrap()
    }

    /// Reads until a line that contains the text, and returns it.
    async fn line_with(&mut self, text: &str) -> String {
        while let Some(line) = self.line().await {
            if line.contains(text) {
                return line;
            }
        }
        panic!("the program ended without saying {text:?}");
    }

    pub(crate) fn terminate(&self) {
        terminate(self.child.id().unwrap());
    }

    pub(crate) async fn finish(mut self) -> Output {
        let mut stdout = Vec::new();
        while let Some(line) = self.line().await {
            stdout.extend_from_slice(line.as_bytes());
            stdout.push(b'\n');
        }
        let status = timeout(SOON, self.child.wait()).await.unwrap().unwrap();
        Output { status, stdout, stderr: Vec::new() }
    }
}

fn terminate(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::TERM).unwrap();
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

async fn post(control: &str, command: &str, body: &Value) -> Answer {
    let (host, _) = control.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let body = body.to_string();
    let head = format!("POST /_control/{command} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    request(host.parse().unwrap(), &format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await
}

/// Every command that is only done, as somebody would give it.
fn commands(user: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("cut", json!({})),
        ("mode", json!({ "jetstream": 1, "mode": "silent-but-pongs" })),
        ("door", json!({ "door": { "status": 503 }, "times": 2 })),
        ("limit", json!({ "limit": { "cut-after": 5 } })),
        ("sync", json!({ "did": user })),
        ("door", json!({ "door": { "xrpc": [400, "CursorTooOld"] }, "times": 1 })),
        ("future-cursor", json!({ "what": "error" })),
        ("compressed", json!({ "how": { "with": 5 } })),
        ("dictionary", json!({ "id": 5 })),
        ("send-info", json!({ "name": "OutdatedCursor", "message": "m" })),
        ("send-error", json!({ "name": "ConsumerTooSlow", "message": "m" })),
        ("reset-sequencer", json!({})),
        ("labeler-mode", json!({ "mode": "lossy" })),
        ("labeler-door", json!({ "door": { "html": 200 } })),
        ("labeler-list", json!({ "on": true })),
        ("labeler-forget", json!({ "keep": 1 })),
        ("labeler-key", json!({ "number": 2, "publish": true })),
        ("labeler-error", json!({ "name": "ConsumerTooSlow" })),
        ("labeler-reset", json!({ "lost": 0 })),
        ("labeler-cut", json!({})),
        ("clear-faults", json!({})),
        (
            "rate",
            json!({ "on": { "site": { "relay": 0 } }, "rate": { "requests": 9, "window_ms": 1000, "told": "headers" } }),
        ),
        ("clear-rates", json!({})),
        ("ending", json!({ "site": { "relay": 0 }, "ending": "no-cursor" })),
        ("move", json!({ "did": user, "pds": 1 })),
        ("throttle", json!({ "did": user, "on": true })),
        ("crawl", json!({})),
        ("webhook-behave", json!({ "path": "/a", "behaviour": { "retry-after": [429, 7] } })),
        ("webhook-script", json!({ "path": "/a", "answers": ["down", { "status": 500 }] })),
        ("webhook-reset", json!({})),
        ("tombstone", json!({ "did": user })),
    ]
}

#[tokio::test]
async fn serve_says_where_it_is_obeys_and_stops_on_a_signal() {
    let mut program = Program::start(&[
        "serve",
        "--jetstreams",
        "2",
        "--rate",
        "50",
        "--pdses",
        "2",
        "--made-accounts",
        "3",
    ]);
    let addresses: Value = serde_json::from_str(&program.line().await.unwrap()).unwrap();
    let control = addresses["control"].as_str().unwrap();
    let user = addresses["users"][0].as_str().unwrap();
    let second_wire = addresses["jetstreams_v2"][1].as_str().unwrap();
    assert!(second_wire.ends_with("/xrpc/network.bsky.jetstream.subscribeEvents"), "{second_wire}");
    let record = json!({ "did": user, "collection": "io.atcr.tag", "rkey": "x", "record": { "tag": "x" } });
    assert_eq!(
        post(control, "put", &record).await.json()["uri"],
        json!(format!("at://{user}/io.atcr.tag/x"))
    );
    let pds = address(addresses["pds"].as_str().unwrap());
    let target = format!("/xrpc/com.atproto.repo.getRecord?repo={user}&collection=io.atcr.tag&rkey=x");
    assert_eq!(get(pds, "pds", &target).await.json()["value"]["tag"], "x");
    let delete = json!({ "did": user, "collection": "io.atcr.tag", "rkey": "x" });
    assert!(post(control, "delete", &delete).await.json()["rev"].is_string());
    assert_eq!(get(pds, "pds", &target).await.status, 400);
    let fault = json!({ "on": { "site": { "pds": 0 }, "times": 1 }, "fault": { "status": 500 } });
    assert_eq!(post(control, "fault", &fault).await.status, 200);
    assert_eq!(get(pds, "pds", &target).await.status, 500);
    assert_eq!(
        post(control, "make-accounts", &json!({ "accounts": 2, "records": 5 })).await.json()["made"],
        2
    );
    let relay = address(addresses["relays"][0].as_str().unwrap());
    let target = "/xrpc/com.atproto.sync.listReposByCollection?collection=io.atcr.sailor.profile";
    assert_eq!(get(relay, "relay", target).await.json()["repos"].as_array().unwrap().len(), 4 + 3 + 2);
    let label = json!({ "uri": user, "val": "!takedown" });
    assert_eq!(post(control, "label", &label).await.json()["seq"], 1);
    let badly = json!({ "uri": user, "val": "!takedown", "flaw": "high-s" });
    assert_eq!(post(control, "label-badly", &badly).await.json()["seq"], 2);
    let labeler = addresses["labeler"].as_str().unwrap().rsplit_once("%3A").unwrap().1;
    let labeler = address(&format!("http://127.0.0.1:{labeler}"));
    let list = get(labeler, "labeler", "/xrpc/com.atproto.label.queryLabels?uriPatterns=*").await.json();
    assert_eq!((list["labels"].as_array().unwrap().len(), &list["cursor"]), (2, &json!("2")));
    for (command, body) in commands(user) {
        assert_eq!(post(control, command, &body).await.json(), json!({ "done": true }), "{command}");
    }
    for (command, body) in [
        ("cut", json!({ "jetstream": 2 })),
        ("cut", json!({ "jetsteam": 1 })),
        ("dance", json!({})),
        ("move", json!({ "did": user, "pds": 2 })),
        ("put", json!({ "did": "did:plc:nobody", "collection": "a", "rkey": "b", "record": {} })),
    ] {
        assert_eq!(post(control, command, &body).await.status, 400, "{command} {body}");
    }
    program.terminate();
    assert!(program.finish().await.status.success());
}

/// A stand-in that says what it was started with, does `body`, and ends with the code on SIGTERM.
fn stand_in(directory: &Path, code_on_term: u8, body: &str) -> PathBuf {
    let path = directory.join("stand-in");
    let trap = format!("trap 'echo bye >&2; exit {code_on_term}' TERM");
    let hello = "echo \"$1 $ATCR__INSTANCE__LABEL on $ATCR__DATABASE__URL\"";
    std::fs::write(&path, format!("#!/bin/sh\n{trap}\n{hello}\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Until SIGTERM, or until the demo has gone: a failed test leaves nothing behind.
const RUN: &str = "while kill -0 $PPID 2>/dev/null; do sleep 0.05; done";

fn pid_of(line: &str) -> u32 {
    line.split_whitespace().skip_while(|word| *word != "pid").nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_demo_runs_two_instances_and_stops_both_on_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let binary = stand_in(directory.path(), 75, RUN);
    let mut program = Program::start(&["demo", "--binary", binary.to_str().unwrap()]);
    let pids = [
        pid_of(&program.line_with("instance [one]").await),
        pid_of(&program.line_with("instance [two]").await),
    ];
    let database = program.line_with("database ").await;
    let database = Path::new(database.split_whitespace().nth(1).unwrap());
    let said = [program.line_with("] run ").await, program.line_with("] run ").await];
    for label in ["one", "two"] {
        let line = format!("[{label}] run {label} on sqlite://{}", database.display());
        assert!(said.contains(&line), "{said:?}");
    }
    assert!(pids.iter().all(|pid| is_alive(*pid)) && database.parent().unwrap().is_dir());
    // Ctrl-C at the keyboard goes to a whole process group; the instances must hear of it from the demo only.
    let group = |pid: u32| getpgid(Pid::from_raw(pid as i32)).unwrap().as_raw_nonzero().get();
    assert!(pids.iter().all(|pid| group(*pid) == *pid as i32));
    program.terminate();
    let output = program.finish().await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for line in ["[one] bye", "[two] bye", "[one] stopped: exit code 75", "[two] stopped: exit code 75"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
    assert!(!database.parent().unwrap().exists());
}

#[tokio::test]
async fn the_demo_goes_on_with_the_other_when_one_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let binary = stand_in(directory.path(), 0, RUN);
    let mut program = Program::start(&["demo", "--binary", binary.to_str().unwrap()]);
    let one = pid_of(&program.line_with("instance [one]").await);
    program.line_with("[one] run").await;
    terminate(one);
    let line = program.line_with("ended by itself").await;
    assert!(
        line.contains("[one]") && line.contains("exit code 0") && line.contains("[two] goes on"),
        "{line}"
    );
    program.terminate();
    program.line_with("[two] stopped: exit code 0").await;
    assert!(program.finish().await.status.success());
}

#[tokio::test]
async fn the_demo_ends_when_both_have_and_says_the_codes() {
    let directory = tempfile::tempdir().unwrap();
    let binary = stand_in(directory.path(), 0, "echo wrong >&2\nexit 78");
    let output = Program::start(&["demo", "--binary", binary.to_str().unwrap()]).finish().await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.matches("ended by itself: exit code 78 (settings refused)").count(), 2, "{text}");
    assert!(text.contains("nothing is left") && text.contains("[one] wrong"), "{text}");
}

#[tokio::test]
async fn the_demo_stops_by_itself_after_the_seconds_given() {
    let directory = tempfile::tempdir().unwrap();
    let binary = stand_in(directory.path(), 0, RUN);
    let arguments = ["demo", "--seconds", "1", "--rate", "20", "--binary", binary.to_str().unwrap()];
    let output = Program::start(&arguments).finish().await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("stopped: exit code 0").count(), 2, "{text}");
}

#[tokio::test]
async fn a_missing_binary_is_named() {
    let output = Program::start(&["demo", "--binary", "/nowhere/atcr-workers"]).finish().await;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("cannot start /nowhere/atcr-workers"));
}

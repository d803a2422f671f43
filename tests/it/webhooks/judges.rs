//! Others' programs judge what is sent: the signatures by Python's and Node's libraries, a Slack message by Slack's own
//! library, a Discord message by the schema that is made of Discord's own description of its interface.
//!
//! `ATCR_TEST_DISCORD_OPENAPI=FILE` has the description itself judge too.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use atcr_workers::settings::Host;
use atcr_workers::webhooks::ChatHosts;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::stage::{SECRET, SOON, Stage};
use crate::store::fixture::Fixture;
use crate::support::eventually::eventually;
use crate::support::supervisor::Supervisor;
use crate::support::{http, ports};

/// What a stranger may write where text is shown.
const HOSTILE: [&str; 8] = [
    "plain",
    "",
    "@everyone <@1> <!channel> <https://evil.example|click>",
    "**bold** _it_ `code` ||spoiler|| [a](https://evil.example) # h",
    "\u{202e}reversed\u{200b}\u{feff}",
    "line\r\nline\0line",
    "🐳🐳🐳",
    "& < > \" ' \\ | *",
];

const SCRIPT: &str = r#"
directory=$1 peers=$2
export TMPDIR=$1
up() { bash "$peers" up "$directory" webhooks >>"$directory/peers.log" 2>&1; }
clean_up() {
    bash "$peers" down "$directory" >>"$directory/peers.log" 2>&1
    rm -rf "$directory"
}
"#;

/// The sink of the real libraries, stopped with the test process at the latest.
struct Sink {
    url: String,
    _supervisor: Supervisor,
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/peers.sh")
}

/// Whether peers are left out; says so.
fn left_out() -> bool {
    let left_out = std::env::var("ATCR_TEST_PEERS").is_ok_and(|value| value == "skip");
    if left_out {
        // Not eprintln: what a passing test prints is not shown.
        std::io::stderr().write_all(b"left out (ATCR_TEST_PEERS=skip): a test against real peers\n").unwrap();
    }
    left_out
}

impl Sink {
    fn start() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/.peers/venv");
        assert!(
            folder.join("bin/python").exists(),
            "the judges are not installed; install them with:\n    bash tests/peers/install.sh python"
        );
        let directory = tempfile::Builder::new().prefix("atcr-judges-").tempdir().map(TempDir::keep).unwrap();
        let supervisor = Supervisor::spawn(SCRIPT, |command| {
            command.arg(&directory).arg(peers());
            command.env("PEERS_PORT_BASE", ports::free_block(9).to_string());
            if let Ok(file) = std::env::var("ATCR_TEST_DISCORD_OPENAPI") {
                command.env("PEERS_WEBHOOKS_ARGS", format!("--discord-spec {file}"));
            }
        });
        let is_up = supervisor.request("up");
        assert!(is_up, "{}", std::fs::read_to_string(directory.join("peers.log")).unwrap_or_default());
        let state: Value =
            serde_json::from_slice(&std::fs::read(directory.join("webhooks.json")).unwrap()).unwrap();
        Self { url: state["url"].as_str().unwrap().to_owned(), _supervisor: supervisor }
    }

    fn deliveries(&self) -> Vec<Value> {
        let answer = http::get(&format!("{}/deliveries", self.url)).unwrap();
        serde_json::from_str(&answer.body).unwrap()
    }
}

/// The judge of Node's libraries.
struct Judge(Child);

impl Judge {
    fn start() -> Self {
        let mut command = Command::new("bash");
        command.arg(peers()).args(["run", "judge"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn verdicts(mut self, asked: &[Value]) -> Vec<Value> {
        let mut stdin = self.0.stdin.take().unwrap();
        let lines: String = asked.iter().map(|one| format!("{one}\n")).collect();
        let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let verdicts: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        writer.join().unwrap();
        assert!(self.0.wait().unwrap().success());
        assert_eq!(verdicts.len(), asked.len());
        verdicts
    }
}

/// A push and a scan with this text wherever a stranger's can be.
fn payloads(text: &str) -> [(&'static str, Value); 4] {
    let long = text.repeat(300);
    let push = json!({
        "trigger": "push",
        "push_data": {
            "pushed_at": "2026-09-01T12:00:00Z", "pusher": text, "pusher_did": "did:plc:alice", "tag": long,
            "digest": format!("sha256:{}", "ab".repeat(32)),
        },
        "repository": {
            "name": text, "namespace": text, "repo_name": long, "repo_url": format!("https://atcr.example/r/{text}"),
            "media_type": text, "star_count": 1, "pull_count": 2,
        },
        "hold": { "did": text, "endpoint": text },
    });
    let scan = |trigger: &str, previous: Option<Value>| {
        let mut scan = json!({
            "trigger": trigger, "holdDid": text, "holdEndpoint": text,
            "manifest": { "digest": long, "repository": long, "tag": text, "userDid": "did:plc:a", "userHandle": text },
            "scan": {
                "scannedAt": "2026-09-01T12:00:00Z", "scannerVersion": long,
                "vulnerabilities": { "critical": 1, "high": 2, "medium": 3, "low": 4, "total": 10 },
            },
        });
        if let Some(previous) = previous {
            scan["previous"] = previous;
        }
        scan
    };
    let test = json!({ "trigger": "test", "message": "A test", "sentAt": "2026-09-01T12:00:00Z", "userHandle": text });
    let previous = json!({ "critical": 0, "high": 2, "medium": 3, "low": 4, "total": 9 });
    [
        ("push", push),
        ("scan:first", scan("scan:first", None)),
        ("scan:changed", scan("scan:changed", Some(previous))),
        ("test", test),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_judges_accept_every_format_and_signature() {
    if left_out() {
        return;
    }
    let (sink, stage) = (Sink::start(), Stage::new(Fixture::sqlite().await).await);
    // Two names of one machine, so that each format has a host of its own.
    let other = sink.url.replace("localhost", "127.0.0.1");
    let host: Host = sink.url.strip_prefix("http://").unwrap().parse().unwrap();
    let urls = [(&other, "/hook/a"), (&sink.url, "/api/webhooks/1/token"), (&sink.url, "/services/T/B/x")];
    let mut count = 0;
    for (at, (url, path)) in urls.iter().enumerate() {
        let webhook = i64::try_from(at).unwrap() + 1;
        stage.webhook_to(webhook, &format!("{url}{path}"), Some(SECRET)).await;
        for (trigger, payload) in HOSTILE.iter().flat_map(|text| payloads(text)) {
            stage.delivery_of(webhook, count, trigger, &payload).await;
            count += 1;
        }
    }
    // Python reads its libraries at the first request for each.
    let mut worker = stage.worker_with(|guard| guard.timeout = SOON);
    worker.chat_hosts = ChatHosts { discord: vec![host.clone()], slack: vec![host] };
    let working = stage.start(worker);
    let deliveries = eventually("everything is delivered", SOON, async || {
        let deliveries = sink.deliveries();
        if deliveries.len() == count as usize { Ok(deliveries) } else { Err(deliveries.len()) }
    })
    .await;
    working.stop().await;
    let mut for_node = Vec::new();
    for delivery in &deliveries {
        let (path, checks) = (delivery["path"].as_str().unwrap(), &delivery["checks"]);
        match path {
            "/hook/a" => assert_eq!(*checks, json!({ "hmac": "ok", "standard-webhooks": "ok" })),
            "/services/T/B/x" => assert_eq!(*checks, json!({ "slack": "ok" }), "{}", delivery["body"]),
            _ => {
                for_node.push(json!({ "kind": "discord", "body": delivery["body"] }));
                let by_description = checks.get("discord").is_none_or(|verdict| verdict == "ok");
                assert!(by_description, "{checks}\n{}", delivery["body"]);
            }
        }
    }
    assert_eq!(for_node.len() * urls.len(), deliveries.len());
    // These must not pass, or the judge is none.
    let title =
        |len: usize| json!({ "kind": "discord", "body": { "embeds": [{ "title": "x".repeat(len) }] } });
    let wrong = json!({ "kind": "standard", "secret": SECRET, "body": "{}", "headers": {
        "webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "v1,aaaa" } });
    for_node.extend([title(256), title(257), wrong]);
    let verdicts = Judge::start().verdicts(&for_node);
    let (good, bad) = verdicts.split_at(verdicts.len() - 2);
    for (verdict, asked) in good.iter().zip(&for_node) {
        assert_eq!(*verdict, json!({ "ok": true }), "{asked}");
    }
    assert!(bad.iter().all(|verdict| verdict["ok"] == false), "{bad:?}");
}

/// The receiver keeps the very bytes, which Node's library wants.
#[tokio::test(flavor = "multi_thread")]
async fn the_library_of_node_verifies_the_very_bytes() {
    if left_out() {
        return;
    }
    let stage = Stage::new(Fixture::sqlite().await).await;
    stage.webhook(1, "/hook").await;
    for (number, (trigger, payload)) in HOSTILE.iter().flat_map(|text| payloads(text)).enumerate() {
        stage.delivery_of(1, u32::try_from(number).unwrap(), trigger, &payload).await;
    }
    let working = stage.start(stage.worker());
    let received = stage.until_received("/hook", HOSTILE.len() * 4).await;
    working.stop().await;
    let asked: Vec<Value> = received
        .iter()
        .map(|one| {
            let headers: serde_json::Map<_, _> =
                one.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            let body = String::from_utf8(one.body.clone()).unwrap();
            json!({ "kind": "standard", "secret": SECRET, "headers": headers, "body": body })
        })
        .collect();
    let verdicts = Judge::start().verdicts(&asked);
    assert!(verdicts.iter().all(|verdict| verdict["ok"] == true), "{verdicts:?}");
}

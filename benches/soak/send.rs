//! The other process: serves the events, at the pace of whoever takes them, and tells what must be in the tables then.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use localnet::events::{Mix, lines};
use localnet::jetstream::JetstreamOptions;
use localnet::{Jetstream, ids};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::truth::{Truth, captain};

/// The registry's part: between the 1 in 100 of a busy network and the 1 in 20 of a busy registry.
const REGISTRY_SHARE: f64 = 0.03;

/// Mean distance of two events, as the lines have it.
const GAP_US: i64 = 500;

/// Events kept for replay. Publishing waits when half of them are not taken yet, so nobody falls out of the log.
const RETAIN: usize = 20_000;

/// Lines published between two looks at the backlog.
const BURST: usize = 500;

/// What was sent, in rows.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sent {
    /// Position of the last event.
    pub(crate) last_us: i64,
    /// What each table must hold then.
    pub(crate) rows: BTreeMap<String, usize>,
}

/// The sending process, as the measured one sees it. Ends with it.
pub(crate) struct Sender {
    /// Of its server.
    pub(crate) url: String,
    said: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Sender {
    pub(crate) async fn spawn(count: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["send", &count.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = said.next_line().await.unwrap().expect("the sender says its address");
        Self { url, said, _child: child }
    }

    /// Waits for the end of the sending.
    pub(crate) async fn sent(mut self) -> Sent {
        let line = self.said.next_line().await.unwrap().expect("the sender says what it sent");
        serde_json::from_str(&line).unwrap()
    }
}

/// The whole life of the sending process: until its standard input ends.
pub(crate) async fn send(count: u64) {
    let count = usize::try_from(count).unwrap();
    let server =
        Jetstream::start(JetstreamOptions { retain: RETAIN, ..JetstreamOptions::default() }).await.unwrap();
    println!("{}", server.url());
    assert!(server.subscribed(1, Duration::from_secs(60)).await, "nobody came");
    let start_us = ids::now_us() - 3_600_000_000 - i64::try_from(count).unwrap() * GAP_US;
    let mut truth = Truth::default();
    let mix = Mix { registry_share: REGISTRY_SHARE, start_us, ..Mix::default() };
    for (n, line) in std::iter::once(captain(start_us)).chain(lines(mix)).take(count).enumerate() {
        if n % BURST == 0 {
            let room = || server.stats().subscribers == 1 && server.backlog() < RETAIN as u64 / 2;
            assert!(localnet::until(Duration::from_secs(60), room).await, "nobody takes the events");
        }
        truth.note(&line);
        server.publish_line(line).unwrap();
    }
    let sent = Sent { last_us: server.newest_us(), rows: truth.rows() };
    println!("{}", serde_json::to_string(&sent).unwrap());
    // Returning would close the connection before everything on it was read.
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    ended.await.unwrap().unwrap();
}

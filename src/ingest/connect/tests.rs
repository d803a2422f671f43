//! Against hosts in this process, over loopback, with scaled limits. What each host does is a closure of its
//! connection's number.
#![allow(clippy::unwrap_used)]

mod bad_frames;
mod endings;
mod progress;
mod second_wire;
mod silence;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ingest::wire::Wire;

const LIMIT: Duration = Duration::from_millis(400);
const DEADLINE: Duration = Duration::from_secs(20);
/// A `time_us` of 2026.
const T0: i64 = 1_783_175_888_000_000;

/// A host of the stream; gone when dropped.
struct FakeHost {
    key: String,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl FakeHost {
    /// Each connection, from 0, is given to `serve`.
    async fn start<F, Fut>(serve: F) -> Self
    where
        F: Fn(usize, TcpStream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let key = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            let mut serving = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                serving.spawn(serve(count.fetch_add(1, Ordering::SeqCst), stream));
            }
        });
        Self { key, connections, accepting }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Shakes hands, and tells the cursor that the client asked for.
#[allow(clippy::result_large_err)]
async fn accept(stream: TcpStream) -> (WebSocketStream<TcpStream>, Option<i64>) {
    let mut cursor = None;
    let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let query = request.uri().query().unwrap_or_default();
        assert!(query.contains("ollections=io.atcr.tag"), "{query}");
        cursor = query.split('&').find_map(|pair| pair.strip_prefix("cursor=")?.parse().ok());
        Ok(response)
    };
    let socket = tokio_tungstenite::accept_hdr_async(stream, look).await.unwrap();
    (socket, cursor)
}

fn event(time_us: i64) -> Message {
    let account = r#"{"active":true,"did":"did:plc:a","seq":1,"time":"t"}"#;
    format!(r#"{{"did":"did:plc:a","time_us":{time_us},"kind":"account","account":{account}}}"#).into()
}

/// Reads, so that pings are answered, until the client goes.
async fn answer_pings(mut socket: WebSocketStream<TcpStream>) {
    while let Some(Ok(_)) = socket.next().await {}
}

/// Keeps the socket open, reading and writing nothing.
async fn hang<T>(socket: T) {
    std::future::pending::<()>().await;
    drop(socket);
}

/// Sends the event of `time_us`, then only answers pings.
async fn healthy(stream: TcpStream, time_us: i64) {
    let (mut socket, _) = accept(stream).await;
    socket.send(event(time_us)).await.unwrap();
    answer_pings(socket).await;
}

/// The saved positions of a test, in place of a database.
#[derive(Clone, Default)]
struct Positions {
    saved: Arc<Mutex<Vec<Saved>>>,
    failures_to_come: Arc<AtomicUsize>,
}

impl Positions {
    fn save(&self, host: &str, time_us: i64) {
        self.put(Saved { wire: Wire::V1, host: host.to_owned(), time_us, seq: None });
    }

    fn put(&self, saved: Saved) {
        let mut all = self.saved.lock().unwrap();
        all.retain(|row| (row.wire, &row.host) != (saved.wire, &saved.host));
        all.push(saved);
    }
}

impl CursorSource for Positions {
    type Error = &'static str;

    async fn saved(&self) -> Result<Vec<Saved>, &'static str> {
        let fails = |left: usize| left.checked_sub(1);
        match self.failures_to_come.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails) {
            Ok(_) => Err("the database is away"),
            Err(_) => Ok(self.saved.lock().unwrap().clone()),
        }
    }
}

fn config(hosts: &[&FakeHost]) -> Config {
    let millis = Duration::from_millis;
    let address = |host: &&FakeHost| Host::parse(&format!("ws://{}/subscribe", host.key)).unwrap();
    Config {
        hosts: hosts.iter().map(address).collect(),
        collections: vec!["io.atcr.tag".into()],
        rewind: Duration::ZERO,
        idle_limit: LIMIT,
        connect_timeout: Duration::from_secs(2),
        message_bytes_max: 1_000,
        backoff: Backoff { first: millis(20), last: millis(80), healthy_after: DEADLINE },
        user_agent: "test".into(),
        compression: Compression::default(),
    }
}

/// The task under test.
struct Following {
    frames: FrameReceiver,
    stop: CancellationToken,
    task: JoinHandle<()>,
    positions: Positions,
}

impl Following {
    fn start(config: Config) -> Self {
        Self::with(config, Positions::default(), QUEUE_FRAMES)
    }

    fn with(config: Config, positions: Positions, frames_max: usize) -> Self {
        let (out, frames) = queue(frames_max, QUEUE_BYTES);
        let stop = CancellationToken::new();
        let task = tokio::spawn(follow(config, positions.clone(), out, stop.clone()));
        Self { frames, stop, task, positions }
    }

    async fn delivery(&mut self) -> Delivery {
        timeout(DEADLINE, self.frames.recv()).await.expect("a delivery within the deadline").expect("no end")
    }

    async fn frame(&mut self) -> Frame {
        match self.delivery().await {
            Delivery::Frame(frame) => frame,
            Delivery::Gap(gap) => panic!("{gap:?}"),
        }
    }

    async fn gap(&mut self) -> Gap {
        match self.delivery().await {
            Delivery::Gap(gap) => gap,
            Delivery::Frame(frame) => panic!("{frame:?}"),
        }
    }

    /// Takes a frame and commits it: saves its position. Returns its host and time.
    async fn process(&mut self) -> (String, i64) {
        let frame = self.frame().await;
        let time_us = crate::ingest::decode::decode(&frame.bytes).unwrap().time_us;
        self.positions.save(&frame.host, time_us);
        (frame.host.to_string(), time_us)
    }

    /// Stops it, and asserts that it ends at once.
    async fn stop(self) {
        self.stop.cancel();
        timeout(Duration::from_secs(1), self.task).await.expect("stops at once").unwrap();
    }
}

/// Polls `condition` until it holds.
async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let polled = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, polled).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Metrics of this thread, and thereby of a test on the current-thread runtime, as long as the guard lives.
fn recorded() -> (PrometheusHandle, metrics::LocalRecorderGuard<'static>) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    (handle, metrics::set_default_local_recorder(Box::leak(Box::new(recorder))))
}

#[tokio::test]
async fn nothing_is_connected_to_until_the_saved_positions_are_read() {
    let host = FakeHost::start(|_, stream| async {
        let (mut socket, cursor) = accept(stream).await;
        socket.send(event(cursor.unwrap())).await.unwrap();
        answer_pings(socket).await;
    })
    .await;
    let positions = Positions::default();
    positions.save(&host.key, T0);
    positions.failures_to_come.store(4, Ordering::SeqCst);
    let mut following = Following::with(config(&[&host]), positions, 10);
    assert_eq!(following.process().await, (host.key.clone(), T0));
    assert_eq!(host.connections(), 1);
    following.stop().await;
}

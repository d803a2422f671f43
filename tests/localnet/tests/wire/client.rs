//! A Jetstream client over tokio-tungstenite, an HTTP client that keeps what it gets, and a small network for both.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use localnet::{Jetstream, Net, NetOptions, records};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub(crate) const SOON: Duration = Duration::from_secs(10);
/// Long enough for loopback to deliver what it will deliver.
pub(crate) const QUIET: Duration = Duration::from_millis(150);

pub(crate) struct Client(pub(crate) WebSocketStream<MaybeTlsStream<TcpStream>>);

pub(crate) async fn connect(server: &Jetstream, query: &str) -> Result<Client, Error> {
    connect_to(&server.url(), query).await
}

async fn connect_to(url: &str, query: &str) -> Result<Client, Error> {
    let url = format!("{url}?{query}");
    let (socket, _) = timeout(SOON, tokio_tungstenite::connect_async(url)).await.unwrap()?;
    Ok(Client(socket))
}

/// Connects, and waits until the server counts the subscriber.
pub(crate) async fn subscribe(server: &Jetstream, query: &str) -> Client {
    let before = server.stats().handshakes;
    let client = connect(server, query).await.unwrap();
    assert!(localnet::until(SOON, || server.stats().handshakes > before).await);
    client
}

/// The same by the second wire.
pub(crate) async fn subscribe_v2(server: &Jetstream, query: &str) -> Client {
    let before = server.stats().handshakes;
    let client = connect_to(&server.url_v2(), query).await.unwrap();
    assert!(localnet::until(SOON, || server.stats().handshakes > before).await);
    client
}

/// The status of a refused handshake, with its body.
pub(crate) async fn refusal(server: &Jetstream, query: &str) -> (u16, String) {
    refusal_of(connect(server, query).await)
}

/// The same by the second wire, whose refusals are JSON.
pub(crate) async fn refusal_v2(server: &Jetstream, query: &str) -> (u16, Value) {
    let (status, body) = refusal_of(connect_to(&server.url_v2(), query).await);
    (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{query}: {body}")))
}

fn refusal_of(outcome: Result<Client, Error>) -> (u16, String) {
    match outcome.map(|_| ()) {
        Err(Error::Http(response)) => {
            let body = response.body().clone().unwrap_or_default();
            (response.status().as_u16(), String::from_utf8_lossy(&body).into_owned())
        }
        other => panic!("not refused by HTTP: {other:?}"),
    }
}

impl Client {
    pub(crate) async fn message(&mut self) -> Option<Result<Message, Error>> {
        timeout(SOON, self.0.next()).await.expect("something within the deadline")
    }

    pub(crate) async fn event(&mut self) -> Value {
        loop {
            match self.message().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("not an event: {other:?}"),
            }
        }
    }

    pub(crate) async fn rkeys(&mut self, count: usize) -> Vec<String> {
        let mut rkeys = Vec::new();
        for _ in 0..count {
            rkeys.push(self.event().await["commit"]["rkey"].as_str().unwrap().to_owned());
        }
        rkeys
    }

    pub(crate) async fn is_quiet(&mut self) -> bool {
        timeout(QUIET, self.0.next()).await.is_err()
    }

    pub(crate) async fn send(&mut self, message: Message) {
        self.0.send(message).await.unwrap();
    }

    /// Whether the connection ended without a close frame.
    pub(crate) async fn ends_without_close(&mut self) -> bool {
        loop {
            match self.message().await {
                Some(Ok(Message::Close(_))) => return false,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return true,
            }
        }
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

pub(crate) async fn get(address: SocketAddr, host: &str, target: &str) -> Answer {
    request(address, &format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).await
}

pub(crate) async fn request(address: SocketAddr, bytes: &str) -> Answer {
    let whole = exchange(address, bytes).await;
    let whole = String::from_utf8_lossy(&whole).into_owned();
    let (head, body) = whole.split_once("\r\n\r\n").unwrap_or((&whole, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// All that comes back, head included.
pub(crate) async fn exchange(address: SocketAddr, bytes: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut whole = Vec::new();
    timeout(SOON, stream.read_to_end(&mut whole)).await.expect("an answer").unwrap();
    whole
}

pub(crate) fn address(url: &str) -> SocketAddr {
    url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// A network with one account.
pub(crate) async fn net() -> (Net, String) {
    let net = Net::start(NetOptions::default()).await.unwrap();
    let did = net.add_account("alice");
    (net, did)
}

/// A tag for each record key.
pub(crate) fn put(net: &Net, did: &str, rkeys: std::ops::Range<i32>) {
    for rkey in rkeys {
        net.put(did, records::TAG, &rkey.to_string(), json!({ "n": rkey }));
    }
}

//! One TCP connection: what it meets at the door, and the upgrade.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::faults::Door;
use super::options::Options;
use super::subscriber::Subscriber;
use super::{QUERIES_MAX, Shared};
use crate::http::{Answer, Connection, Request};
use crate::lock;

/// The life of a connection; a cut ends it wherever it is.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.faults.cuts();
    lock(&shared.stats).connects += 1;
    tokio::select! {
        () = welcome(Connection::new(stream), &shared) => {}
        _ = cuts.changed() => {}
    }
}

async fn welcome(mut connection: Connection, shared: &Shared) {
    let door = shared.faults.enter();
    if door == Door::Slam {
        return;
    }
    let Ok(Some(request)) = connection.read_request().await else { return };
    if request.path == "/subscribe" {
        let mut stats = lock(&shared.stats);
        if stats.queries.len() >= QUERIES_MAX {
            stats.queries.remove(0);
        }
        stats.queries.push(request.query.clone());
    }
    let refusal = match door {
        Door::NoAnswer => return drop(connection.until_closed().await),
        Door::Status(status) => Some(Answer::text(status, "not now\n")),
        Door::Html(status) => Some(Answer::html(status)),
        Door::Open | Door::Mute | Door::Slam => None,
    };
    match refusal.map_or_else(|| upgrade(&request), Err) {
        Ok((options, key)) => {
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
                 sec-websocket-accept: {}\r\n\r\n",
                derive_accept_key(key.as_bytes())
            );
            if connection.stream.write_all(head.as_bytes()).await.is_ok() {
                let mute = door == Door::Mute;
                Subscriber::new(connection, shared, options, mute).run().await;
            }
        }
        Err(answer) => {
            let answer = answer.with_header("connection", "close".to_owned());
            let _ = connection.write_answer(&answer).await;
        }
    }
}

fn upgrade(request: &Request) -> Result<(Options, String), Answer> {
    if request.path != "/subscribe" {
        return Err(Answer::text(404, "subscribe at /subscribe\n"));
    }
    let options = Options::parse(request).map_err(|text| Answer::text(400, text))?;
    let websocket = request.header("upgrade").is_some_and(|v| v.eq_ignore_ascii_case("websocket"));
    match request.header("sec-websocket-key") {
        Some(key) if websocket => Ok((options, key.to_owned())),
        _ => Err(Answer::text(400, "not a WebSocket handshake")),
    }
}

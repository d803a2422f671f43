//! One TCP connection: what it meets at the door, and the upgrade.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::dictionary::dictionary;
use super::faults::Door;
use super::log::{Start, TooOld};
use super::options::Options;
use super::subscriber::Subscriber;
use super::{QUERIES_MAX, Shared, v2};
use crate::http::{Answer, Connection, Request};
use crate::lock;

const V1_SUBSCRIBE: &str = "/subscribe";

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
    // A slammed door does not look who knocks; the others are the stream's alone.
    if shared.faults.slams() {
        return;
    }
    let Ok(Some(request)) = connection.read_request().await else { return };
    if request.path.ends_with(v2::GET_DICTIONARY) {
        let answer = get_dictionary(&request, shared).with_header("connection", "close".to_owned());
        return drop(connection.write_answer(&answer, ()).await);
    }
    let door = shared.faults.enter();
    if is_stream(&request) {
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
        Door::Xrpc(status, ref error) => Some(Answer::error(status, error, "on command")),
        Door::RetryAfter(seconds) => {
            let answer = Answer::error(429, "RateLimitExceeded", "on command");
            Some(answer.with_header("retry-after", seconds.to_string()))
        }
        Door::Open | Door::Mute | Door::Slam => None,
    };
    match refusal.map_or_else(|| upgrade(&request, shared), Err) {
        Ok(Upgrade { options, key, protocol, opening }) => {
            let protocol =
                protocol.map(|name| format!("sec-websocket-protocol: {name}\r\n")).unwrap_or_default();
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n{protocol}\
                 sec-websocket-accept: {}\r\n\r\n",
                derive_accept_key(key.as_bytes())
            );
            if connection.stream.write_all(head.as_bytes()).await.is_ok() {
                let mute = door == Door::Mute;
                Subscriber::new(connection, shared, options, opening, mute).run().await;
            }
        }
        Err(answer) => {
            let answer = answer.with_header("connection", "close".to_owned());
            let _ = connection.write_answer(&answer, ()).await;
        }
    }
}

struct Upgrade {
    options: Options,
    key: String,
    protocol: Option<&'static str>,
    /// Where the second wire begins; the first finds that later.
    opening: Option<(Start, Option<v2::Notice>)>,
}

fn upgrade(request: &Request, shared: &Shared) -> Result<Upgrade, Answer> {
    if !is_stream(request) {
        return Err(Answer::text(404, "subscribe at /subscribe\n"));
    }
    let websocket = request.header("upgrade").is_some_and(|v| v.eq_ignore_ascii_case("websocket"));
    let key = request.header("sec-websocket-key").filter(|_| websocket).map(str::to_owned);
    let key = key.ok_or_else(|| Answer::text(400, "not a WebSocket handshake"));
    if request.path == V1_SUBSCRIBE {
        let options = Options::parse(request).map_err(|text| Answer::text(400, text))?;
        return Ok(Upgrade { options, key: key?, protocol: None, opening: None });
    }
    let of_v2 = shared.faults.of_v2();
    let options = Options::parse_v2(request, of_v2)?;
    let opening = shared.log.start_v2(options.cursor, of_v2.future_cursor).map_err(|TooOld(floor)| {
        Answer::error(400, "CursorTooOld", &format!("the oldest kept seq is {floor}"))
    })?;
    Ok(Upgrade { options, key: key?, protocol: v2::protocol(request)?, opening: Some(opening) })
}

fn is_stream(request: &Request) -> bool {
    request.path == V1_SUBSCRIBE || request.path.ends_with(v2::SUBSCRIBE)
}

fn get_dictionary(request: &Request, shared: &Shared) -> Answer {
    lock(&shared.stats).dictionaries += 1;
    let present = shared.faults.of_v2().dictionary;
    match request.parameter("id").map(|id| id.parse::<u32>()) {
        None => Answer::bytes(200, dictionary(present)),
        Some(Ok(id)) if id == present => Answer::bytes(200, dictionary(present)),
        Some(_) => Answer::error(400, "DictionaryNotFound", "retired, or never there"),
    }
}

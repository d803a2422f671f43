//! One connection to the labeler: its document, its list, its stream.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{Entry, LabelerDoor, LabelerMode, Shared, State, sign};
use crate::http::{Answer, Connection, Request};
use crate::jetstream::frame;
use crate::lock;

const SUBSCRIBE: &str = "/xrpc/com.atproto.label.subscribeLabels";
const LIST: &str = "/xrpc/com.atproto.label.queryLabels";

/// Labels in one page of the list, by the lexicon.
const PAGE: usize = 50;
const PAGE_MAX: usize = 250;

/// The life of a connection; a cut ends a stream wherever it is.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut connection = Connection::new(stream);
    while let Ok(Some(request)) = connection.read_request().await {
        if request.path == SUBSCRIBE
            && let Some(key) = knock(&request, &shared)
        {
            let mut cuts = shared.cuts.subscribe();
            lock(&shared.state).stats.subscribers += 1;
            tokio::select! {
                () = subscribe(connection, &request, key, &shared) => {}
                _ = cuts.changed() => {}
            }
            lock(&shared.state).stats.subscribers -= 1;
            return;
        }
        let answer = answer(&request, &mut lock(&shared.state));
        if connection.write_answer(&answer, ()).await.is_err() || request.wants_close() {
            return;
        }
    }
}

/// The key of the handshake of who may come in.
fn knock(request: &Request, shared: &Shared) -> Option<String> {
    let mut state = lock(&shared.state);
    if state.door != LabelerDoor::Open {
        state.stats.turned_away += 1;
        return None;
    }
    state.stats.cursors.push(request.parameter("cursor").unwrap_or_default());
    request.header("sec-websocket-key").map(str::to_owned)
}

fn answer(request: &Request, state: &mut State) -> Answer {
    match (request.path.as_str(), state.door) {
        ("/.well-known/did.json", _) => {
            state.stats.documents += 1;
            Answer::json(200, &document(state))
        }
        (LIST, _) if state.has_list => {
            state.stats.lists += 1;
            list(request, state)
        }
        (SUBSCRIBE, LabelerDoor::Html(status)) => Answer::html(status),
        (SUBSCRIBE, LabelerDoor::Status(status)) => Answer::text(status, "not here\n"),
        _ => Answer::text(404, "not found\n"),
    }
}

fn document(state: &State) -> Value {
    let published = state.published.as_ref().map(sign::multikey);
    let method = |name: &str, key: &str| {
        json!({
            "id": format!("{}#{name}", state.did), "type": "Multikey", "controller": state.did,
            "publicKeyMultibase": key,
        })
    };
    // The account's own key, which signs no label.
    let mut methods = vec![method("atproto", &sign::multikey(&sign::key(99)))];
    methods.extend(published.map(|key| method("atproto_label", &key)));
    json!({
        "id": state.did,
        "verificationMethod": methods,
        "service": [{ "id": "#atproto_labeler", "type": "AtprotoLabeler", "serviceEndpoint": state.url }],
    })
}

/// Positions in the list are numbers of labels; the last page has one, too.
fn list(request: &Request, state: &State) -> Answer {
    let cursor = request.parameter("cursor").and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let limit = request.parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(PAGE);
    let (patterns, sources) = (request.parameters("uriPatterns"), request.parameters("sources"));
    let is_meant = |uri: &str| patterns.iter().any(|pattern| pattern == "*" || pattern == uri);
    let page = state.said.iter().filter(|(seq, label)| *seq > cursor && is_meant(&label.uri));
    let page = page.filter(|(_, label)| sources.is_empty() || sources.contains(&label.src));
    let page: Vec<_> = page.take(limit.min(PAGE_MAX)).collect();
    let mut answer = json!({ "labels": page.iter().map(|(_, label)| label.json()).collect::<Vec<_>>() });
    if let Some((seq, _)) = page.last() {
        answer["cursor"] = json!(seq.to_string());
    }
    Answer::json(200, &answer)
}

/// The connection is over.
struct End;

async fn subscribe(mut connection: Connection, request: &Request, key: String, shared: &Shared) {
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    if connection.stream.write_all(head.as_bytes()).await.is_err() {
        return;
    }
    let mut changed = shared.changed.subscribe();
    let cursor = request.parameter("cursor").and_then(|cursor| cursor.parse::<u64>().ok());
    let (opening, is_over, mut at) = opening(&lock(&shared.state), cursor);
    for bytes in opening {
        if write(&mut connection, frame::BINARY, &bytes).await.is_err() {
            return;
        }
    }
    if is_over {
        let _ = write(&mut connection, frame::CLOSE, &1008_u16.to_be_bytes()).await;
        return drop(connection.until_closed().await);
    }
    loop {
        let news = news(&lock(&shared.state), &mut at);
        for bytes in news {
            if write(&mut connection, frame::BINARY, &bytes).await.is_err() {
                return;
            }
        }
        let heard = tokio::select! {
            read = connection.stream.read_buf(&mut connection.buffer) => match read {
                Ok(0) | Err(_) => Err(End),
                Ok(_) => hear(&mut connection).await,
            },
            _ = changed.changed() => Ok(()),
        };
        if heard.is_err() {
            return;
        }
    }
}

/// What a subscriber gets at first, whether that is all, and where in the log it goes on.
fn opening(state: &State, cursor: Option<u64>) -> (Vec<Vec<u8>>, bool, usize) {
    let Some(cursor) = cursor else { return (Vec::new(), false, state.log.len()) };
    if cursor > state.seq {
        return (vec![sign::error("FutureCursor")], true, 0);
    }
    let mut messages = Vec::new();
    if cursor + 1 < state.kept_from {
        messages.push(sign::message("#info", "name", "OutdatedCursor"));
    }
    if state.mode == LabelerMode::Silent {
        return (messages, false, 0);
    }
    let kept = state.said.iter().filter(|(seq, _)| *seq > cursor && *seq >= state.kept_from);
    messages.extend(kept.map(|(seq, label)| label.message(*seq)));
    (messages, false, state.log.len())
}

fn news(state: &State, at: &mut usize) -> Vec<Vec<u8>> {
    if state.mode == LabelerMode::Silent {
        return Vec::new();
    }
    let entries = state.log.get(*at..).unwrap_or_default();
    *at = state.log.len();
    let bytes = |entry: &Entry| match entry {
        Entry::Raw(bytes) => Some(bytes.clone()),
        Entry::Label(seq) => {
            let said = state.said.iter().find(|(number, _)| number == seq);
            said.map(|(seq, label)| label.message(*seq))
        }
    };
    entries.iter().filter_map(bytes).collect()
}

async fn hear(connection: &mut Connection) -> Result<(), End> {
    while let Some((opcode, payload)) = frame::take(&mut connection.buffer).map_err(|_| End)? {
        match opcode {
            frame::PING => write(connection, frame::PONG, &payload).await?,
            frame::CLOSE => return Err(End),
            _ => {}
        }
    }
    Ok(())
}

async fn write(connection: &mut Connection, opcode: u8, payload: &[u8]) -> Result<(), End> {
    let mut out = Vec::new();
    frame::push(&mut out, opcode, payload);
    connection.stream.write_all(&out).await.map_err(|_| End)
}

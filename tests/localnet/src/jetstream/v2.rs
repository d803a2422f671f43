//! The second wire (lexicon `network.bsky.jetstream.subscribeEvents`): the same log in another envelope. Frames are
//! `{"$type":"message","payload":{…}}` with the payload's keys in the alphabet's order, as the real servers write them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::log::Entry;
use crate::http::{Answer, Request};
use crate::records;

/// The end of the paths of the second wire.
pub(super) const SUBSCRIBE: &str = "/network.bsky.jetstream.subscribeEvents";
pub(super) const GET_DICTIONARY: &str = "/network.bsky.jetstream.getZstdDictionary";
/// The sub-protocol, which is also the default.
pub(super) const PROTOCOL: &str = "xrpc.v1.json";

/// From here on a cursor is a time in microseconds, below it a number.
pub(super) const TIME_MIN: i64 = 1_000_000_000_000_000;

/// What a server does when it has not come to the number that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FutureCursor {
    /// Goes on live after an `#info` (since 2026-09).
    #[default]
    Info,
    /// Goes on live without a word.
    Silent,
    /// Refuses with an error frame, as `subscribeRepos` does.
    Error,
}

/// What only the second wire says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) name: String,
    pub(super) message: String,
    /// An error frame, after which the server closes; otherwise an `#info`.
    pub(super) ends: bool,
}

#[derive(Serialize)]
struct Envelope<'a> {
    #[serde(rename = "$type")]
    kind: &'static str,
    payload: Payload<'a>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    #[serde(rename = "$type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cid: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    did: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rev: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rkey: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    witnessed_at: Option<&'a str>,
}

/// The bodies of a line of the first wire.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    commit: Option<Commit<'a>>,
    #[serde(borrow)]
    identity: Option<&'a RawValue>,
    #[serde(borrow)]
    account: Option<&'a RawValue>,
    #[serde(borrow)]
    sync: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Commit<'a> {
    #[serde(borrow)]
    cid: Option<&'a RawValue>,
    #[serde(borrow)]
    collection: Option<&'a RawValue>,
    #[serde(borrow)]
    operation: Option<&'a RawValue>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
    #[serde(borrow)]
    rev: Option<&'a RawValue>,
    #[serde(borrow)]
    rkey: Option<&'a RawValue>,
}

/// The frame of an event that was published as this line; None for a line that the second wire has no words for.
pub(super) fn event(entry: &Entry, did: &str, line: &[u8]) -> Option<Vec<u8>> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let kind = match &line {
        Line { commit: Some(_), .. } => "network.bsky.jetstream.subscribeEvents#commit",
        Line { identity: Some(_), .. } => "network.bsky.jetstream.subscribeEvents#identity",
        Line { account: Some(_), .. } => "network.bsky.jetstream.subscribeEvents#account",
        Line { sync: Some(_), .. } => "network.bsky.jetstream.subscribeEvents#sync",
        _ => return None,
    };
    let time = records::time_us(entry.time_us);
    let mut payload = Payload {
        kind,
        account: line.account,
        did: Some(did),
        identity: line.identity,
        seq: Some(entry.seq),
        sync: line.sync,
        time: Some(&time),
        witnessed_at: Some(&time),
        ..Payload::default()
    };
    if let Some(commit) = line.commit {
        payload.cid = commit.cid;
        payload.collection = commit.collection;
        payload.operation = commit.operation;
        payload.record = commit.record;
        payload.rev = commit.rev;
        payload.rkey = commit.rkey;
    }
    Some(frame(payload))
}

/// The frame of a notice.
pub(super) fn notice(notice: &Notice) -> Vec<u8> {
    let Notice { name, message, ends } = notice;
    if *ends {
        return serde_json::json!({ "$type": "error", "error": name, "message": message }).to_string().into();
    }
    frame(Payload {
        kind: "network.bsky.jetstream.subscribeEvents#info",
        name: Some(name),
        message: Some(message),
        ..Payload::default()
    })
}

fn frame(payload: Payload<'_>) -> Vec<u8> {
    serde_json::to_vec(&Envelope { kind: "message", payload }).expect("a payload has only string keys")
}

/// The sub-protocol to answer with, if one was asked for.
pub(super) fn protocol(request: &Request) -> Result<Option<&'static str>, Answer> {
    match request.header("sec-websocket-protocol") {
        None => Ok(None),
        Some(asked) if asked.split(',').any(|token| token.trim() == PROTOCOL) => Ok(Some(PROTOCOL)),
        Some(asked) => Err(invalid(&format!("unsupported sub-protocol: {asked}"))),
    }
}

/// A refusal before the upgrade.
pub(super) fn invalid(message: &str) -> Answer {
    Answer::error(400, "InvalidRequest", message)
}

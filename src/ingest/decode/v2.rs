//! Bytes of the second wire to one message: the same events in another envelope, and what only this wire says
//! (lexicon `network.bsky.jetstream.subscribeEvents`, framing `xrpc.v1.json`).

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{Account, Commit, Identity, Text};
use super::{DecodeError, Event, Kind, account, commit, identity, parsed, present};
use crate::atproto::Micros;

/// The types of payloads begin so; the short form is the same type.
const PAYLOAD: &str = "network.bsky.jetstream.subscribeEvents#";

/// What one frame says.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// An event, with its number.
    Event(Event<'a>),
    /// A notice about the stream, without a number.
    Info(Notice<'a>),
    /// The stream's last word: the host closes after it.
    Error(Notice<'a>),
    /// A message or payload that is newer than this code, without a number that could be read.
    Unknown(Cow<'a, str>),
}

/// A notice or an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice<'a> {
    /// Which one: `OutdatedCursor`, `FutureCursor`, `ConsumerTooSlow`, or one of tomorrow.
    pub name: Cow<'a, str>,
    /// For people.
    pub message: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, rename = "$type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    payload: Option<Payload<'a>>,
    #[serde(borrow)]
    error: Option<Text<'a>>,
    #[serde(borrow)]
    message: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    #[serde(borrow, rename = "$type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    did: Option<Text<'a>>,
    seq: Option<i64>,
    #[serde(borrow)]
    time: Option<Text<'a>>,
    #[serde(borrow)]
    witnessed_at: Option<Text<'a>>,
    #[serde(borrow)]
    rev: Option<Text<'a>>,
    #[serde(borrow)]
    operation: Option<Text<'a>>,
    #[serde(borrow)]
    collection: Option<Text<'a>>,
    #[serde(borrow)]
    rkey: Option<Text<'a>>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
    #[serde(borrow)]
    cid: Option<Text<'a>>,
    #[serde(borrow)]
    identity: Option<Identity<'a>>,
    #[serde(borrow)]
    account: Option<Account<'a>>,
    #[serde(borrow)]
    sync: Option<Sync<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    message: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Sync<'a> {
    #[serde(borrow)]
    rev: Option<Text<'a>>,
}

/// Reads one frame. Unknown fields are ignored, and the order of fields does not matter.
///
/// # Errors
/// [`DecodeError`] for every frame that is no message; never a panic, whatever the bytes or the depth of nesting.
pub fn decode_v2(frame: &[u8]) -> Result<Message<'_>, DecodeError> {
    let envelope: Envelope<'_> = parsed(frame)?;
    let kind = present(envelope.kind, "$type")?;
    match &*kind {
        "message" => payload(envelope.payload.ok_or(DecodeError::Missing("payload"))?),
        "error" => Ok(Message::Error(notice(envelope.error, envelope.message, "error")?)),
        _ => Ok(Message::Unknown(kind)),
    }
}

fn payload(mut body: Payload<'_>) -> Result<Message<'_>, DecodeError> {
    let word = present(body.kind.take(), "payload.$type")?;
    let kind = match word.strip_prefix(PAYLOAD).or_else(|| word.strip_prefix('#')) {
        Some("commit") => commit(Commit {
            rev: body.rev,
            operation: body.operation,
            collection: body.collection,
            rkey: body.rkey,
            record: body.record,
            cid: body.cid,
        })?,
        Some("identity") => identity(body.identity.ok_or(DecodeError::Missing("identity"))?),
        Some("account") => account(body.account.ok_or(DecodeError::Missing("account"))?)?,
        Some("sync") => {
            let sync = body.sync.ok_or(DecodeError::Missing("sync"))?;
            Kind::Sync { rev: sync.rev.map(Text::into_inner) }
        }
        Some("info") => return Ok(Message::Info(notice(body.name, body.message, "name")?)),
        _ if body.seq.is_none() => return Ok(Message::Unknown(word)),
        _ => Kind::Unknown(word),
    };
    let did = present(body.did, "did")?;
    let seq = body.seq.ok_or(DecodeError::Missing("seq"))?;
    if seq < 0 {
        return Err(DecodeError::NegativeSeq(seq));
    }
    // An operator of the host may have changed `time`; `witnessedAt` is what positions by time are looked up by.
    let time = present(body.witnessed_at.or(body.time), "time")?;
    let Micros(time_us) = Micros::parse(&time).ok_or(DecodeError::BadTime)?;
    Ok(Message::Event(Event { did, time_us, seq: Some(seq), kind }))
}

fn notice<'a>(
    name: Option<Text<'a>>,
    message: Option<Text<'a>>,
    field: &'static str,
) -> Result<Notice<'a>, DecodeError> {
    Ok(Notice { name: present(name, field)?, message: message.map(Text::into_inner) })
}

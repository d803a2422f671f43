//! Bytes and JSON into labels. Pure. Owns what a message of the labelers' wire looks like, and what a label may be at most;
//! must not know sockets, keys or the database. <https://atproto.com/specs/event-stream>, <https://atproto.com/specs/label>
//!
//! Two failures are kept apart: a message that breaks the framing ends its connection, a label that breaks its shape is
//! skipped alone.

mod json;
mod label;

use crate::atproto::cbor::{self, CborError, Value};

pub(super) use json::{Page, page};
pub(super) use label::{Fault, Label};

/// Labels of one message. Real ones carry one; at double, a hostile one makes a transaction that other writers feel.
pub(super) const LABELS_MAX: usize = 5_000;
/// What is kept of a labeler's words for the log.
const WORDS_MAX: usize = 200;

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Labels, and their number in the stream.
    Labels { seq: i64, labels: Vec<Result<Label, Fault>> },
    /// More labels than we take at once.
    TooMany { seq: i64 },
    /// A notice, by its name.
    Info { name: String, said: String },
    /// The labeler ends the stream.
    Error { name: String, said: String },
    /// Of a kind that is not known: to be skipped.
    Unknown,
}

/// A message is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadMessage {
    #[error("{0}")]
    Cbor(#[from] CborError),
    #[error("{0}")]
    Shape(&'static str),
}

/// Reads a message: two maps, one after the other.
pub(super) fn message(bytes: &[u8]) -> Result<Message, BadMessage> {
    let (header, rest) = cbor::read(bytes)?;
    let (body, rest) = cbor::read(rest)?;
    if !rest.is_empty() {
        return Err(BadMessage::Shape("something follows the message"));
    }
    let op = header.get("op").and_then(Value::int).ok_or(BadMessage::Shape("it has no op"))?;
    if !matches!(body, Value::Map(_)) {
        return Err(BadMessage::Shape("its body is no map"));
    }
    let kind = header.get("t").and_then(Value::text);
    match (op, kind) {
        (-1, _) => {
            let name = text(&body, "error").ok_or(BadMessage::Shape("an error without a name"))?;
            Ok(Message::Error { said: said(&name, &body), name })
        }
        (1, Some("#labels")) => labels(&body),
        (1, Some("#info")) => {
            let name = text(&body, "name").ok_or(BadMessage::Shape("a notice without a name"))?;
            Ok(Message::Info { said: said(&name, &body), name })
        }
        (1, None) => Err(BadMessage::Shape("it does not tell its kind")),
        _ => Ok(Message::Unknown),
    }
}

fn labels(body: &Value) -> Result<Message, BadMessage> {
    let seq = body.get("seq").and_then(Value::int).filter(|seq| *seq >= 0);
    let seq = seq.ok_or(BadMessage::Shape("labels without a number"))?;
    let Some(Value::List(list)) = body.get("labels") else {
        return Err(BadMessage::Shape("labels that are no list"));
    };
    if list.len() > LABELS_MAX {
        return Ok(Message::TooMany { seq });
    }
    Ok(Message::Labels { seq, labels: list.iter().map(label::of_cbor).collect() })
}

fn text(body: &Value, key: &str) -> Option<String> {
    body.get(key).and_then(Value::text).map(cleaned)
}

fn said(name: &str, body: &Value) -> String {
    let message = body.get("message").and_then(Value::text).unwrap_or("no message");
    cleaned(&format!("{name}: {message}"))
}

/// A stranger's words, for the log.
pub(super) fn cleaned(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect()
}

#[cfg(test)]
pub(super) mod tests;

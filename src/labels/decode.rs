//! Bytes and JSON into labels. Pure. Owns what a message of the labelers' wire looks like, and what a label may be at most;
//! must not know sockets, keys or the database. <https://atproto.com/specs/event-stream>, <https://atproto.com/specs/label>
//!
//! Two failures are kept apart: a message that breaks the framing ends its connection, a label that breaks its shape is
//! skipped alone.

mod json;

use crate::atproto::cbor::{self, CborError, Value};
use crate::atproto::{Did, Micros};

pub(super) use json::{Page, page};

/// The lexicon's bound on a value, in bytes.
const VAL_LEN_MAX: usize = 128;
/// The key of a row (labeler, subject, value) has to fit into an index page of PostgreSQL, a third of 8 KiB.
const KEY_LEN_MAX: usize = 2_500;
/// Real ones have 59 characters.
const CID_LEN_MAX: usize = 256;
/// Real ones have 24 characters.
const TIME_LEN_MAX: usize = 64;
/// A signature has 64 bytes; anything else is none.
const SIG_LEN_MAX: usize = 256;
/// Labels of one message. Real ones carry one; at double, a hostile one makes a transaction that other writers feel.
pub(super) const LABELS_MAX: usize = 5_000;
/// What is kept of a labeler's words for the log.
const WORDS_MAX: usize = 200;

/// A label, with every text as it came: they are what is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) ver: Option<i64>,
    pub(super) src: Did,
    pub(super) uri: String,
    pub(super) cid: Option<String>,
    pub(super) val: String,
    /// Absent and false mean the same, but are not signed the same.
    pub(super) neg: Option<bool>,
    pub(super) cts: (String, Micros),
    pub(super) exp: Option<(String, Micros)>,
    pub(super) sig: Option<Vec<u8>>,
}

/// Why something is no label that we keep; a word for a metric's label.
pub(super) type Fault = &'static str;

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
    Ok(Message::Labels { seq, labels: list.iter().map(of_cbor).collect() })
}

fn of_cbor(value: &Value) -> Result<Label, Fault> {
    if !matches!(value, Value::Map(_)) {
        return Err("shape");
    }
    let optional = |key: &str| match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(_) => Err("shape"),
    };
    let neg = match value.get("neg") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(neg)) => Some(*neg),
        Some(_) => return Err("shape"),
    };
    let sig = match value.get("sig") {
        None | Some(Value::Null) => None,
        Some(Value::Bytes(bytes)) => Some(bytes.clone()),
        Some(_) => return Err("shape"),
    };
    let raw = Raw {
        ver: value.get("ver").and_then(Value::int),
        src: optional("src")?,
        uri: optional("uri")?,
        cid: optional("cid")?,
        val: optional("val")?,
        neg,
        cts: optional("cts")?,
        exp: optional("exp")?,
        sig,
    };
    raw.checked()
}

/// A label whose texts are not judged yet.
struct Raw {
    ver: Option<i64>,
    src: Option<String>,
    uri: Option<String>,
    cid: Option<String>,
    val: Option<String>,
    neg: Option<bool>,
    cts: Option<String>,
    exp: Option<String>,
    sig: Option<Vec<u8>>,
}

impl Raw {
    fn checked(self) -> Result<Label, Fault> {
        let src = Did::parse(&self.src.ok_or("missing")?).map_err(|_| "src")?;
        let uri = self.uri.filter(|uri| !uri.is_empty()).ok_or("missing")?;
        let val = self.val.filter(|val| !val.is_empty()).ok_or("missing")?;
        let fits = val.len() <= VAL_LEN_MAX && src.as_str().len() + uri.len() + val.len() <= KEY_LEN_MAX;
        let fits = fits && self.cid.as_ref().is_none_or(|cid| cid.len() <= CID_LEN_MAX);
        if !fits || self.sig.as_ref().is_some_and(|sig| sig.len() > SIG_LEN_MAX) {
            return Err("too_long");
        }
        if [Some(&uri), Some(&val), self.cid.as_ref()].into_iter().flatten().any(|text| text.contains('\0')) {
            return Err("nul");
        }
        let cts = time(self.cts.ok_or("missing")?)?;
        let exp = self.exp.map(time).transpose()?;
        let Raw { ver, cid, neg, sig, .. } = self;
        Ok(Label { ver, src, uri, cid, val, neg, cts, exp, sig })
    }
}

fn time(text: String) -> Result<(String, Micros), Fault> {
    let at = Some(&text).filter(|text| text.len() <= TIME_LEN_MAX).and_then(|text| Micros::parse(text));
    at.map(|at| (text, at)).ok_or("time")
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

//! Bytes of a wire to one event, borrowed from the frame: [`decode()`] for the first, [`decode_v2`] for the second. Owns
//! the envelopes; must not know collections, records, the database or the socket.
//!
//! A record stays raw text ([`RawValue`]): reading it into a tree recurses, and one deeply nested record has stopped
//! every client of the network that did so (jetstream-legacy#24).

mod glance;
#[cfg(test)]
mod tests;
mod v2;
mod wire;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

pub use glance::{About, Glance, glance};
pub use v2::{Message, Notice, decode_v2};

/// One event of the stream, whichever wire it came by.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// Whose repository or account it is about; syntax not checked here.
    pub did: Cow<'a, str>,
    /// When the host saw it, microseconds since the Unix epoch, never negative. Not monotonic (jetstream-legacy#42). On
    /// the first wire it is the host's position.
    pub time_us: i64,
    /// On the second wire the host's position; it means nothing at another host.
    pub seq: Option<i64>,
    /// What happened.
    pub kind: Kind<'a>,
}

/// What an event says.
#[derive(Clone, Debug)]
pub enum Kind<'a> {
    /// One record of a repository changed.
    Commit(Commit<'a>),
    /// Handle, keys or PDS may have changed: resolve again. It does not say what changed.
    Identity {
        /// Often absent; a hint only.
        handle: Option<Cow<'a, str>>,
        /// The relay's sequence number.
        seq: Option<i64>,
        /// RFC 3339, as sent.
        time: Option<Cow<'a, str>>,
    },
    /// The account's standing changed.
    Account {
        /// What decides.
        active: bool,
        /// Why not active; new words appear over time, so a hint only.
        status: Option<Cow<'a, str>>,
        /// The relay's sequence number.
        seq: Option<i64>,
        /// RFC 3339, as sent.
        time: Option<Cow<'a, str>>,
    },
    /// The repository's history is broken or was replaced: read it again. Second wire only.
    Sync {
        /// The revision that it is at, if told.
        rev: Option<Cow<'a, str>>,
    },
    /// A kind that is newer than this code.
    Unknown(Cow<'a, str>),
}

/// One operation of a commit. A commit of several operations arrives as several events of the same `rev`.
#[derive(Clone, Debug)]
pub struct Commit<'a> {
    /// The repository's revision, as sent.
    pub rev: Cow<'a, str>,
    /// What was done.
    pub operation: Operation,
    /// NSID, as sent.
    pub collection: Cow<'a, str>,
    /// Record key, as sent.
    pub rkey: Cow<'a, str>,
    /// The record's JSON as sent; absent on delete.
    pub record: Option<&'a RawValue>,
    /// The record's content identifier. Hosts leave it out at times, on any operation.
    pub cid: Option<Cow<'a, str>>,
}

/// What a commit did to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It was replaced.
    Update,
    /// It is gone.
    Delete,
}

/// Why a frame is no event. Such a frame is counted and skipped; the connection goes on.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not text.
    #[error("read event: not UTF-8")]
    NotUtf8,
    /// Not JSON, or cut short.
    #[error("read event: {0}")]
    NotJson(#[source] serde_json::Error),
    /// A field of the wrong type, out of range, or present twice.
    #[error("read event: {0}")]
    BadField(#[source] serde_json::Error),
    /// A time before 1970.
    #[error("read event: time_us {0} is negative")]
    NegativeTime(i64),
    /// A number below zero.
    #[error("read event: seq {0} is negative")]
    NegativeSeq(i64),
    /// Not RFC 3339, or before 1970.
    #[error("read event: time is no time")]
    BadTime,
    /// A field that every such event has.
    #[error("read event: field {0} is missing")]
    Missing(&'static str),
    /// Neither create, update nor delete. It cannot be guessed, so the backfill has to find what it did.
    #[error("read event: operation is neither create, update nor delete")]
    UnknownOperation,
}

impl DecodeError {
    /// One of eight words, for a metric's label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotUtf8 => "not_utf8",
            Self::NotJson(_) => "not_json",
            Self::BadField(_) => "bad_field",
            Self::NegativeTime(_) => "negative_time",
            Self::NegativeSeq(_) => "negative_seq",
            Self::BadTime => "bad_time",
            Self::Missing(_) => "missing_field",
            Self::UnknownOperation => "unknown_operation",
        }
    }
}

/// Reads one frame of the first wire. Unknown fields are ignored, and the order of fields does not matter.
///
/// # Errors
/// [`DecodeError`] for every frame that is no event; never a panic, whatever the bytes or the depth of nesting.
pub fn decode(frame: &[u8]) -> Result<Event<'_>, DecodeError> {
    let envelope: wire::Envelope<'_> = parsed(frame)?;
    let did = present(envelope.did, "did")?;
    let time_us = envelope.time_us.ok_or(DecodeError::Missing("time_us"))?;
    if time_us < 0 {
        return Err(DecodeError::NegativeTime(time_us));
    }
    let word = present(envelope.kind, "kind")?;
    let kind = match &*word {
        "commit" => commit(envelope.commit.ok_or(DecodeError::Missing("commit"))?)?,
        "identity" => identity(envelope.identity.ok_or(DecodeError::Missing("identity"))?),
        "account" => account(envelope.account.ok_or(DecodeError::Missing("account"))?)?,
        _ => Kind::Unknown(word),
    };
    Ok(Event { did, time_us, seq: None, kind })
}

fn parsed<'a, T: Deserialize<'a>>(frame: &'a [u8]) -> Result<T, DecodeError> {
    let text = std::str::from_utf8(frame).map_err(|_| DecodeError::NotUtf8)?;
    serde_json::from_str(text).map_err(|e| match e.classify() {
        Category::Data => DecodeError::BadField(e),
        Category::Io | Category::Syntax | Category::Eof => DecodeError::NotJson(e),
    })
}

fn commit(body: wire::Commit<'_>) -> Result<Kind<'_>, DecodeError> {
    let operation = match &*present(body.operation, "operation")? {
        "create" => Operation::Create,
        "update" => Operation::Update,
        "delete" => Operation::Delete,
        _ => return Err(DecodeError::UnknownOperation),
    };
    Ok(Kind::Commit(Commit {
        rev: present(body.rev, "rev")?,
        operation,
        collection: present(body.collection, "collection")?,
        rkey: present(body.rkey, "rkey")?,
        record: body.record,
        cid: body.cid.map(wire::Text::into_inner),
    }))
}

fn identity(body: wire::Identity<'_>) -> Kind<'_> {
    Kind::Identity {
        handle: body.handle.map(wire::Text::into_inner),
        seq: body.seq,
        time: body.time.map(wire::Text::into_inner),
    }
}

fn account(body: wire::Account<'_>) -> Result<Kind<'_>, DecodeError> {
    Ok(Kind::Account {
        active: body.active.ok_or(DecodeError::Missing("active"))?,
        status: body.status.map(wire::Text::into_inner),
        seq: body.seq,
        time: body.time.map(wire::Text::into_inner),
    })
}

fn present<'a>(field: Option<wire::Text<'a>>, name: &'static str) -> Result<Cow<'a, str>, DecodeError> {
    field.map(wire::Text::into_inner).ok_or(DecodeError::Missing(name))
}

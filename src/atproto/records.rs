//! What the registry's records say. Two shapes of most lexicons are on the network; both fold into one struct here.
//!
//! Liberal where the index loses nothing: unknown fields are skipped, and an optional field that breaks its rule counts as
//! absent. Strict in what the index stands on: names, digests, subjects, times. No text that leaves this module
//! contains U+0000, which PostgreSQL cannot store: names with it are refused, prose is stripped of it.

mod collection;
mod digest;
mod fields;
mod hold;
mod manifest;
mod reference;
mod tag;
mod user;

pub use collection::Collection;
pub use digest::digest_of_rkey;
pub use hold::{Captain, Crew, Scan, Stats};
pub use manifest::{ArtifactType, Blob, Manifest};
pub use reference::Reference;
pub use tag::Tag;
pub use user::{Page, Profile, Star};

use fields::Fields;
use thiserror::Error;

use super::uri::Rkey;

/// The largest record that is read, in bytes of JSON. A repository accepts 1 MiB of CBOR; half would refuse large image
/// indexes, and double only helps those who would fill the database.
pub const RECORD_LEN_MAX: usize = 1 << 20;

/// How deeply a record may nest. The registry's nest 5 deep; at 128 the JSON parser itself would refuse.
const DEPTH_MAX: usize = 64;

/// A record, as far as the index needs it.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// An image, an index of images, or another artifact.
    Manifest(Manifest),
    /// A name for a manifest.
    Tag(Tag),
    /// The page of a repository.
    Page(Page),
    /// A user's settings.
    Profile(Profile),
    /// A user's star on a repository.
    Star(Star),
    /// What a hold says about itself.
    Captain(Captain),
    /// A member of a hold.
    Crew(Crew),
    /// A hold's count of pulls and pushes of a repository.
    Stats(Stats),
    /// A hold's scan of a manifest.
    Scan(Scan),
}

/// Why a record is not readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// More bytes, or more entries in a list, than any honest record has.
    #[error("the record is too large")]
    TooLarge,
    /// Nested more deeply than any honest record.
    #[error("the record is nested too deeply")]
    TooDeep,
    /// Not a JSON object.
    #[error("the record is not a json object")]
    NotJson,
    /// Its own `$type` is not the collection that it lies in.
    #[error("the record's type contradicts its collection")]
    WrongType,
    /// Its key contradicts its content.
    #[error("the record's key contradicts its content")]
    WrongKey,
    /// A field that the index stands on is absent.
    #[error("the record has no `{0}`")]
    MissingField(&'static str),
    /// A field that the index stands on breaks its rule.
    #[error("the record's `{0}` is not valid")]
    BadField(&'static str),
}

impl RecordError {
    /// The error as a label of a metric.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::TooDeep => "too_deep",
            Self::NotJson => "not_json",
            Self::WrongType => "wrong_type",
            Self::WrongKey => "wrong_key",
            Self::MissingField(_) => "missing_field",
            Self::BadField(_) => "bad_field",
        }
    }
}

/// Reads the record `json` that lies at `rkey` in `collection`.
pub fn read(collection: Collection, rkey: &Rkey, json: &str) -> Result<Record, RecordError> {
    if json.len() > RECORD_LEN_MAX {
        return Err(RecordError::TooLarge);
    }
    if is_deeper_than(DEPTH_MAX, json) {
        return Err(RecordError::TooDeep);
    }
    let fields = Fields::read(json)?;
    if fields.string("$type")?.is_some_and(|stated| stated != collection.nsid()) {
        return Err(RecordError::WrongType);
    }
    Ok(match collection {
        Collection::Manifest => Record::Manifest(Manifest::read(rkey, &fields)?),
        Collection::Tag => Record::Tag(Tag::read(&fields)?),
        Collection::Page => Record::Page(Page::read(rkey, &fields)?),
        Collection::Profile => Record::Profile(Profile::read(rkey, &fields)?),
        Collection::Star => Record::Star(Star::read(&fields)?),
        Collection::Captain => Record::Captain(Captain::read(rkey, &fields)?),
        Collection::Crew => Record::Crew(Crew::read(&fields)?),
        Collection::Stats => Record::Stats(Stats::read(&fields)?),
        Collection::Scan => Record::Scan(Scan::read(rkey, &fields)?),
    })
}

/// Counts brackets outside of strings. Beforehand, so that no part of a record is ever walked by recursion on a depth that
/// a stranger chose, and so that the error has a name.
fn is_deeper_than(max: usize, json: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > max {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;

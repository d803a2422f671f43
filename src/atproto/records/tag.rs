//! `io.atcr.tag`: a name for a manifest.

use super::RecordError::{self, MissingField};
use super::digest::digest_of_rkey;
use super::fields::Fields;
use super::manifest::REPOSITORY_LEN_MAX;
use crate::atproto::times::Micros;
use crate::atproto::uri::AtUri;

/// The lexicon's bound, in bytes.
const TAG_LEN_MAX: usize = 128;

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Tag {
    pub repository: String,
    pub tag: String,
    /// Of the manifest that it names: from `manifest`, else from the older `manifestDigest`.
    pub digest: String,
    /// When it was set: `updatedAt`, else the older `createdAt`. Newer records need neither: then the epoch, as unknown.
    pub created_at: Micros,
}

impl Tag {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, RecordError> {
        let set_at = ["updatedAt", "createdAt"].into_iter().find(|name| fields.has(name));
        Ok(Self {
            repository: fields.name("repository", REPOSITORY_LEN_MAX)?,
            tag: fields.name("tag", TAG_LEN_MAX)?,
            digest: digest(fields)?,
            created_at: set_at.map_or(Ok(Micros(0)), |name| fields.time(name))?,
        })
    }
}

fn digest(fields: &Fields<'_>) -> Result<String, RecordError> {
    let manifest = fields.string("manifest").ok().flatten();
    let from_address = manifest.and_then(|uri| digest_of_rkey(&AtUri::parse(&uri).ok()?.rkey));
    match from_address {
        Some(digest) => Ok(digest),
        None if fields.has("manifestDigest") => fields.digest("manifestDigest"),
        None if fields.has("manifest") => Err(RecordError::BadField("manifest")),
        None => Err(MissingField("manifest")),
    }
}

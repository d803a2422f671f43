//! The other records of a user: `io.atcr.repo.page`, `io.atcr.sailor.profile`, `io.atcr.sailor.star`.

use super::Collection;
use super::RecordError::{self, BadField, MissingField, WrongKey};
use super::fields::{Fields, fits};
use super::manifest::REPOSITORY_LEN_MAX;
use crate::atproto::did::Did;
use crate::atproto::times::Micros;
use crate::atproto::uri::Rkey;

/// The lexicons' bounds, in bytes.
pub(super) const PAGE_REPOSITORY_LEN_MAX: usize = 256;
const DESCRIPTION_LEN_MAX: usize = 100_000;
const AVATAR_LEN_MAX: i64 = 3_000_000;
const AVATAR_TYPES: [&str; 3] = ["image/png", "image/jpeg", "image/webp"];

/// The page of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Page {
    pub repository: String,
    /// Markdown, by a stranger.
    pub description: Option<String>,
    pub avatar_cid: Option<String>,
    pub created_at: Micros,
    pub updated_at: Micros,
}

/// A user's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Profile {
    pub default_hold: Option<Did>,
    pub auto_remove_untagged: bool,
    pub created_at: Micros,
    /// `createdAt` where it was never updated.
    pub updated_at: Micros,
}

/// A user's star on somebody's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Star {
    pub owner: Did,
    pub repository: String,
    pub created_at: Micros,
}

impl Page {
    pub(super) fn read(rkey: &Rkey, fields: &Fields<'_>) -> Result<Self, RecordError> {
        let repository = fields.name("repository", PAGE_REPOSITORY_LEN_MAX)?;
        // The key is the repository's name, where that can be a key at all; else one repository could have many pages.
        if Rkey::parse(&repository).is_ok_and(|key| key != *rkey) {
            return Err(WrongKey);
        }
        Ok(Self {
            repository,
            description: fields.prose("description", DESCRIPTION_LEN_MAX),
            avatar_cid: fields.object("avatar").ok().flatten().and_then(|blob| avatar_cid(&blob)),
            created_at: fields.time("createdAt")?,
            updated_at: fields.time("updatedAt")?,
        })
    }
}

fn avatar_cid(blob: &Fields<'_>) -> Option<String> {
    let media_type = blob.string("mimeType").ok()??;
    let cid = blob.object("ref").ok()??.string("$link").ok()??;
    let valid = AVATAR_TYPES.contains(&&*media_type)
        && blob.integer("size").is_ok_and(|size| (0..=AVATAR_LEN_MAX).contains(&size))
        && (1..=128).contains(&cid.len())
        && cid.bytes().all(|b| b.is_ascii_alphanumeric());
    valid.then_some(cid)
}

impl Profile {
    pub(super) fn read(rkey: &Rkey, fields: &Fields<'_>) -> Result<Self, RecordError> {
        must_be_self(rkey)?;
        let created_at = fields.time("createdAt")?;
        Ok(Self {
            default_hold: fields.hold_if_any("defaultHold"),
            auto_remove_untagged: fields.flag("autoRemoveUntagged").unwrap_or(false),
            created_at,
            updated_at: fields.time_if_any("updatedAt").unwrap_or(created_at),
        })
    }
}

impl Star {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, RecordError> {
        if !fields.has("subject") {
            return Err(MissingField("subject"));
        }
        let (owner, repository) = match fields.object("subject") {
            Ok(Some(subject)) => {
                (subject.did("did").ok(), subject.name("repository", REPOSITORY_LEN_MAX).ok())
            }
            _ => page_address(fields).unzip(),
        };
        Ok(Self {
            owner: owner.ok_or(BadField("subject"))?,
            repository: repository.ok_or(BadField("subject"))?,
            created_at: fields.time("createdAt")?,
        })
    }
}

/// The newer shape: the star is on the repository's page. All that follows the collection is the repository: a name with
/// a slash makes no valid address, and its stars count all the same.
fn page_address(fields: &Fields<'_>) -> Option<(Did, String)> {
    let subject = fields.name("subject", usize::MAX).ok()?;
    let (did, path) = subject.strip_prefix("at://")?.split_once('/')?;
    let (collection, repository) = path.split_once('/')?;
    let names_page = collection == Collection::Page.nsid();
    let valid = names_page && (1..=PAGE_REPOSITORY_LEN_MAX).contains(&repository.len());
    let did = Did::parse(did).ok().filter(fits)?;
    Some((did, valid.then(|| repository.to_owned())?))
}

/// There is one of these in a repository, and its key says so.
pub(super) fn must_be_self(rkey: &Rkey) -> Result<(), RecordError> {
    if rkey.as_str() == "self" { Ok(()) } else { Err(WrongKey) }
}

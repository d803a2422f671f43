//! What labels say of a subject, for whoever shows it or tells others about it; and the rows that they are kept in.

use super::{Database, ReadError, queries};
use crate::atproto::{Did, Micros, Rkey};

/// Labels that one transaction writes at most. At half, a replay commits twice as often; at double, a crash repeats twice as
/// much.
pub const LABEL_ROWS_MAX: usize = 500;

/// Something that a takedown can hide. What is not asked for is left out: the account alone, or parts of it, too.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Whose.
    pub did: &'a Did,
    /// The name of a repository.
    pub repository: Option<&'a str>,
    /// The digest of a manifest.
    pub digest: Option<&'a str>,
    /// The key of a tag's record.
    pub tag_rkey: Option<&'a Rkey>,
}

/// What a label is about, where the registry knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// An account and all that is its.
    Account(Did),
    /// A repository, by its name.
    Repository(Did, String),
    /// A manifest, by its digest.
    Manifest(Did, String),
    /// A tag, by the key of its record.
    Tag(Did, Rkey),
}

impl About {
    /// The words of the columns `subject`, `did` and `name`.
    pub(super) fn stored(&self) -> (&'static str, &str, Option<&str>) {
        match self {
            Self::Account(did) => ("account", did.as_str(), None),
            Self::Repository(did, name) => ("repository", did.as_str(), Some(name)),
            Self::Manifest(did, digest) => ("manifest", did.as_str(), Some(digest)),
            Self::Tag(did, rkey) => ("tag", did.as_str(), Some(rkey.as_str())),
        }
    }
}

/// A label, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRow {
    /// The subject, as the labeler names it.
    pub uri: String,
    /// The value.
    pub val: String,
    /// A version of the subject.
    pub cid: Option<String>,
    /// Whether it ends what was said before.
    pub neg: bool,
    /// Since when, by the labeler.
    pub cts: Micros,
    /// Until when.
    pub exp: Option<Micros>,
    /// Its number in the stream; none if a query found it.
    pub seq: Option<i64>,
    /// Whether its signature is good.
    pub verified: bool,
    /// What it is about.
    pub about: Option<About>,
}

impl LabelRow {
    /// Where it stands among the labels of one subject and value from the same era of the stream: the greatest counts. With
    /// `verify`, one that is not verified never takes the place of one that is.
    pub fn rank(&self, verify: bool) -> (bool, Micros, i64) {
        (!verify || self.verified, self.cts, self.seq.unwrap_or(-1))
    }
}

/// Up to where a labeler was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelerPosition {
    /// The number of the last label; 0: none.
    pub seq: i64,
    /// How often its numbers have begun anew.
    pub era: i64,
}

impl Database {
    /// Whether any of the subject is taken down now. A negation, or a label that expires, ends it at once.
    pub async fn is_taken_down(&self, subject: &Subject<'_>) -> Result<bool, ReadError> {
        let (did, tag_rkey) = (subject.did.as_str(), subject.tag_rkey.map(Rkey::as_str));
        let session = &mut self.session().await?;
        Ok(queries::labels::is_taken_down(session, did, subject.repository, subject.digest, tag_rkey).await?)
    }

    /// How many subjects are taken down now.
    pub async fn takedowns(&self) -> Result<u64, ReadError> {
        let count = queries::labels::count_takedowns(&mut self.session().await?).await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

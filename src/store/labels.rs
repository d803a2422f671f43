//! What the labels say of a subject, for whoever shows it or tells others about it.

use super::{Database, ReadError, queries};
use crate::atproto::{Did, Rkey};

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

impl Database {
    /// Whether any of the subject is taken down now. A negation, or a label that expires, ends it at once.
    pub async fn is_taken_down(&self, subject: &Subject<'_>) -> Result<bool, ReadError> {
        let (did, tag_rkey) = (subject.did.as_str(), subject.tag_rkey.map(Rkey::as_str));
        let session = &mut self.session().await?;
        Ok(queries::labels::is_taken_down(session, did, subject.repository, subject.digest, tag_rkey).await?)
    }
}

//! What a repository says about one of its records. The live stream and the backfill both speak to the store in this.

use super::did::Did;
use super::records::{Collection, Record};
use super::tid::Rev;
use super::uri::Rkey;

/// One record of one repository at one revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The author: the repository that the record is in.
    pub did: Did,
    /// The collection in it.
    pub collection: Collection,
    /// The record in that.
    pub rkey: Rkey,
    /// The revision of the repository that this is true of. What is known from a later one stays.
    pub rev: Rev,
    /// The content address of the record, where the source tells it.
    pub cid: Option<String>,
    /// What is there.
    pub state: State,
}

/// What is there at a record's address.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// A record that follows its lexicon.
    Present(Box<Record>),
    /// Nothing: it was deleted, or never was.
    Absent,
    /// Something that breaks its lexicon. The index shows nothing for it, and remembers the revision all the same: what
    /// it showed before is no longer what the repository says.
    Unreadable,
}

/// `text` as a content identifier, if it may stand as one: kept as sent, so its alphabet and length are all that matters.
pub fn cid(text: &str) -> Option<String> {
    let is_one = (8..=256).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
    is_one.then(|| text.to_owned())
}

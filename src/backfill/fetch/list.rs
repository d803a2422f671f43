//! The records of a repository, collection by collection and page by page. Owns how much of them is held at once.
//!
//! Held at the same time: the records read so far, of at most [`REPOSITORY_LEN_MAX`] bytes as JSON, and the body of one page.
//! Whole repositories are never asked for (bluesky-social/jetstream#52: many of them held at once took 36 GB).

use std::time::Duration;

use tokio::time::Instant;

use super::page::{self, Place};
use super::{AskError, Fetched, Latest, Listing, Visit, absence};
use super::{FetchError, Shortfall};
use crate::atproto::identity::Identity;
use crate::atproto::xrpc::Query;
use crate::atproto::{Change, Collection, Rev};
use crate::backfill::pages::{Bounds, Turn, Walk};

/// Records asked for at once, and how many if that page is too large: the largest permitted page of 100 records has 100 MB,
/// but real ones 0.3.
const PAGES: [&str; 3] = ["100", "10", "1"];
/// The longest page that is read: every record that the index could take fits alone. At half, ordinary pages of large
/// image indexes are asked for twice; at double, 8 hostile hosts hold 64 MB in bodies alone.
const PAGE_LEN_MAX: usize = 4 << 20;
/// The most of one repository that is read: 10,000 images with their tags are 28 MB. At half they would not fit; at double,
/// 8 hostile repositories hold half a gigabyte.
const REPOSITORY_LEN_MAX: usize = 32 << 20;
/// 10,000 records of a collection; 50 is the page size of servers that are not asked for one. A server that gives one record
/// at a time is followed for a thousand of them.
const BOUNDS: Bounds = Bounds { full_from: 50, pages_max: 1_000, entries_max: 10_000 };
/// One page: a slow host at a long distance. At half, such a host is never read; at double, a host that drips holds a
/// place for a minute per page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// A whole repository: a thousand pages at twice the usual pace. It bounds how long a host that drips page by page can
/// hold one of the few that are read at once.
const REPOSITORY_TIMEOUT: Duration = Duration::from_secs(600);

/// What is read of one repository, and what may still be.
struct Reading<'a> {
    visit: Visit<'a>,
    rev: Rev,
    records: Vec<Change>,
    bytes_left: usize,
    deadline: Instant,
}

/// Why a collection was not read to its end.
enum Stopped {
    /// For a reason that is its own: the next may be read.
    Here(FetchError),
    /// For one that the others share.
    Everywhere(FetchError),
    /// The repository is not there any more.
    Gone(Latest),
}

/// Lists the repository that was at `rev` a moment ago.
pub(super) async fn list(visit: Visit<'_>, identity: Identity, rev: Rev) -> Result<Fetched, FetchError> {
    let deadline = Instant::now() + REPOSITORY_TIMEOUT;
    let mut reading = Reading { visit, rev, records: Vec::new(), bytes_left: REPOSITORY_LEN_MAX, deadline };
    let (mut complete, mut shortfall) = (Vec::new(), None);
    for collection in Collection::ALL {
        match reading.collection(collection).await {
            Ok(()) => complete.push(collection),
            Err(Stopped::Here(error)) => drop(shortfall.get_or_insert(error)),
            Err(Stopped::Everywhere(error)) => {
                shortfall.get_or_insert(error);
                break;
            }
            Err(Stopped::Gone(Latest::Inactive(status))) => {
                return Ok(Fetched::Inactive { identity, status: status.to_owned() });
            }
            Err(Stopped::Gone(_)) => {
                return Ok(Fetched::Missing { why: "its PDS has it no more, since its listing began" });
            }
        }
    }
    let Reading { visit, records, bytes_left, .. } = reading;
    match shortfall {
        Some(error) if complete.is_empty() && records.is_empty() => Err(error),
        shortfall => {
            let (requests, len) = (visit.requests, REPOSITORY_LEN_MAX - bytes_left);
            Ok(Fetched::Listed(Listing { identity, rev, records, complete, shortfall, requests, len }))
        }
    }
}

impl Reading<'_> {
    async fn collection(&mut self, collection: Collection) -> Result<(), Stopped> {
        let mut walk = Walk::new(BOUNDS, None);
        let mut sizes = PAGES.into_iter();
        let mut size = sizes.next().unwrap_or("1");
        let short = |why| FetchError::Short { collection, why };
        loop {
            if Instant::now() >= self.deadline {
                return Err(Stopped::Everywhere(short(Shortfall::TooSlow)));
            }
            if self.bytes_left == 0 {
                return Err(Stopped::Everywhere(short(Shortfall::TooManyBytes)));
            }
            let body = match self.page(collection, walk.cursor(), size).await {
                Ok(body) => body,
                Err(AskError::Failed { error, .. })
                    if error.is_too_large()
                        && let Some(smaller) = sizes.next() =>
                {
                    size = smaller;
                    continue;
                }
                Err(error) => return Err(stopped(error)),
            };
            self.bytes_left = self.bytes_left.saturating_sub(body.len());
            match self.read(collection, &body, &mut walk)? {
                Turn::Next => {}
                Turn::End => return Ok(()),
                Turn::Unclear => return Err(Stopped::Here(short(Shortfall::NoEnd))),
                Turn::TooLong => return Err(Stopped::Here(short(Shortfall::TooManyRecords))),
            }
        }
    }

    async fn page(
        &mut self,
        collection: Collection,
        cursor: Option<&str>,
        size: &str,
    ) -> Result<Vec<u8>, AskError> {
        let visit = &mut self.visit;
        let mut parameters =
            vec![("repo", visit.did.as_str()), ("collection", collection.nsid()), ("limit", size)];
        parameters.extend(cursor.map(|cursor| ("cursor", cursor)));
        let query = Query {
            base: visit.pds,
            method: METHOD,
            parameters: &parameters,
            body_len_max: PAGE_LEN_MAX,
            timeout: Some(PAGE_TIMEOUT),
        };
        visit.asker.ask(&query, &mut visit.requests).await
    }

    fn read(&mut self, collection: Collection, body: &[u8], walk: &mut Walk) -> Result<Turn, Stopped> {
        let of = Place { did: self.visit.did, collection, rev: self.rev };
        match page::read(&of, (self.visit.pds, body), walk, &mut self.records) {
            Ok(cursor) => Ok(walk.turn(cursor)),
            Err(error) => Err(stopped(AskError::Failed { method: METHOD, error, retry_at: None })),
        }
    }
}

const METHOD: &str = "com.atproto.repo.listRecords";

fn stopped(error: AskError) -> Stopped {
    match absence(&error) {
        Some(gone) => Stopped::Gone(gone),
        None if error.is_temporary() => Stopped::Everywhere(error.into()),
        None => Stopped::Here(error.into()),
    }
}

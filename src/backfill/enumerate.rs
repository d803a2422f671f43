//! Who has records of the registry: relays' lists of repositories by collection. Owns one page of such a list; which pages
//! were read, and what is done with whom they name, is the caller's.
//!
//! A relay's list is a hint. It is only ever added to, so it names repositories that are long gone (indigo#1276), and it lacks
//! did:web accounts and those that the relay throttles (bluesky-social/pds#359).

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::ask::{AskError, Asker};
use super::pages::{Bounds, Walk};
use crate::atproto::xrpc::{self, Query};
use crate::atproto::{Collection, Did};

/// Repositories asked for at once: the most that the protocol allows.
const PAGE: &str = "2000";
/// 2,000 DIDs of the usual kind are 100 KB.
const PAGE_LEN_MAX: usize = 1 << 20;
/// Such a page is read from a database on disk. At half, a busy relay would seem dead.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Two million repositories. The whole network has some forty million, few of which know of the registry.
const BOUNDS: Bounds = Bounds { full_from: 500, pages_max: 1_000, entries_max: 2_000_000 };

/// One page of a relay's list of repositories with records of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// In the relay's order; what is no DID is left out.
    pub dids: Vec<Did>,
    /// As the relay gave it. [`Walk::turn`] says whether it leads on.
    pub cursor: Option<String>,
}

/// The relays of the settings.
#[derive(Clone)]
pub struct Relays {
    urls: Arc<[String]>,
    asker: Asker,
}

#[derive(Deserialize)]
struct ListReposByCollection {
    repos: Vec<Repo>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct Repo {
    did: String,
}

impl Relays {
    /// `urls` in the order of the settings. The operator chose them, so `asker` asks with the operator's client.
    pub fn new(urls: impl IntoIterator<Item = String>, asker: Asker) -> Self {
        Self { urls: urls.into_iter().collect(), asker }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.urls.len()
    }

    /// The address of a relay, for people.
    ///
    /// # Panics
    /// If `at` is not below [`Self::count`].
    pub fn url(&self, at: usize) -> &str {
        &self.urls[at]
    }

    /// A walk through one list: ask for the [`Self::page`] at its cursor, note every DID, turn. `cursor` of an earlier walk
    /// resumes it.
    pub fn walk(cursor: Option<String>) -> Walk {
        Walk::new(BOUNDS, cursor)
    }

    /// Asks the relay `at` for a page. One request, unless the relay only asks for a short pause. Cancel-safe.
    ///
    /// # Panics
    /// If `at` is not below [`Self::count`].
    pub async fn page(
        &self,
        at: usize,
        collection: Collection,
        cursor: Option<&str>,
    ) -> Result<Page, AskError> {
        let base = self.url(at);
        let mut parameters = vec![("collection", collection.nsid()), ("limit", PAGE)];
        parameters.extend(cursor.map(|cursor| ("cursor", cursor)));
        let method = "com.atproto.sync.listReposByCollection";
        let query = Query {
            base,
            method,
            parameters: &parameters,
            body_len_max: PAGE_LEN_MAX,
            timeout: Some(PAGE_TIMEOUT),
        };
        let body = self.asker.ask(&query, &mut 0).await?;
        let list: ListReposByCollection =
            xrpc::read(base, &body).map_err(|error| AskError::Failed { method, error, retry_at: None })?;
        let dids = list.repos.iter().filter_map(|repo| Did::parse(&repo.did).ok()).collect();
        Ok(Page { dids, cursor: list.cursor })
    }
}

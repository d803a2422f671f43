//! The network half against localnet. Limits are scaled; what is waited for is a condition, and the visitors' book of the
//! network says whether anybody was pressed.
#![allow(clippy::unwrap_used)]

mod accounts;
mod endings;
mod memory;
mod pressed;
mod unchanged;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use localnet::network::{On, Site};
use localnet::{Net, NetOptions, records};
use serde_json::json;

use super::ask::Asker;
use super::enumerate::Relays;
use super::fetch::{FetchError, Fetched, Fetcher, Known, Listing};
use super::pace::{Limits, Pace};
use super::pages::Turn;
use crate::atproto::guard::{GuardSettings, Guarded};
use crate::atproto::identity::{Resolver, TxtLookup};
use crate::atproto::{Collection, Did};

const LIST: &str = "/xrpc/com.atproto.repo.listRecords";
const LATEST: &str = "/xrpc/com.atproto.sync.getLatestCommit";
const STATUS: &str = "/xrpc/com.atproto.sync.getRepoStatus";

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The real limits, but for pauses in tenths of seconds.
fn limits() -> Limits {
    Limits { first: millis(400), last: millis(1_600), wait_max: millis(5_000), ..Limits::of(2) }
}

/// DNS without a single record.
struct NoRecords;

#[async_trait]
impl TxtLookup for NoRecords {
    async fn txt(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

/// A network, and the half under test on it.
struct Stage {
    net: Net,
    fetcher: Fetcher,
    relays: Relays,
}

impl Stage {
    async fn start() -> Self {
        Self::with(limits(), millis(5_000)).await
    }

    /// Two PDSes that are hosts of their own, and two relays.
    async fn with(limits: Limits, timeout: Duration) -> Self {
        let options = NetOptions { pdses: 2, named_pdses: true, relays: 2, ..NetOptions::default() };
        let net = Net::start(options).await.unwrap();
        let settings = GuardSettings {
            allow_loopback: true,
            test_hosts: Some(net.test_hosts()),
            user_agent: "test".to_owned(),
            timeout,
            // So many that it is the pace that keeps the limit.
            per_host: 64,
        };
        let guarded = Guarded::new(settings.clone()).unwrap();
        let operator = Guarded::trusting(settings).unwrap();
        let resolver = Resolver::new(guarded.clone(), operator.clone(), &net.plc_url(), Arc::new(NoRecords));
        let pace = Pace::new(limits);
        let relays = Relays::new(net.relay_urls(), Asker::new(operator, pace.clone()));
        Self { net, fetcher: Fetcher::new(resolver, guarded, pace), relays }
    }

    /// An account on the PDS of this number, with so many tags.
    fn account(&self, name: &str, pds: usize, tags: usize) -> Did {
        let did = self.net.add_account(name);
        for i in 0..tags {
            let tag = records::tag(&did, "hello", &format!("v{i}"), &format!("sha256:{i:064x}"), 0);
            self.net.put(&did, records::TAG, &records::tag_rkey("hello", &format!("v{i:05}")), tag);
        }
        self.net.move_account(&did, pds);
        Did::parse(&did).unwrap()
    }

    async fn listing(&self, did: &Did) -> Listing {
        match self.fetcher.fetch(did, None).await.unwrap() {
            Fetched::Listed(listing) => listing,
            other => panic!("not listed: {other:?}"),
        }
    }

    /// All DIDs that the relay lists for a collection, and how its list ended.
    async fn enumerated(&self, relay: usize, collection: Collection) -> (Vec<Did>, Turn) {
        let mut walk = Relays::walk(None);
        let mut dids = Vec::new();
        loop {
            let page = self.relays.page(relay, collection, walk.cursor()).await.unwrap();
            dids.extend(page.dids.into_iter().filter(|did| walk.note(did.as_str())));
            match walk.turn(page.cursor) {
                Turn::Next => {}
                end => return (dids, end),
            }
        }
    }
}

fn rkeys(listing: &Listing) -> Vec<&str> {
    listing.records.iter().map(|change| change.rkey.as_str()).collect()
}

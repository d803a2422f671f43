//! The requests of a run and nothing else: the product's guarded client, as many at once, and every answer thrown away.

use std::sync::Arc;
use std::time::Duration;

use atcr_workers::atproto::Collection;
use atcr_workers::atproto::guard::{GuardSettings, Guarded};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::network::Setting;
use crate::product::CONCURRENCY;

const ANSWER_LEN_MAX: usize = 8 << 20;

/// The client.
pub(crate) struct Bare {
    asks: Arc<Asks>,
    relay_url: String,
    hold: String,
}

struct Asks {
    guarded: Guarded,
    operator: Guarded,
    plc_url: String,
}

/// As the product is set up, with 2 requests per host.
pub(crate) fn guard(setting: &Setting) -> GuardSettings {
    GuardSettings {
        allow_loopback: true,
        test_hosts: Some(setting.test_hosts),
        user_agent: "bench".to_owned(),
        timeout: Duration::from_secs(10),
        per_host: 2,
    }
}

impl Bare {
    pub(crate) fn new(setting: &Setting) -> Self {
        let guard = guard(setting);
        let asks = Asks {
            guarded: Guarded::new(guard.clone()).unwrap(),
            operator: Guarded::trusting(guard).unwrap(),
            plc_url: setting.plc_url.clone(),
        };
        Self { asks: Arc::new(asks), relay_url: setting.relay_url.clone(), hold: setting.hold.clone() }
    }

    /// Every repository of the relay's lists, and the hold's.
    pub(crate) async fn read_all(&self) {
        let mut dids: Vec<String> = vec![self.hold.clone()];
        for collection in Collection::ALL {
            let first = format!(
                "{}/xrpc/com.atproto.sync.listReposByCollection?collection={}&limit=2000",
                self.relay_url,
                collection.nsid()
            );
            let mut cursor = Some(String::new());
            while let Some(from) = cursor {
                let from = if from.is_empty() { String::new() } else { format!("&cursor={from}") };
                let body =
                    self.asks.operator.get(&format!("{first}{from}"), ANSWER_LEN_MAX).await.unwrap().body;
                let text = String::from_utf8(body).unwrap();
                dids.extend(all_between(&text, "\"did\":\"").map(str::to_owned));
                cursor = after(&text, "\"cursor\":\"").map(str::to_owned);
            }
        }
        dids.sort_unstable();
        dids.dedup();
        let places = Arc::new(Semaphore::new(CONCURRENCY));
        let mut tasks = JoinSet::new();
        for did in dids {
            let place = Arc::clone(&places).acquire_owned().await.unwrap();
            let asks = Arc::clone(&self.asks);
            tasks.spawn(async move {
                asks.read(&did).await;
                drop(place);
            });
            while let Some(read) = tasks.try_join_next() {
                read.unwrap();
            }
        }
        tasks.join_all().await;
    }
}

impl Asks {
    async fn read(&self, did: &str) {
        let document = match did.strip_prefix("did:web:") {
            Some(host) => self.ask(&format!("http://{host}/.well-known/did.json")).await,
            None => {
                let url = format!("{}/{did}", self.plc_url);
                String::from_utf8(self.operator.get(&url, ANSWER_LEN_MAX).await.unwrap().body).unwrap()
            }
        };
        let handle = after(&document, "\"at://").expect("a handle");
        let file = format!("http://{handle}/.well-known/atproto-did");
        assert_eq!(self.guarded.get_once(&file, ANSWER_LEN_MAX).await.unwrap().status, 200, "{file}");
        let pds = after(&document, "\"serviceEndpoint\":\"").expect("a PDS");
        self.ask(&format!("{pds}/xrpc/com.atproto.sync.getLatestCommit?did={did}")).await;
        for collection in Collection::ALL {
            let first = format!(
                "{pds}/xrpc/com.atproto.repo.listRecords?repo={did}&collection={}&limit=100",
                collection.nsid()
            );
            let mut cursor = Some(String::new());
            while let Some(from) = cursor {
                let from = if from.is_empty() { String::new() } else { format!("&cursor={from}") };
                let answer = self.ask(&format!("{first}{from}")).await;
                // The network writes it before the records.
                cursor = answer
                    .starts_with("{\"cursor\"")
                    .then(|| after(&answer, "\"cursor\":\"").unwrap().to_owned());
            }
        }
    }

    async fn ask(&self, url: &str) -> String {
        let answer = self.guarded.get(url, ANSWER_LEN_MAX).await.unwrap();
        assert_eq!(answer.status, 200, "{url}");
        String::from_utf8(answer.body).unwrap()
    }
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    all_between(text, mark).next()
}

/// From each mark to the next quotation mark.
fn all_between<'a>(text: &'a str, mark: &str) -> impl Iterator<Item = &'a str> {
    text.match_indices(mark).filter_map(move |(at, _)| text[at + mark.len()..].split('"').next())
}

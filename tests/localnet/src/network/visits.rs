//! The visitors' book of the HTTP servers: who asked what and when, how many at once, and whether they kept to what they
//! were told.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::faults::{On, Site};
use super::rates::Client;
use crate::lock;

/// Requests that are kept; later ones are counted and not written down.
const VISITS_MAX: usize = 1_000_000;
/// A request that was under way when the refusal of another was written is nobody's fault.
const UNDER_WAY: Duration = Duration::from_millis(100);

/// One request.
#[derive(Clone, Debug)]
pub struct Visit {
    /// When its head and body had come.
    pub at: Instant,
    /// The server.
    pub site: Site,
    /// The name that was asked for.
    pub host: String,
    /// The client's address.
    pub client: IpAddr,
    /// Without its query.
    pub path: String,
    /// What was answered.
    pub status: u16,
    /// How long the client was told to wait, if it was.
    pub told_wait: Option<Duration>,
    /// It was refused for being more than the allowance, of which the client had been told what was left.
    pub over_allowance: bool,
}

#[derive(Debug, Default)]
pub(super) struct Visits {
    book: Mutex<Vec<Visit>>,
    present: Mutex<BTreeMap<Client, Present>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Present {
    now: usize,
    most: usize,
}

/// A request whose answer is not written yet.
#[derive(Debug)]
pub(super) struct Guest {
    visits: Arc<Visits>,
    client: Client,
}

impl Visits {
    pub(super) fn arrive(self: &Arc<Self>, client: Client) -> Guest {
        let mut present = lock(&self.present);
        let here = present.entry(client.clone()).or_default();
        here.now += 1;
        here.most = here.most.max(here.now);
        Guest { visits: Arc::clone(self), client }
    }

    pub(super) fn write(&self, visit: Visit) {
        let mut book = lock(&self.book);
        if book.len() < VISITS_MAX {
            book.push(visit);
        }
    }

    pub(super) fn all(&self) -> Vec<Visit> {
        lock(&self.book).clone()
    }

    pub(super) fn most_at_once(&self, on: &On) -> usize {
        let present = lock(&self.present);
        let met = present.iter().filter(|((site, host, _), _)| on.meets(*site, host, ""));
        met.map(|(_, here)| here.most).max().unwrap_or(0)
    }

    /// All that a polite client does not do, each as a sentence: more than `at_once` requests at a host at the same time, more
    /// than it was told were left, and any too early.
    pub(super) fn pressed(&self, at_once: usize, unsaid: Duration) -> Vec<String> {
        let mut pressed = self.too_early(unsaid);
        let over = lock(&self.book).iter().filter(|visit| visit.over_allowance).count();
        if over > 0 {
            pressed.push(format!("{over} requests beyond what was left"));
        }
        for ((site, host, _), here) in lock(&self.present).iter().filter(|(_, here)| here.most > at_once) {
            pressed.push(format!("{site:?} {host}: {} requests at once", here.most));
        }
        pressed
    }

    /// Requests that came before the time that their client had been told, each as a sentence. One that was refused without a
    /// time counts as told to wait for `unsaid`.
    pub(super) fn too_early(&self, unsaid: Duration) -> Vec<String> {
        let mut told: HashMap<(Site, &str, IpAddr), (Instant, Instant)> = HashMap::new();
        let mut early = Vec::new();
        let book = lock(&self.book);
        for visit in book.iter() {
            let client = (visit.site, visit.host.as_str(), visit.client);
            if let Some((told_at, until)) = told.get(&client)
                && visit.at > *told_at + UNDER_WAY
                && visit.at < *until
            {
                let by = until.duration_since(visit.at);
                early.push(format!("{:?} {} {} {by:?} too early", visit.site, visit.host, visit.path));
            }
            let refused = matches!(visit.status, 429 | 503).then_some(unsaid);
            if let Some(wait) = visit.told_wait.or(refused) {
                let until =
                    told.get(&client).map_or(visit.at + wait, |(_, until)| (*until).max(visit.at + wait));
                told.insert(client, (visit.at, until));
            }
        }
        early
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(here) = lock(&self.visits.present).get_mut(&self.client) {
            here.now -= 1;
        }
    }
}

//! Accounts, their repositories, and the servers that speak for them: a PLC directory, PDSes, relays, and one
//! address that answers for every `*.test` name.
//!
//! A change through [`Net`] lands in the repository and is published on every attached Jetstream, in that order.

mod account;
mod answers;
mod changes;
mod endings;
mod faults;
mod holds;
mod made;
mod pds;
mod rates;
mod relay;
mod stripe;
mod visits;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

pub use account::{Account, Put, Record};
pub use endings::Ending;
pub use faults::{Fault, On, Site};
pub use holds::{Curve, Registry, TierUpdate};
pub use made::Made;
pub use rates::{Rate, Told};
pub use stripe::STRIPE_KEY;
pub use visits::Visit;

use crate::http::{self, Listener, Manner, Request};
use crate::jetstream::{Jetstream, JetstreamOptions};
use crate::labeler::Labeler;
use crate::lock;
use crate::webhooks::Receiver;
use account::Accounts;
use faults::Desk;
use rates::Rates;
use relay::Relay;
use visits::{Guest, Visits};

/// How a network is set up.
#[derive(Clone, Debug)]
pub struct NetOptions {
    /// DIDs follow from it.
    pub seed: u64,
    /// One entry per Jetstream server; their ports are overridden by `port_base`.
    pub jetstreams: Vec<JetstreamOptions>,
    /// Number of PDSes, at least 1.
    pub pdses: usize,
    /// Documents name the PDSes `http://pdsN.test`, so that each is a host of its own to its clients; else they are
    /// ports of one address.
    pub named_pdses: bool,
    /// Number of relays.
    pub relays: usize,
    /// 0: any free ports. Otherwise PLC, `*.test`, PDSes, Jetstreams, relays, the labeler, the webhooks' receiver and Stripe
    /// take consecutive ports from here.
    pub port_base: u16,
}

impl Default for NetOptions {
    fn default() -> Self {
        let jetstreams = vec![JetstreamOptions::default()];
        Self { seed: 1, jetstreams, pdses: 1, named_pdses: false, relays: 1, port_base: 0 }
    }
}

/// A running network. Dropping it ends its servers.
#[derive(Debug)]
pub struct Net {
    world: Arc<World>,
    plc: Listener,
    hosts: Listener,
    pdses: Vec<Listener>,
    jetstreams: Vec<Jetstream>,
    relays: Vec<Listener>,
    labeler: Labeler,
    webhooks: Receiver,
    stripe: Listener,
}

/// What the servers share.
#[derive(Debug)]
struct World {
    seed: u64,
    accounts: Mutex<Accounts>,
    relays: Mutex<Vec<Relay>>,
    desk: Desk,
    rates: Rates,
    visits: Arc<Visits>,
    endings: Mutex<BTreeMap<Site, Ending>>,
    holds: Mutex<holds::Desk>,
    stripe: Mutex<stripe::Desk>,
    /// Addresses of the PDSes, known once they are bound.
    pds_urls: Mutex<Vec<String>>,
}

impl Net {
    /// Starts the servers; there are no accounts yet.
    ///
    /// # Errors
    /// When a port cannot be bound.
    pub async fn start(options: NetOptions) -> io::Result<Self> {
        let world = Arc::new(World {
            seed: options.seed,
            accounts: Mutex::default(),
            relays: Mutex::new((0..options.relays).map(|_| Relay::default()).collect()),
            desk: Desk::default(),
            rates: Rates::default(),
            visits: Arc::default(),
            endings: Mutex::default(),
            holds: Mutex::default(),
            stripe: Mutex::default(),
            pds_urls: Mutex::default(),
        });
        let mut ports = Ports(options.port_base);
        let plc = world.listen(Site::Plc, ports.take()).await?;
        let hosts = world.listen(Site::Hosts, ports.take()).await?;
        let mut pdses = Vec::new();
        for number in 0..options.pdses.max(1) {
            pdses.push(world.listen(Site::Pds(number), ports.take()).await?);
        }
        let named = |(number, pds): (usize, &Listener)| match options.named_pdses {
            true => format!("http://pds{number}.test"),
            false => format!("http://{}", pds.address()),
        };
        *lock(&world.pds_urls) = pdses.iter().enumerate().map(named).collect();
        let mut jetstreams = Vec::new();
        for mut of in options.jetstreams {
            if options.port_base != 0 {
                of.port = ports.take();
            }
            jetstreams.push(Jetstream::start(of).await?);
        }
        let mut relays = Vec::new();
        for number in 0..options.relays {
            relays.push(world.listen(Site::Relay(number), ports.take()).await?);
        }
        let labeler = Labeler::start(ports.take()).await?;
        let webhooks = Receiver::start(ports.take()).await?;
        let stripe = world.listen(Site::Stripe, ports.take()).await?;
        Ok(Self { world, plc, hosts, pdses, jetstreams, relays, labeler, webhooks, stripe })
    }

    /// `http://127.0.0.1:PORT` of the PLC directory.
    pub fn plc_url(&self) -> String {
        format!("http://{}", self.plc.address())
    }

    /// `http://127.0.0.1:PORT` of the first PDS.
    pub fn pds_url(&self) -> String {
        self.pds_url_of(0)
    }

    /// `http://127.0.0.1:PORT` of a PDS by number.
    pub fn pds_url_of(&self, pds: usize) -> String {
        format!("http://{}", self.pdses[pds].address())
    }

    /// Number of PDSes.
    pub fn pds_count(&self) -> usize {
        self.pdses.len()
    }

    /// `http://127.0.0.1:PORT` of a relay by number.
    pub fn relay_url_of(&self, relay: usize) -> String {
        format!("http://{}", self.relays[relay].address())
    }

    /// The same of every relay.
    pub fn relay_urls(&self) -> Vec<String> {
        (0..self.relays.len()).map(|number| self.relay_url_of(number)).collect()
    }

    /// The address that serves every `*.test` name, by its `Host` header.
    pub fn test_hosts(&self) -> SocketAddr {
        self.hosts.address()
    }

    /// The labeler.
    pub fn labeler(&self) -> &Labeler {
        &self.labeler
    }

    /// The receiver of webhooks.
    pub fn webhooks(&self) -> &Receiver {
        &self.webhooks
    }

    /// A Jetstream by number.
    pub fn jetstream(&self, number: usize) -> &Jetstream {
        &self.jetstreams[number]
    }

    /// All Jetstreams.
    pub fn jetstreams(&self) -> &[Jetstream] {
        &self.jetstreams
    }
}

/// Faults and counts of the HTTP servers.
impl Net {
    /// Requests for which `on` holds meet this fault from now on; a later fault goes before an earlier one.
    pub fn set_fault(&self, on: On, fault: Fault) {
        self.world.desk.set_fault(on, fault);
    }

    /// All HTTP servers behave again; requests that were never answered stay so.
    pub fn clear_faults(&self) {
        self.world.desk.clear_faults();
    }

    /// Requests for which `on` holds are limited from now on, per client and host; a later limit goes before an earlier one.
    pub fn set_rate(&self, on: On, rate: Rate) {
        self.world.rates.set(on, rate);
    }

    /// No limits any more.
    pub fn clear_rates(&self) {
        self.world.rates.clear();
    }

    /// How the listings of a server come to their end; by default as those of the reference PDS do.
    pub fn set_ending(&self, site: Site, ending: Ending) {
        lock(&self.world.endings).insert(site, ending);
    }

    /// Every request so far, in order of arrival.
    pub fn visits(&self) -> Vec<Visit> {
        self.world.visits.all()
    }

    /// The most requests of one client that were at one host at the same time, over hosts for which `on` holds (its path is
    /// not looked at).
    pub fn most_at_once(&self, on: &On) -> usize {
        self.world.visits.most_at_once(on)
    }

    /// Requests that came earlier than their client had been told to come back, each as a sentence. One that was refused
    /// (429, 503) and not told counts as told to wait for `unsaid`. Requests that were under way then do not count.
    pub fn too_early(&self, unsaid: Duration) -> Vec<String> {
        self.world.visits.too_early(unsaid)
    }

    /// Whether any host was pressed, each case as a sentence: more than `at_once` requests of one client there at the same
    /// time, requests beyond what the client was told were left, and those [too early](Self::too_early).
    pub fn pressed(&self, at_once: usize, unsaid: Duration) -> Vec<String> {
        self.world.visits.pressed(at_once, unsaid)
    }

    /// Requests received so far for which `on` holds, refused ones included.
    pub fn requests(&self, on: &On) -> u64 {
        self.world.desk.requests(on)
    }

    /// Requests per (site, host, path).
    pub fn request_counts(&self) -> BTreeMap<(Site, String, String), u64> {
        self.world.desk.counts()
    }
}

impl World {
    async fn listen(self: &Arc<Self>, site: Site, port: u16) -> io::Result<Listener> {
        let world = Arc::clone(self);
        Listener::start(port, move |stream| {
            let world = Arc::clone(&world);
            http::serve(stream, move |request: &Request| world.respond(site, request))
        })
        .await
    }

    /// The answer, and who waits for it until it is written.
    fn respond(&self, site: Site, request: &Request) -> (http::Answer, Guest) {
        let site = self.named_pds(&request.host).unwrap_or(site);
        let client = (site, request.host.clone(), request.client);
        let (guest, at) = (self.visits.arrive(client.clone()), Instant::now());
        let counted = self.rates.count(&client, &request.path);
        let fault = self.desk.receive(site, &request.host, &request.path);
        let (answer, told_wait) = match (counted, fault) {
            (Some(counted), _) if counted.refused => (counted.refusal(), counted.told_wait()),
            (_, Some(fault)) if let Some(replacement) = fault.answer_of(site) => {
                (replacement, fault.told_wait())
            }
            (_, fault) => {
                let answer = self.answer(site, request);
                (answer.in_manner(fault.map_or(Manner::Plain, Fault::manner)), None)
            }
        };
        let answer = match counted {
            Some(counted) if !counted.refused => counted.tell(answer),
            _ => answer,
        };
        let over_allowance = counted.is_some_and(|counted| counted.is_over());
        let (_, host, client) = client;
        let (path, status) = (request.path.clone(), answer.status);
        self.visits.write(Visit { at, site, host, client, path, status, told_wait, over_allowance });
        (answer, guest)
    }

    fn answer(&self, site: Site, request: &Request) -> http::Answer {
        let ending = lock(&self.endings).get(&site).copied().unwrap_or_default();
        if let Some(answer) = holds::answer(self, site, request) {
            return answer;
        }
        match site {
            Site::Stripe => stripe::answer(self, request),
            Site::Plc => answers::plc(self, request),
            Site::Hosts => answers::host(self, ending, request),
            Site::Pds(number) => pds::answer(self, Some(number), ending, request),
            Site::Relay(number) => relay::answer(self, number, ending, request),
        }
    }

    /// The PDS that goes by this name, if there is one.
    fn named_pds(&self, host: &str) -> Option<Site> {
        let number = host.strip_prefix("pds")?.strip_suffix(".test")?.parse().ok()?;
        (number < lock(&self.pds_urls).len()).then_some(Site::Pds(number))
    }
}

struct Ports(u16);

impl Ports {
    fn take(&mut self) -> u16 {
        let port = self.0;
        if port != 0 {
            self.0 = self.0.saturating_add(1);
        }
        port
    }
}

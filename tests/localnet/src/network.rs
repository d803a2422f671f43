//! Accounts, their repositories, and the servers that speak for them: a PLC directory, PDSes, and one address
//! that answers for every `*.test` name.
//!
//! A change through [`Net`] lands in the repository and is published on every attached Jetstream, in that order.

mod account;
mod answers;
mod changes;
mod faults;
mod pds;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

pub use account::{Account, Put, Record};
pub use faults::{Fault, On, Site};

use crate::http::{self, Listener, Request};
use crate::jetstream::{Jetstream, JetstreamOptions};
use crate::lock;
use account::Accounts;
use faults::Desk;

/// How a network is set up.
#[derive(Clone, Debug)]
pub struct NetOptions {
    /// DIDs follow from it.
    pub seed: u64,
    /// One entry per Jetstream server; their ports are overridden by `port_base`.
    pub jetstreams: Vec<JetstreamOptions>,
    /// Number of PDSes, at least 1.
    pub pdses: usize,
    /// 0: any free ports. Otherwise PLC, `*.test`, PDSes, Jetstreams take consecutive ports from here.
    pub port_base: u16,
}

impl Default for NetOptions {
    fn default() -> Self {
        Self { seed: 1, jetstreams: vec![JetstreamOptions::default()], pdses: 1, port_base: 0 }
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
}

/// What the servers share.
#[derive(Debug)]
struct World {
    seed: u64,
    accounts: Mutex<Accounts>,
    desk: Desk,
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
            desk: Desk::default(),
            pds_urls: Mutex::default(),
        });
        let mut ports = Ports(options.port_base);
        let plc = world.listen(Site::Plc, ports.take()).await?;
        let hosts = world.listen(Site::Hosts, ports.take()).await?;
        let mut pdses = Vec::new();
        for number in 0..options.pdses.max(1) {
            pdses.push(world.listen(Site::Pds(number), ports.take()).await?);
        }
        *lock(&world.pds_urls) = pdses.iter().map(|p| format!("http://{}", p.address())).collect();
        let mut jetstreams = Vec::new();
        for mut of in options.jetstreams {
            if options.port_base != 0 {
                of.port = ports.take();
            }
            jetstreams.push(Jetstream::start(of).await?);
        }
        Ok(Self { world, plc, hosts, pdses, jetstreams })
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

    /// The address that serves every `*.test` name, by its `Host` header.
    pub fn test_hosts(&self) -> SocketAddr {
        self.hosts.address()
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

    fn respond(&self, site: Site, request: &Request) -> http::Answer {
        let fault = self.desk.receive(site, &request.host, &request.path);
        if let Some(replacement) = fault.and_then(Fault::answer) {
            return replacement;
        }
        let answer = match site {
            Site::Plc => answers::plc(self, request),
            Site::Hosts => answers::host(self, request),
            Site::Pds(number) => pds::answer(self, Some(number), request),
        };
        fault.map_or(answer.clone(), |fault| answer.in_manner(fault.manner()))
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

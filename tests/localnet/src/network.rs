//! Accounts, their repositories, and the servers that speak for them: a PLC directory, PDSes, and one address
//! that answers for every `*.test` name.
//!
//! A change through [`Net`] lands in the repository and is published on every attached Jetstream, in that order.

mod account;
mod answers;
mod faults;
mod pds;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;

pub use account::{Account, Record};
pub use faults::{Fault, On, Site};

use crate::http::{self, Listener, Request};
use crate::jetstream::{Event, Jetstream, JetstreamOptions};
use crate::{ids, lock};
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

/// What became of a put.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Put {
    /// Revision of the repository with it.
    pub rev: String,
    /// CID of the record.
    pub cid: String,
    /// `at://DID/COLLECTION/RKEY`
    pub uri: String,
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

/// Accounts and their repositories.
impl Net {
    /// Makes a did:plc account with the handle `NAME.test` on the first PDS, and returns its DID.
    pub fn add_account(&self, name: &str) -> String {
        let did = ids::did_plc(self.world.seed, name);
        lock(&self.world.accounts).add(Account::new(&did, &format!("{name}.test"), Some(0)));
        did
    }

    /// Makes `did:web:NAME.test`; `http://NAME.test` is its PDS too, as with a hold.
    pub fn add_web_account(&self, name: &str) -> String {
        let did = format!("did:web:{name}.test");
        lock(&self.world.accounts).add(Account::new(&did, &format!("{name}.test"), None));
        did
    }

    /// Writes a record and publishes it. `$type` is added if absent.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn put(&self, did: &str, collection: &str, rkey: &str, record: Value) -> Put {
        let (put, commit) = lock(&self.world.accounts).put(did, collection, rkey, record);
        self.publish(did, &Event::Commit { commit });
        put
    }

    /// Deletes a record and publishes that; None if there was none.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn delete(&self, did: &str, collection: &str, rkey: &str) -> Option<String> {
        let commit = lock(&self.world.accounts).delete(did, collection, rkey)?;
        let rev = commit.rev.clone();
        self.publish(did, &Event::Commit { commit });
        Some(rev)
    }

    /// Writes a record that no Jetstream carries (sifa-workspace#394): only the PDS has it.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn put_unseen(&self, did: &str, collection: &str, rkey: &str, record: Value) -> Put {
        lock(&self.world.accounts).put(did, collection, rkey, record).0
    }

    /// Deletes a record and no Jetstream says so; None if there was none.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn delete_unseen(&self, did: &str, collection: &str, rkey: &str) -> Option<String> {
        lock(&self.world.accounts).delete(did, collection, rkey).map(|commit| commit.rev)
    }

    /// Gives the account another handle; the old one leads nowhere. Publishes an identity event.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn change_handle(&self, did: &str, handle: &str) {
        lock(&self.world.accounts).get_mut(did).handle = handle.to_owned();
        self.identity_event(did);
    }

    /// Makes the handle's host name claim this DID instead (None: the handle leads nowhere); no event.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn set_claim(&self, did: &str, claims: Option<&str>) {
        lock(&self.world.accounts).get_mut(did).claims = claims.map(str::to_owned);
    }

    /// Moves the account and its records to another PDS; the old one knows it no more. Publishes an identity event.
    ///
    /// # Panics
    /// When there is no such account or PDS.
    pub fn move_account(&self, did: &str, pds: usize) {
        assert!(pds < self.pdses.len(), "there is no PDS {pds}");
        lock(&self.world.accounts).get_mut(did).pds = Some(pds);
        self.identity_event(did);
    }

    /// The PLC directory answers 410 from now on; no event.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn tombstone(&self, did: &str) {
        lock(&self.world.accounts).get_mut(did).tombstoned = true;
    }

    /// Sets what PDS and account event say: `active`, and `deleted`, `deactivated`, `takendown`, ... if not.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn set_account(&self, did: &str, active: bool, status: Option<&str>) {
        let mut accounts = lock(&self.world.accounts);
        let account = accounts.get_mut(did);
        account.active = active;
        account.status = status.map(str::to_owned);
        let event = accounts.account_event(did, active, status);
        drop(accounts);
        self.publish(did, &event);
    }

    /// Publishes an identity event, for a known or an unknown DID.
    pub fn identity_event(&self, did: &str) {
        let event = lock(&self.world.accounts).identity_event(did);
        self.publish(did, &event);
    }

    /// Publishes an account event without changing anything, for a known or an unknown DID.
    pub fn account_event(&self, did: &str, active: bool, status: Option<&str>) {
        let event = lock(&self.world.accounts).account_event(did, active, status);
        self.publish(did, &event);
    }

    /// The record, if there is one: what the index should come to hold.
    pub fn record(&self, did: &str, collection: &str, rkey: &str) -> Option<Record> {
        let accounts = lock(&self.world.accounts);
        accounts.get(did)?.records.get(collection)?.get(rkey).cloned()
    }

    /// All records of a collection over all accounts, by (DID, record key).
    pub fn records(&self, collection: &str) -> BTreeMap<(String, String), Record> {
        let accounts = lock(&self.world.accounts);
        let of = |account: &Account| -> Vec<_> {
            let records = account.records.get(collection).into_iter().flatten();
            records.map(|(rkey, record)| ((account.did.clone(), rkey.clone()), record.clone())).collect()
        };
        accounts.all().flat_map(of).collect()
    }

    /// A snapshot of an account.
    pub fn account(&self, did: &str) -> Option<Account> {
        lock(&self.world.accounts).get(did).cloned()
    }

    /// All DIDs, in order.
    pub fn dids(&self) -> Vec<String> {
        lock(&self.world.accounts).all().map(|account| account.did.clone()).collect()
    }

    fn publish(&self, did: &str, event: &Event) {
        for jetstream in &self.jetstreams {
            jetstream.publish(did, event);
        }
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
            self.0 += 1;
        }
        port
    }
}

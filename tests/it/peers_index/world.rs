//! The accounts on the PDS, what they say now, and the instances that index it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};

use super::launch::Launch;
use crate::support::{
    eventually::eventually,
    index,
    pds::{Account, Pds},
    peers::Peers,
    process::Instance,
    truth::{self, Difference, Identity, Said},
};

/// From a write to the PDS to its rows, over a restart of either side, on a loaded machine.
const SETTLED_WITHIN: Duration = Duration::from_secs(120);

const COLLECTIONS: [&str; 9] = [
    "io.atcr.manifest",
    "io.atcr.tag",
    "io.atcr.repo.page",
    "io.atcr.sailor.profile",
    "io.atcr.sailor.star",
    "io.atcr.hold.captain",
    "io.atcr.hold.crew",
    "io.atcr.hold.stats",
    "io.atcr.hold.scan",
];

pub(super) struct World {
    pub(super) peers: Peers,
    pub(super) database: String,
    pub(super) launch: Launch,
    pds: Pds,
    /// By the name that each began with.
    accounts: BTreeMap<String, Account>,
    /// By DID.
    identities: BTreeMap<String, Identity>,
    /// What a deactivated or deleted account said last, by DID: the PDS does not show it meanwhile.
    asleep: BTreeMap<String, Vec<Said>>,
    /// Addresses of records that are gone: author, collection, key.
    deleted: BTreeSet<(String, String, String)>,
}

impl World {
    pub(super) fn new(peers: Peers, database: String) -> World {
        let pds = peers.pds();
        World {
            launch: Launch::on(&peers, &database),
            peers,
            database,
            pds,
            accounts: BTreeMap::new(),
            identities: BTreeMap::new(),
            asleep: BTreeMap::new(),
            deleted: BTreeSet::new(),
        }
    }

    /// The same with the backfill, from a relay that lists what the PDS has. `interval` is that of its runs.
    pub(super) fn with_backfill(mut self, interval: &str) -> World {
        let relay = self.peers.start_relay();
        self.launch = self
            .launch
            .with("ATCR__BACKFILL__ENABLED", "true")
            .with("ATCR__BACKFILL__RELAY_URLS", &relay)
            .with("ATCR__BACKFILL__INTERVAL", interval);
        self
    }

    /// Starts our program on this world's database and peers.
    pub(super) fn start_instance(&self, label: &str) -> Instance {
        self.launch.start(label)
    }

    /// Cuts the connection of the one who follows the stream.
    pub(super) async fn cut(&self) {
        self.wait_for_subscriber().await;
        let cut = self.peers.tell_jetstream("POST", "drop", "");
        assert_eq!(cut["dropped"], 1);
    }

    pub(super) async fn wait_for_subscriber(&self) {
        eventually("somebody follows the stream", SETTLED_WITHIN, async || {
            let stats = self.peers.tell_jetstream("GET", "stats", "");
            if stats["subscribers"] == 1 { Ok(()) } else { Err(stats) }
        })
        .await;
    }

    /// The accounts and records of `seed.mjs`.
    pub(super) fn seed(&mut self) {
        self.peers.seed();
        for name in ["alice", "bob", "hold01"] {
            let account = self.pds.log_in(name);
            self.add(name, account);
        }
    }

    pub(super) fn create_account(&mut self, name: &str) {
        let account = self.pds.create_account(name);
        self.add(name, account);
    }

    fn add(&mut self, name: &str, account: Account) {
        self.identities.insert(account.did.clone(), Identity::active(&account.handle, self.pds.url()));
        self.accounts.insert(name.to_owned(), account);
    }

    pub(super) fn did(&self, name: &str) -> String {
        self.accounts[name].did.clone()
    }

    /// The keys of an account's records.
    pub(super) fn keys(&self, name: &str, collection: &str) -> Vec<String> {
        let listed = self.pds.list_records(&self.accounts[name].did, collection);
        listed.iter().map(|record| key(&record.uri)).collect()
    }

    pub(super) fn put(&mut self, name: &str, collection: &str, rkey: &str, record: Value) {
        let account = &self.accounts[name];
        self.pds.put_record(account, collection, rkey, record);
        self.deleted.remove(&address(account, collection, rkey));
    }

    pub(super) fn delete(&mut self, name: &str, collection: &str, rkey: &str) {
        let account = &self.accounts[name];
        self.pds.delete_record(account, collection, rkey);
        self.deleted.insert(address(account, collection, rkey));
    }

    /// Gives the account the handle `HANDLE.test`; whoever had it in the index has it no more.
    pub(super) fn rename(&mut self, name: &str, handle: &str) {
        let account = &self.accounts[name];
        self.pds.update_handle(account, handle);
        self.identities.get_mut(&account.did).unwrap().handle = format!("{handle}.test");
    }

    pub(super) fn deactivate(&mut self, name: &str) {
        self.hide(name, "deactivated");
        self.pds.deactivate_account(&self.accounts[name]);
    }

    /// For good: its PDS knows it no more. What it said is hidden, and kept for the hour in which that may be taken back.
    pub(super) fn delete_account(&mut self, name: &str) {
        self.hide(name, "deleted");
        self.pds.delete_account(&self.accounts[name]);
    }

    fn hide(&mut self, name: &str, status: &str) {
        let account = &self.accounts[name];
        self.asleep.insert(account.did.clone(), self.listed(account));
        let identity = self.identities.get_mut(&account.did).unwrap();
        (identity.active, identity.status) = (false, Some(status.to_owned()));
    }

    pub(super) fn activate(&mut self, name: &str) {
        let account = &self.accounts[name];
        self.pds.activate_account(account);
        self.asleep.remove(&account.did);
        let identity = self.identities.get_mut(&account.did).unwrap();
        (identity.active, identity.status) = (true, None);
    }

    /// Waits until every table of the index is what the accounts say; `after` names what came before.
    pub(super) async fn is_settled(&self, after: &str) {
        let mut said: Vec<Said> = Vec::new();
        for account in self.accounts.values() {
            said.extend(self.asleep.get(&account.did).cloned().unwrap_or_else(|| self.listed(account)));
        }
        said.extend(self.deleted.iter().cloned().map(|(did, collection, rkey)| {
            let (cid, value) = (None, None);
            Said { did, collection, rkey, cid, value }
        }));
        let wanted = truth::rows(&said, &self.identities);
        eventually(&format!("the index is right after {after}"), SETTLED_WITHIN, async || {
            let mut found = index::read(&self.database, index::CONTENT).await.map_err(Difference)?;
            self.forgive_hidden_handles(&mut found);
            truth::compare(&found, &wanted)
        })
        .await;
    }

    /// The PDS confirms no handle of an account that is asleep or gone: whoever asks meanwhile finds it invalid, and
    /// whoever did not ask keeps what was true. Both are right until it is back.
    fn forgive_hidden_handles(&self, found: &mut index::Rows) {
        for did in self.asleep.keys() {
            let known = &self.identities[did];
            let user = |handle: &str| {
                let Identity { pds, active, status, .. } = known;
                let fields =
                    json!({ "did": did, "handle": handle, "pds": pds, "active": active, "status": status });
                index::row(fields.as_object().unwrap().clone())
            };
            let users = found.get_mut("users").unwrap();
            if users.remove(&user("handle.invalid")) {
                users.insert(user(&known.handle));
            }
        }
    }

    fn listed(&self, account: &Account) -> Vec<Said> {
        let listed = |collection: &&'static str| {
            let records = self.pds.list_records(&account.did, collection);
            let collection = (*collection).to_owned();
            records.into_iter().map(move |record| Said {
                did: account.did.clone(),
                collection: collection.clone(),
                rkey: key(&record.uri),
                cid: Some(record.cid),
                value: Some(record.value),
            })
        };
        COLLECTIONS.iter().flat_map(listed).collect()
    }
}

fn address(account: &Account, collection: &str, rkey: &str) -> (String, String, String) {
    (account.did.clone(), collection.to_owned(), rkey.to_owned())
}

fn key(uri: &str) -> String {
    uri.rsplit('/').next().unwrap().to_owned()
}

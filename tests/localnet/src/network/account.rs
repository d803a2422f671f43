//! Accounts and repositories in memory.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::made::Made;
use crate::ids;
use crate::jetstream::{self, Commit, Event, Identity};

/// A record as its repository holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Revision that wrote it.
    pub rev: String,
    /// CID.
    pub cid: String,
    /// JSON, with `$type`.
    pub value: Value,
}

/// Which records are asked for.
pub(super) struct PageOf<'a> {
    pub(super) collection: &'a str,
    pub(super) beyond: Option<&'a str>,
    pub(super) reverse: bool,
    pub(super) limit: usize,
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

/// An account with its repository.
#[derive(Clone, Debug)]
pub struct Account {
    /// did:plc or did:web.
    pub did: String,
    /// What its DID document says.
    pub handle: String,
    /// The DID that the handle's host claims; None: no answer there.
    pub claims: Option<String>,
    /// Number of its PDS; None: its own host (did:web).
    pub pds: Option<usize>,
    /// What its document names in place of its PDS's address.
    pub endpoint: Option<String>,
    /// Whether it is served.
    pub active: bool,
    /// Why not, if not.
    pub status: Option<String>,
    /// The PLC directory answers 410.
    pub tombstoned: bool,
    /// Revision of the repository; None while empty from the start.
    pub rev: Option<String>,
    /// Relays do not take it, and so no Jetstream has it either.
    pub throttled: bool,
    /// Collection, record key, record; empty while the repository is made up.
    pub records: BTreeMap<String, BTreeMap<String, Record>>,
    /// Its records are made up on request.
    pub made: Option<Made>,
}

impl Account {
    pub(super) fn new(did: &str, handle: &str, pds: Option<usize>) -> Self {
        Self {
            did: did.to_owned(),
            handle: handle.to_owned(),
            claims: Some(did.to_owned()),
            pds,
            endpoint: None,
            active: true,
            status: None,
            tombstoned: false,
            rev: None,
            throttled: false,
            records: BTreeMap::new(),
            made: None,
        }
    }

    /// Collections with records.
    pub(super) fn collections(&self) -> Vec<String> {
        let written = self.records.iter().filter(|(_, records)| !records.is_empty());
        let made = self.made.iter().flat_map(Made::collections);
        written.map(|(name, _)| name.clone()).chain(made.map(str::to_owned)).collect()
    }

    /// Up to so many records beyond a key, from the greatest key down or (`reverse`) from the least up.
    pub(super) fn page(&self, of: &PageOf<'_>) -> Vec<(String, Record)> {
        if let Some(made) = &self.made {
            return made.page(self, of);
        }
        let all = self.records.get(of.collection).into_iter().flatten();
        let beyond =
            |rkey: &str| of.beyond.is_none_or(|key| if of.reverse { rkey > key } else { rkey < key });
        let own = |(rkey, record): (&String, &Record)| (rkey.clone(), record.clone());
        let rows = all.filter(|(rkey, _)| beyond(rkey));
        if of.reverse {
            rows.take(of.limit).map(own).collect()
        } else {
            rows.rev().take(of.limit).map(own).collect()
        }
    }

    pub(super) fn record(&self, collection: &str, rkey: &str) -> Option<Record> {
        match &self.made {
            Some(made) => made.record_at(self, collection, rkey),
            None => self.records.get(collection)?.get(rkey).cloned(),
        }
    }

    /// What was made up becomes real, before something is changed in it.
    fn settle(&mut self) {
        let Some(made) = self.made.clone() else { return };
        for collection in made.collections() {
            let of = PageOf { collection, beyond: None, reverse: true, limit: usize::MAX };
            let records = made.page(self, &of).into_iter().collect();
            self.records.insert(collection.to_owned(), records);
        }
        self.made = None;
    }

    pub(super) fn document(&self, pds_url: &str) -> Value {
        json!({
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
            "id": self.did,
            "alsoKnownAs": [format!("at://{}", self.handle)],
            "verificationMethod": [{
                "id": format!("{}#atproto", self.did),
                "type": "Multikey",
                "controller": self.did,
                "publicKeyMultibase": "zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
            }],
            "service": [{
                "id": "#atproto_pds",
                "type": "AtprotoPersonalDataServer",
                "serviceEndpoint": pds_url,
            }],
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Accounts {
    by_did: BTreeMap<String, Account>,
    /// Handle and DID: looking through all accounts for a handle would make a large network slow.
    handles: BTreeSet<(String, String)>,
    clock_us: i64,
    seq: u64,
}

impl Accounts {
    pub(super) fn add(&mut self, account: Account) {
        if let Entry::Vacant(free) = self.by_did.entry(account.did.clone()) {
            self.handles.insert((account.handle.clone(), account.did.clone()));
            free.insert(account);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Account> {
        self.by_did.values()
    }

    pub(super) fn get(&self, did: &str) -> Option<&Account> {
        self.by_did.get(did)
    }

    pub(super) fn get_mut(&mut self, did: &str) -> &mut Account {
        self.by_did.get_mut(did).unwrap_or_else(|| panic!("there is no account {did}"))
    }

    /// By DID or handle, as `repo` parameters allow.
    pub(super) fn find(&self, repo: &str) -> Option<&Account> {
        if repo.starts_with("did:") { self.get(repo) } else { self.by_handle(repo) }
    }

    /// Of several the first.
    pub(super) fn by_handle(&self, handle: &str) -> Option<&Account> {
        let from = (handle.to_owned(), String::new());
        let (found, did) = self.handles.range(from..).next()?;
        if found == handle { self.get(did) } else { None }
    }

    pub(super) fn change_handle(&mut self, did: &str, handle: &str) {
        let old = std::mem::replace(&mut self.get_mut(did).handle, handle.to_owned());
        self.handles.remove(&(old, did.to_owned()));
        self.handles.insert((handle.to_owned(), did.to_owned()));
    }

    pub(super) fn put(&mut self, did: &str, collection: &str, rkey: &str, mut value: Value) -> (Put, Commit) {
        let rev = self.next_rev();
        if let Some(fields) = value.as_object_mut() {
            fields.entry("$type").or_insert_with(|| collection.into());
        }
        let cid = ids::cid(&value);
        let account = self.get_mut(did);
        account.settle();
        account.rev = Some(rev.clone());
        let record = Record { rev: rev.clone(), cid: cid.clone(), value: value.clone() };
        let old = account.records.entry(collection.to_owned()).or_default().insert(rkey.to_owned(), record);
        let commit = Commit {
            rev: rev.clone(),
            operation: if old.is_some() { "update" } else { "create" },
            collection: collection.to_owned(),
            rkey: rkey.to_owned(),
            record: Some(value),
            cid: Some(cid.clone()),
        };
        (Put { rev, cid, uri: format!("at://{did}/{collection}/{rkey}") }, commit)
    }

    pub(super) fn delete(&mut self, did: &str, collection: &str, rkey: &str) -> Option<Commit> {
        let rev = self.next_rev();
        let account = self.get_mut(did);
        account.settle();
        account.records.get_mut(collection)?.remove(rkey)?;
        account.rev = Some(rev.clone());
        let (collection, rkey) = (collection.to_owned(), rkey.to_owned());
        Some(Commit { rev, operation: "delete", collection, rkey, record: None, cid: None })
    }

    pub(super) fn identity_event(&mut self, did: &str) -> Event {
        self.seq += 1;
        let (did, time) = (did.to_owned(), crate::records::time(ids::now_us()));
        Event::Identity { identity: Identity { did, handle: None, seq: self.seq, time } }
    }

    pub(super) fn sync_event(&mut self, did: &str) -> Event {
        self.seq += 1;
        let rev = self.get(did).and_then(|account| account.rev.clone()).unwrap_or_else(|| ids::tid(0, 0));
        let (did, time) = (did.to_owned(), crate::records::time(ids::now_us()));
        let blocks = serde_json::json!({ "$bytes": "oA" });
        Event::Sync { sync: jetstream::Sync { blocks, did, rev, seq: self.seq, time } }
    }

    pub(super) fn account_event(&mut self, did: &str, active: bool, status: Option<&str>) -> Event {
        self.seq += 1;
        let (did, time) = (did.to_owned(), crate::records::time(ids::now_us()));
        let status = status.map(str::to_owned);
        Event::Account { account: jetstream::Account { active, did, seq: self.seq, status, time } }
    }

    /// Revisions rise over the whole network, so they do in each repository.
    fn next_rev(&mut self) -> String {
        self.clock_us = ids::now_us().max(self.clock_us + 1);
        ids::tid(self.clock_us, 0)
    }
}

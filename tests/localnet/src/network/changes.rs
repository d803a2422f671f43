//! What can happen to accounts and their repositories, and what they hold.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use serde_json::Value;

use super::Net;
use super::account::{Account, Accounts, PageOf, Put, Record};
use super::made::Made;
use crate::jetstream::Event;
use crate::{ids, lock};

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

    /// Makes so many accounts `madeN.test` over all PDSes, each with so many records that are made up on request: a
    /// network of any size takes no memory and no time. Relays know them, no Jetstream ever told. Returns their DIDs.
    pub fn add_made_accounts(&self, accounts: usize, made: Made) -> Vec<String> {
        let mut known = lock(&self.world.accounts);
        let mut relays = lock(&self.world.relays);
        let first = known.all().filter(|account| account.made.is_some()).count();
        let add = |number: usize| {
            let did = ids::did_plc(self.world.seed, &format!("made{number}"));
            let mut account =
                Account::new(&did, &format!("made{number}.test"), Some(number % self.pdses.len()));
            account.made = Some(Made { number: number as u64, ..made.clone() });
            account.rev = Some(ids::tid(Made::AT_US + number as i64, 0));
            for collection in account.collections() {
                relays.iter_mut().for_each(|relay| relay.observe(&account, &collection));
            }
            known.add(account);
            did
        };
        (first..first + accounts).map(add).collect()
    }

    /// Whether relays refuse the account, as they do with those over a PDS's allowance (pds#359): none lists it from now on
    /// that has not yet, and no Jetstream carries its events.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn throttle(&self, did: &str, on: bool) {
        lock(&self.world.accounts).get_mut(did).throttled = on;
    }

    /// Every relay looks through every PDS, and adds what its list lacks of the records that are there.
    pub fn crawl(&self) {
        let accounts = lock(&self.world.accounts);
        let mut relays = lock(&self.world.relays);
        for account in accounts.all().filter(|account| account.active) {
            for collection in account.collections() {
                relays.iter_mut().for_each(|relay| relay.observe(account, &collection));
            }
        }
    }

    /// The relay of this number forgets its lists, as one does that was set up anew.
    pub fn clear_relay(&self, relay: usize) {
        lock(&self.world.relays)[relay].clear();
    }

    /// Writes a record and publishes it. `$type` is added if absent.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn put(&self, did: &str, collection: &str, rkey: &str, record: Value) -> Put {
        let mut accounts = lock(&self.world.accounts);
        let (put, commit) = accounts.put(did, collection, rkey, record);
        self.publish(accounts, did, &Event::Commit { commit });
        put
    }

    /// Deletes a record and publishes that; None if there was none.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn delete(&self, did: &str, collection: &str, rkey: &str) -> Option<String> {
        let mut accounts = lock(&self.world.accounts);
        let commit = accounts.delete(did, collection, rkey)?;
        let rev = commit.rev.clone();
        self.publish(accounts, did, &Event::Commit { commit });
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
        lock(&self.world.accounts).change_handle(did, handle);
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

    /// Makes the account's document name another address than its PDS's, whatever is there (None: its PDS's); no event.
    ///
    /// # Panics
    /// When there is no such account.
    pub fn set_endpoint(&self, did: &str, endpoint: Option<&str>) {
        lock(&self.world.accounts).get_mut(did).endpoint = endpoint.map(str::to_owned);
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
        self.publish(accounts, did, &event);
    }

    /// Publishes an identity event, for a known or an unknown DID.
    pub fn identity_event(&self, did: &str) {
        let mut accounts = lock(&self.world.accounts);
        let event = accounts.identity_event(did);
        self.publish(accounts, did, &event);
    }

    /// Publishes a sync event ("read this repository anew") on the second wires, for a known or an unknown DID. It changes
    /// nothing.
    pub fn sync_event(&self, did: &str) {
        let mut accounts = lock(&self.world.accounts);
        let event = accounts.sync_event(did);
        self.publish(accounts, did, &event);
    }

    /// Publishes an account event without changing anything, for a known or an unknown DID.
    pub fn account_event(&self, did: &str, active: bool, status: Option<&str>) {
        let mut accounts = lock(&self.world.accounts);
        let event = accounts.account_event(did, active, status);
        self.publish(accounts, did, &event);
    }

    /// The record, if there is one: what the index should come to hold.
    pub fn record(&self, did: &str, collection: &str, rkey: &str) -> Option<Record> {
        lock(&self.world.accounts).get(did)?.record(collection, rkey)
    }

    /// All records of a collection over all accounts, by (DID, record key).
    pub fn records(&self, collection: &str) -> BTreeMap<(String, String), Record> {
        let accounts = lock(&self.world.accounts);
        let of = |account: &Account| -> Vec<_> {
            let of = PageOf { collection, beyond: None, reverse: true, limit: usize::MAX };
            let records = account.page(&of).into_iter();
            records.map(|(rkey, record)| ((account.did.clone(), rkey), record)).collect()
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

    /// The accounts stay locked until all servers have it, so that events leave in the order of revisions.
    fn publish(&self, accounts: MutexGuard<'_, Accounts>, did: &str, event: &Event) {
        let account = accounts.get(did);
        if account.is_some_and(|account| account.throttled) {
            return;
        }
        if let (Some(account), Event::Commit { commit }) = (account, event)
            && commit.operation == "create"
        {
            lock(&self.world.relays).iter_mut().for_each(|relay| relay.observe(account, &commit.collection));
        }
        for jetstream in &self.jetstreams {
            jetstream.publish(did, event);
        }
    }
}

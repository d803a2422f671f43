//! From a batch of what repositories say to the deliveries that it asks for. Pure.
//!
//! The index takes only the newest revision of each record from a batch; here each one counts that would have changed a
//! row had the batch come event by event, so it does not matter how the stream was cut into batches.

mod words;

use std::collections::HashMap;

use super::Trigger;
use super::event::{Counts, Event, Push, Scanned, Wanted, cid_of, push_key, uri_of};
use crate::atproto::records::{Manifest, Scan, Tag, digest_of_rkey};
use crate::atproto::{Change, Collection, Did, Record, State};

pub use words::{After, Asked, Before, Completion, Hook, ManifestKey, Open, Put, RecordKey};

/// Whether a change can ask for a delivery, and of whose webhooks.
pub fn user_of(change: &Change) -> Option<&Did> {
    match (change.collection, &change.state) {
        (Collection::Manifest | Collection::Tag, State::Present(_)) => Some(&change.did),
        (Collection::Scan, State::Present(record)) => match &**record {
            Record::Scan(scan) => Some(&scan.owner),
            _ => None,
        },
        _ => None,
    }
}

/// What the changes ask of these webhooks.
pub fn fold(changes: &[Change], hooks: &[Hook], before: Before, after: &After, open: Vec<Open>) -> Asked {
    let mut by_user: HashMap<&str, Vec<&Hook>> = HashMap::new();
    for hook in hooks {
        by_user.entry(hook.user.as_str()).or_default().push(hook);
    }
    let mut folding = Folding { by_user, before, after, open, asked: Asked::default() };
    for change in changes {
        folding.take(change);
    }
    folding.asked
}

struct Folding<'a> {
    by_user: HashMap<&'a str, Vec<&'a Hook>>,
    /// As of the change that is looked at.
    before: Before,
    after: &'a After,
    open: Vec<Open>,
    asked: Asked,
}

impl Folding<'_> {
    fn take(&mut self, change: &Change) {
        let nsid = change.collection.nsid().to_owned();
        let key = (change.did.to_string(), nsid, change.rkey.to_string());
        if !self.after.written.contains(&key)
            || self.before.revs.get(&key).is_some_and(|known| *known >= change.rev)
        {
            return;
        }
        self.before.revs.insert(key, change.rev);
        let record = match &change.state {
            State::Present(record) => Some(&**record),
            State::Absent | State::Unreadable => None,
        };
        match (change.collection, record) {
            (Collection::Manifest, Some(Record::Manifest(manifest))) => self.pushed(change, manifest),
            (Collection::Tag, Some(Record::Tag(tag))) => self.tagged(change, tag),
            (Collection::Scan, Some(Record::Scan(scan))) => self.scanned(change, scan),
            (Collection::Manifest, _) => self.forget_manifest(change),
            (Collection::Tag, _) => {
                self.before.tags.remove(&(change.did.to_string(), change.rkey.to_string()));
            }
            (Collection::Scan, _) => {
                let digest = digest_of_rkey(&change.rkey).unwrap_or_default();
                self.before.scans.remove(&(change.did.to_string(), digest));
            }
            _ => {}
        }
    }

    fn hooks(&self, user: &Did, trigger: Trigger) -> Vec<i64> {
        let hooks = self.by_user.get(user.as_str()).into_iter().flatten();
        hooks.filter(|hook| hook.triggers & trigger.bit() != 0).map(|hook| hook.id).collect()
    }

    fn forget_manifest(&mut self, change: &Change) {
        let is_it =
            |of: &ManifestKey, rkey: &str| of.0 == change.did.as_str() && rkey == change.rkey.as_str();
        self.before.manifests.retain(|of, (rkey, ..)| !is_it(of, rkey));
    }

    fn pushed(&mut self, change: &Change, manifest: &Manifest) {
        self.forget_manifest(change);
        let hold = manifest.hold.as_ref().map(ToString::to_string);
        self.before.manifests.insert(
            (change.did.to_string(), manifest.repository.clone(), manifest.digest.clone()),
            (change.rkey.to_string(), manifest.media_type.clone(), hold),
        );
        let push = Push {
            at: manifest.created_at.0,
            media_type: manifest.media_type.clone(),
            hold: manifest.hold.as_ref().map(ToString::to_string),
        };
        for webhook in self.hooks(&change.did, Trigger::Push) {
            let wanted = Wanted {
                user: change.did.clone(),
                trigger: Trigger::Push,
                dedupe_key: push_key(&uri_of(change), cid_of(change), ""),
                repository: manifest.repository.clone(),
                digest: manifest.digest.clone(),
                tag: String::new(),
                event: Event::Push(push.clone()),
            };
            self.asked.puts.push(Put { webhook, wanted, waits: true });
        }
    }

    /// A tag completes the newest push of its manifest that waits for one; else it is a push of its own, if it is new or
    /// names another manifest than before. One whose manifest is not in the index by then is
    /// none.
    fn tagged(&mut self, change: &Change, tag: &Tag) {
        let place = (change.did.to_string(), change.rkey.to_string());
        let named_before = self.before.tags.insert(place, tag.digest.clone());
        let moved = named_before.as_ref() != Some(&tag.digest);
        let of = (change.did.to_string(), tag.repository.clone(), tag.digest.clone());
        let Some((rkey, media_type, hold)) = self.before.manifests.get(&of) else { return };
        let uri = format!("at://{}/{}/{rkey}", change.did, Collection::Manifest.nsid());
        let push = Push { at: tag.created_at.0, media_type: media_type.clone(), hold: hold.clone() };
        for webhook in self.hooks(&change.did, Trigger::Push) {
            let wanted = Wanted {
                user: change.did.clone(),
                trigger: Trigger::Push,
                dedupe_key: push_key(&uri, cid_of(change), &tag.tag),
                repository: tag.repository.clone(),
                digest: tag.digest.clone(),
                tag: tag.tag.clone(),
                event: Event::Push(push.clone()),
            };
            let own = Put { webhook, wanted, waits: false };
            if !self.complete(&own) && moved {
                self.asked.puts.push(own);
            }
        }
    }

    /// Whether there was an open push, in the batch or before it.
    fn complete(&mut self, own: &Put) -> bool {
        let Put { webhook, wanted, .. } = own;
        let in_batch = self.asked.puts.iter_mut().rev().find(|put| {
            let same = put.wanted.digest == wanted.digest && put.wanted.repository == wanted.repository;
            put.waits && put.webhook == *webhook && same
        });
        if let Some(put) = in_batch {
            put.wanted.dedupe_key.push_str(&wanted.tag);
            put.wanted.tag.clone_from(&wanted.tag);
            put.waits = false;
            return true;
        }
        let same = |open: &Open| {
            open.webhook == *webhook && open.digest == wanted.digest && open.repository == wanted.repository
        };
        let Some(at) = self.open.iter().rposition(same) else { return false };
        let open = self.open.remove(at);
        self.asked.completions.push(Completion {
            id: open.id,
            tag: wanted.tag.clone(),
            dedupe_key: open.dedupe_key + &wanted.tag,
            instead: own.clone(),
        });
        true
    }

    /// A scan counts while its hold is known and hosts the repository, as a count does.
    fn scanned(&mut self, change: &Change, scan: &Scan) {
        let (hold, counts) = (change.did.to_string(), Counts::of(scan));
        let previous = self.before.scans.insert((hold.clone(), scan.manifest_digest.clone()), counts);
        if !self.after.trusted.contains(&(hold.clone(), scan.owner.to_string(), scan.repository.clone())) {
            return;
        }
        let mut triggers = vec![Trigger::ScanAll];
        match previous {
            None => triggers.push(Trigger::ScanFirst),
            Some(previous) if previous != counts => triggers.push(Trigger::ScanChanged),
            Some(_) => {}
        }
        let scanner_version = scan.scanner_version.clone();
        let event = Event::Scan(Scanned { at: scan.scanned_at.0, hold, scanner_version, counts, previous });
        for trigger in triggers {
            for webhook in self.hooks(&scan.owner, trigger) {
                let wanted = Wanted {
                    user: scan.owner.clone(),
                    trigger,
                    dedupe_key: format!("{trigger}:{}:{}", uri_of(change), scan.scanned_at.0),
                    repository: scan.repository.clone(),
                    digest: scan.manifest_digest.clone(),
                    tag: String::new(),
                    event: event.clone(),
                };
                self.asked.puts.push(Put { webhook, wanted, waits: false });
            }
        }
    }
}

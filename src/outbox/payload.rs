//! The bytes that are sent: the registry's own shapes, a push in snake_case and a scan in camelCase.
//!
//! Only names, digests, times and numbers, all of them bounded where they are read: prose that people write about their
//! repositories is not in it. The fields come in this order, and no two runs write them differently.

mod shapes;

use self::shapes::{Hold, Manifest, PushData, PushPayload, Repository, Scan, ScanPayload, TestPayload};
use super::Trigger;
use super::event::{Event, Push, Scanned};
use crate::atproto::Did;
use crate::settings::Registry;

/// Bytes of a payload at most: the names of which it consists may be 255 bytes long, and a JSON text six times that.
/// It is not cut; what is larger is a mistake of ours.
pub const PAYLOAD_LEN_MAX: usize = 16 * 1024;

/// Where people reach the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site(Option<String>);

impl Site {
    /// The first of its domains, else its base.
    pub fn of(registry: &Registry) -> Self {
        let domain = registry.domains.first().map(|domain| format!("https://{domain}"));
        Self(domain.or_else(|| registry.base_url.as_ref().map(|url| url.as_str().to_owned())))
    }

    fn repository(&self, path: &str) -> String {
        self.0.as_ref().map_or_else(String::new, |base| format!("{base}/{path}"))
    }
}

/// What the index knows around an event when it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The user's DID.
    pub user_did: String,
    /// The user's handle, if a valid one is known.
    pub user_handle: Option<String>,
    /// The hold's address, if it is known.
    pub hold_endpoint: Option<String>,
    /// The repository's stars.
    pub stars: i64,
    /// The repository's pulls.
    pub pulls: i64,
    /// The newest tag of a scanned manifest.
    pub tag: Option<String>,
}

impl Surroundings {
    /// Images are addressed by handle or by DID.
    fn namespace(&self) -> &str {
        self.user_handle.as_deref().unwrap_or(&self.user_did)
    }

    fn endpoint(&self, hold: &str) -> String {
        self.hold_endpoint.clone().or_else(|| endpoint_of(hold)).unwrap_or_default()
    }
}

/// What a delivery is about.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are the record's")]
pub struct Subject<'a> {
    pub repository: &'a str,
    pub digest: &'a str,
    pub tag: &'a str,
}

/// The payload of one delivery.
pub fn payload(
    trigger: Trigger,
    about: Subject<'_>,
    event: &Event,
    around: &Surroundings,
    site: &Site,
) -> String {
    let text = match event {
        Event::Push(push) => of_push(trigger, about, push, around, site),
        Event::Scan(scan) => of_scan(trigger, about, scan, around),
        Event::Test { at } => of_test(trigger, *at, around),
    };
    text.expect("texts and numbers are JSON")
}

fn of_push(
    trigger: Trigger,
    about: Subject<'_>,
    push: &Push,
    around: &Surroundings,
    site: &Site,
) -> serde_json::Result<String> {
    let hold = push.hold.as_deref().unwrap_or_default();
    let repo_name = format!("{}/{}", around.namespace(), about.repository);
    serde_json::to_string(&PushPayload {
        trigger: trigger.as_str(),
        push_data: PushData {
            pushed_at: rfc3339(push.at),
            pusher: around.namespace(),
            pusher_did: &around.user_did,
            tag: about.tag,
            digest: about.digest,
        },
        repository: Repository {
            name: about.repository,
            namespace: around.namespace(),
            repo_url: site.repository(&repo_name),
            repo_name,
            media_type: &push.media_type,
            star_count: around.stars,
            pull_count: around.pulls,
        },
        hold: Hold { did: hold, endpoint: around.endpoint(hold) },
    })
}

fn of_scan(
    trigger: Trigger,
    about: Subject<'_>,
    scan: &Scanned,
    around: &Surroundings,
) -> serde_json::Result<String> {
    let previous = if trigger == Trigger::ScanChanged { scan.previous } else { None };
    serde_json::to_string(&ScanPayload {
        trigger: trigger.as_str(),
        hold_did: &scan.hold,
        hold_endpoint: around.endpoint(&scan.hold),
        manifest: Manifest {
            digest: about.digest,
            repository: about.repository,
            tag: around.tag.as_deref().unwrap_or_default(),
            user_did: &around.user_did,
            user_handle: around.namespace(),
        },
        scan: Scan {
            scanned_at: rfc3339(scan.at),
            scanner_version: &scan.scanner_version,
            vulnerabilities: scan.counts,
        },
        previous,
    })
}

fn of_test(trigger: Trigger, at: i64, around: &Surroundings) -> serde_json::Result<String> {
    serde_json::to_string(&TestPayload {
        trigger: trigger.as_str(),
        message: "A test of this webhook. Nothing has happened.",
        sent_at: rfc3339(at),
        user_did: &around.user_did,
        user_handle: around.namespace(),
    })
}

/// The address that a did:web tells by itself.
fn endpoint_of(hold: &str) -> Option<String> {
    let host = Did::parse(hold).ok()?.as_str().strip_prefix("did:web:")?.replacen("%3A", ":", 1);
    Some(format!("https://{host}"))
}

fn rfc3339(us: i64) -> String {
    let at = chrono::DateTime::from_timestamp_micros(us).unwrap_or_default();
    at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
}

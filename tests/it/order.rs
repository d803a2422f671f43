//! Whatever way the frames of records' histories arrive, the rows are those of the histories' ends. From the raw frame
//! to the row, under a real lease; what the rows must be is read by `support/truth.rs`, not by the product.

use std::{collections::BTreeMap, time::Duration};

use atcr_workers::{
    atproto::Change,
    ingest::{
        known::Known,
        project::{What, project},
        wire::Wire,
    },
    store::{Database, Fencing, Options, SqlLeases, Tx, WriteError},
};
use leased_actors::{
    clock::Clock,
    lease::{Ask, LeaseStore, Term, Trust},
    testing::{name, registration},
};
use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::{
    index::{self, Rows, row},
    postgres::Postgres,
    truth::{self, Said},
};

/// What a history says at one revision: 0 is a deletion, 1 a malformed record, others are versions.
type Step = u8;

#[derive(Clone, Debug)]
struct Scenario {
    /// Of each record of [`value`], at most one step per revision.
    histories: Vec<Vec<Step>>,
    /// Transactions: which frames, and whether the database fails at the end.
    batches: Vec<(Vec<Index>, bool)>,
    /// From where all is sent once more, and the beginning only after that: whatever was lost has come by then.
    replayed_from: Index,
    /// The frames in one transaction of that.
    replayed_at_once: usize,
}

const RECORDS: usize = 14;

/// Frames that are nobody's record; they must change nothing.
const NOISE: &[&str] = &[
    "",
    "{",
    r#"{"did":"did:plc:noise","time_us":1,"kind":"commit"}"#,
    r#"{"did":"did:plc:noise","time_us":1,"kind":"commit","commit":{"rev":"3mabcdefgh222","operation":"create",
        "collection":"app.bsky.feed.post","rkey":"a","record":{},"cid":"bafyreinoise"}}"#,
    r#"{"did":"noise","time_us":1,"kind":"commit","commit":{"rev":"3mabcdefgh222","operation":"delete",
        "collection":"io.atcr.tag","rkey":"a"}}"#,
    r#"{"did":"did:plc:noise","time_us":1,"kind":"account","account":{"active":false,"did":"did:plc:noise","seq":1,
        "time":"2026-09-01T12:00:00Z","status":"deleted"}}"#,
];

struct Stage {
    runtime: Runtime,
    url: String,
    database: Database,
    term: Term,
    _directory: tempfile::TempDir,
}

impl Stage {
    fn new(url: impl AsyncFnOnce(&std::path::Path) -> String) -> Stage {
        let runtime = Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (url, database, term) = runtime.block_on(async {
            let url = url(directory.path()).await;
            let options = Options {
                url: url.clone(),
                direct_url: None,
                max_connections: 5,
                renew_timeout: Duration::from_secs(30),
                stop_within: Duration::from_secs(30),
                fencing: Fencing::Leased,
            };
            let database = Database::open(&options).await.unwrap();
            database.migrate().await.unwrap();
            let (leases, me) = (SqlLeases::new(database.clone()), registration("order"));
            leases.register(&me, &[name()]).await.unwrap();
            let ask = Ask {
                name: name(),
                me: me.incarnation,
                grace: Duration::ZERO,
                beaconless: None,
                ends_wish: false,
            };
            let claim = leases.claim(&ask).await.unwrap().unwrap();
            let clock = Clock::boottime();
            let trust = Trust::none(clock.clone());
            trust.extend(clock.now() + Duration::from_secs(3600));
            (url, database, Term::new(claim.term, trust))
        });
        Stage { runtime, url, database, term, _directory: directory }
    }

    /// One transaction with what these frames mean. A failing one is taken back, another's deadlock is tried again.
    async fn deliver(&self, frames: &[String], fails: bool) {
        let changes: Vec<Change> = frames.iter().filter_map(|frame| meaning(frame)).collect();
        for _ in 0..20 {
            let changes = changes.clone();
            let work = async move |tx: &mut Tx| {
                tx.apply(&changes).await?;
                if fails { Err(WriteError::Database("cut".to_owned())) } else { Ok(()) }
            };
            match self.database.fenced(&self.term, work).await {
                Ok(()) => return,
                Err(WriteError::Database(why)) if fails && why == "cut" => return,
                Err(WriteError::Database(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("refused twenty times");
    }

    /// Two writers at once, as when a backfill works beside the stream; then the end once more, and then
    /// the beginning.
    async fn deliver_wildly(&self, frames: &[String], scenario: &Scenario) {
        let chosen = |indices: &[Index]| -> Vec<String> {
            indices.iter().map(|index| index.get(frames).clone()).collect()
        };
        let (one, other) = scenario.batches.split_at(scenario.batches.len() / 2);
        let writer = async |batches: &[(Vec<Index>, bool)]| {
            for (indices, fails) in batches {
                self.deliver(&chosen(indices), *fails).await;
            }
        };
        tokio::join!(writer(one), writer(other));
        let (beginning, end) = frames.split_at(scenario.replayed_from.index(frames.len()));
        for batch in end.chunks(scenario.replayed_at_once).chain(beginning.chunks(scenario.replayed_at_once))
        {
            self.deliver(batch, false).await;
        }
    }

    /// Of one world.
    async fn rows(&self, world: &str) -> Rows {
        let parts: Vec<_> = index::CONTENT.iter().copied().chain([index::REVISIONS]).collect();
        let mut rows = index::read(&self.url, &parts).await.unwrap();
        rows.values_mut().for_each(|rows| rows.retain(|row| row.contains(world)));
        rows
    }
}

fn meaning(frame: &str) -> Option<Change> {
    match project(Wire::V1, frame.as_bytes(), &Known::default(), i64::MAX / 2).what {
        What::Change(change, _) => Some(*change),
        _ => None,
    }
}

/// A record's author, collection, key and, at a version, what it says, in a world of its own.
fn value(world: &str, record: usize, version: u8) -> (String, &'static str, String, Value) {
    let (user, other) = (format!("did:plc:{world}user"), format!("did:plc:{world}other"));
    let (a, b) = (format!("did:plc:{world}hold"), format!("did:web:{world}.hold.test"));
    let odd = version % 2 == 1;
    let hold = if odd {
        json!({ "holdDid": a })
    } else {
        json!({ "holdEndpoint": format!("https://{world}.hold.test") })
    };
    let repository = if version.is_multiple_of(3) { "app" } else { "tools/cli" };
    let at = |minute: u8| format!("2026-09-01T12:{minute:02}:00.{version:03}Z");
    match record {
        0 => image(user, "m1", repository, hold, &at(version)),
        1 => image(user, &"ab".repeat(32), "app", hold, &at(version + 1)),
        2 => multi(user, &at(2)),
        3 => (user.clone(), "io.atcr.tag", "t".to_owned(), tag(&user, repository, odd)),
        4 => (other, "io.atcr.sailor.star", "star".to_owned(), star(&user, repository, odd)),
        5 => {
            let page = json!({ "repository": "app", "description": at(9), "createdAt": at(7), "updatedAt": at(version) });
            (user, "io.atcr.repo.page", "app".to_owned(), page)
        }
        6 => {
            let profile =
                json!({ "createdAt": at(0), "defaultHold": odd.then_some(a), "autoRemoveUntagged": odd });
            (user, "io.atcr.sailor.profile", "self".to_owned(), profile)
        }
        7 | 8 => {
            let captain = json!({
                "owner": other, "public": odd, "allowAllCrew": !odd, "enableBlueskyPosts": false, "deployedAt": at(0),
                "region": "here",
            });
            (if record == 7 { a } else { b }, "io.atcr.hold.captain", "self".to_owned(), captain)
        }
        9 => {
            let crew = json!({ "member": other, "role": "write", "permissions": ["blob:read", "blob:write"], "addedAt": at(version) });
            (a, "io.atcr.hold.crew", "crew".to_owned(), crew)
        }
        10 => count(&a, &user, "app", version),
        11 => count(&b, &user, "app", version),
        12 => count(&b, &user, "tools/cli", version),
        _ => {
            let scan = json!({
                "manifest": format!("at://{user}/io.atcr.manifest/{}", "ab".repeat(32)), "repository": "app",
                "userDid": user, "critical": version, "high": 1, "medium": 0, "low": 2, "total": version + 3,
                "scannerVersion": "atcr-scanner-v1.0.0", "scannedAt": at(30),
            });
            (b, "io.atcr.hold.scan", "ab".repeat(32), scan)
        }
    }
}

/// In the newer or the older shape.
fn tag(user: &str, repository: &str, newer: bool) -> Value {
    let tag = json!({ "repository": repository, "tag": "latest" });
    let rest = if newer {
        let manifest = format!("at://{user}/io.atcr.manifest/{}", "ab".repeat(32));
        json!({ "manifest": manifest, "updatedAt": "2026-09-01T12:04:00Z" })
    } else {
        json!({ "manifestDigest": format!("sha256:{}", "cd".repeat(32)), "createdAt": "2026-09-01T12:05:00Z" })
    };
    merged(tag, rest)
}

/// In the older or the newer shape.
fn star(user: &str, repository: &str, older: bool) -> Value {
    let subject = if older {
        json!({ "did": user, "repository": repository })
    } else {
        json!(format!("at://{user}/io.atcr.repo.page/{repository}"))
    };
    json!({ "subject": subject, "createdAt": "2026-09-01T12:06:00Z" })
}

fn count(hold: &str, user: &str, repository: &str, version: u8) -> (String, &'static str, String, Value) {
    let at = |minute: u8| format!("2026-09-01T12:{minute:02}:00Z");
    let counts = json!({
        "ownerDid": user, "repository": repository, "pullCount": version, "pushCount": i64::from(version) - 4,
        "lastPull": (version % 2 == 1).then(|| at(version)), "updatedAt": at(1),
    });
    let key = format!("stats-{}", repository.replace('/', "-"));
    (hold.to_owned(), "io.atcr.hold.stats", key, counts)
}

fn image(
    did: String,
    rkey: &str,
    repository: &str,
    hold: Value,
    at: &str,
) -> (String, &'static str, String, Value) {
    let blob = |number: u8, kind: &str| json!({ "digest": format!("sha256:{number:064x}"), "size": number, "mediaType": kind });
    let layer = "application/vnd.oci.image.layer.v1.tar+gzip";
    let record = json!({
        "repository": repository, "digest": format!("sha256:{}", "ab".repeat(32)), "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "createdAt": at,
        "config": blob(9, "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(3, layer), blob(1, layer), blob(3, layer)],
        "annotations": { "org.opencontainers.image.title": at, "odd": 7 },
    });
    (did, "io.atcr.manifest", rkey.to_owned(), merged(record, hold))
}

fn multi(did: String, at: &str) -> (String, &'static str, String, Value) {
    let record = json!({
        "repository": "app", "digest": format!("sha256:{}", "ef".repeat(32)), "schemaVersion": 2, "createdAt": at,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            { "digest": format!("sha256:{}", "ab".repeat(32)), "size": 7,
              "mediaType": "application/vnd.oci.image.manifest.v1+json",
              "platform": { "os": "windows", "architecture": "arm64", "variant": "v8", "os.version": at } },
            { "digest": format!("sha256:{}", "cd".repeat(32)), "size": 8,
              "mediaType": "application/vnd.oci.image.manifest.v1+json",
              "platform": { "os": "unknown", "architecture": "unknown" },
              "annotations": { "vnd.docker.reference.type": "attestation-manifest" } },
        ],
    });
    (did, "io.atcr.manifest", "ef".repeat(32), record)
}

/// The frames of the histories in the order of their revisions, and what the repositories say at their end, with the
/// revision of that.
fn told(world: &str, histories: &[Vec<Step>]) -> (Vec<String>, Vec<(Said, String)>) {
    let (mut frames, mut end) = (Vec::new(), BTreeMap::new());
    for revision in 0..histories.iter().map(Vec::len).max().unwrap_or(0) {
        for (record, history) in histories.iter().enumerate() {
            let Some(step) = history.get(revision) else { continue };
            let (did, collection, rkey, mut value) = value(world, record, *step);
            if *step == 1 {
                value = json!({ "repository": 7, "createdAt": "yesterday" });
            }
            let present = *step != 0;
            let rev = format!("3mabcdefgh2{}2", char::from(b'a' + u8::try_from(revision).unwrap()));
            let cid = present.then(|| format!("bafyrei{world}{record}v{revision}"));
            let mut commit =
                json!({ "rev": rev, "operation": "delete", "collection": collection, "rkey": rkey });
            if present {
                let operation = if revision == 0 { "create" } else { "update" };
                commit = merged(commit, json!({ "operation": operation, "record": value, "cid": cid }));
            }
            let time_us = 1_788_000_000_000_000_i64 + i64::try_from(frames.len()).unwrap();
            frames.push(
                json!({ "did": did, "time_us": time_us, "kind": "commit", "commit": commit }).to_string(),
            );
            let value = present.then_some(value);
            end.insert(record, (Said { did, collection: collection.to_owned(), rkey, cid, value }, rev));
        }
    }
    (frames, end.into_values().collect())
}

fn wanted(end: &[(Said, String)]) -> Rows {
    let said: Vec<Said> = end.iter().map(|(said, _)| said.clone()).collect();
    let mut rows = truth::rows(&said, &BTreeMap::new());
    let states: BTreeMap<String, Value> = rows["records"]
        .iter()
        .chain(&rows["tombstones"])
        .map(|row| {
            let row: Value = serde_json::from_str(row).unwrap();
            (format!("{} {} {}", row["did"], row["collection"], row["rkey"]), row["state"].clone())
        })
        .collect();
    let revision = |(said, rev): &(Said, String)| {
        let fields = json!({ "did": said.did, "collection": said.collection, "rkey": said.rkey });
        let state = &states[&format!("{} {} {}", fields["did"], fields["collection"], fields["rkey"])];
        let state = state.as_str().unwrap_or("absent");
        let Value::Object(fields) = merged(fields, json!({ "rev": rev, "cid": said.cid, "state": state }))
        else {
            unreachable!("an object with more fields is an object")
        };
        row(fields)
    };
    rows.insert(index::REVISIONS.name.to_owned(), end.iter().map(revision).collect());
    rows
}

fn merged(mut value: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("not an object: {more}") };
    value.as_object_mut().unwrap().extend(more);
    value
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let histories = prop::collection::vec(prop::collection::vec(0_u8..8, 1..5), RECORDS);
    let batch = (prop::collection::vec(any::<Index>(), 1..12), prop::bool::weighted(0.2));
    (histories, prop::collection::vec(batch, 0..10), any::<Index>(), 1_usize..20).prop_map(
        |(histories, batches, replayed_from, replayed_at_once)| Scenario {
            histories,
            batches,
            replayed_from,
            replayed_at_once,
        },
    )
}

fn any_way_of_arrival_ends_in_what_the_repositories_hold(stage: &Stage, cases: u32) {
    let round = std::cell::Cell::new(0);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 50, ..Config::default() };
    let outcome = TestRunner::new(config).run(&scenarios(), |scenario| {
        round.set(round.get() + 1);
        let (straight, wild) = (format!("s{:05}x", round.get()), format!("w{:05}x", round.get()));
        stage.runtime.block_on(async {
            let (frames, end) = told(&straight, &scenario.histories);
            for frame in &frames {
                stage.deliver(std::slice::from_ref(frame), false).await;
            }
            let difference = truth::compare(&stage.rows(&straight).await, &wanted(&end)).err();
            prop_assert!(difference.is_none(), "in order: {:?}", difference);

            let (mut frames, end) = told(&wild, &scenario.histories);
            frames.extend(NOISE.iter().map(|&frame| frame.to_owned()));
            stage.deliver_wildly(&frames, &scenario).await;
            let difference = truth::compare(&stage.rows(&wild).await, &wanted(&end)).err();
            prop_assert!(difference.is_none(), "in disorder: {:?}", difference);
            Ok(())
        })
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let noise = stage.runtime.block_on(stage.rows("noise"));
    assert!(noise.values().all(|rows| rows.is_empty()), "{noise:?}");
}

#[test]
fn frames_in_any_order_end_in_what_the_repositories_hold_on_sqlite() {
    let stage = Stage::new(async |directory| format!("sqlite://{}/atcr.db", directory.display()));
    any_way_of_arrival_ends_in_what_the_repositories_hold(&stage, 16);
}

#[test]
fn frames_in_any_order_end_in_what_the_repositories_hold_on_postgres() {
    let stage = Stage::new(async |_| Postgres::shared().fresh_database().await);
    any_way_of_arrival_ends_in_what_the_repositories_hold(&stage, 12);
}

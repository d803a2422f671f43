//! Against the real peers, a PDS, a PLC directory and a stream of what they say: whatever happens on the way, the index
//! ends as what `listRecords` tells of every account.

mod alone;
mod kills;
mod launch;
mod world;
mod writing;

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use self::world::World;
use crate::support::{
    index,
    peers::{Peers, Seed},
    postgres::Postgres,
    process::Exit,
};

const MANIFEST: &str = "io.atcr.manifest";
const TAG: &str = "io.atcr.tag";
const PAGE: &str = "io.atcr.repo.page";
const STAR: &str = "io.atcr.sailor.star";

/// From the signal to the end of the process, on a loaded machine.
const STOP_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_index_is_what_real_repositories_hold_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    the_index_is_what_real_repositories_hold(async || {
        format!("sqlite://{}/atcr.db", directory.path().display())
    })
    .await;
}

#[tokio::test]
async fn the_index_is_what_real_repositories_hold_on_postgres() {
    the_index_is_what_real_repositories_hold(async || Postgres::shared().fresh_database().await).await;
}

async fn the_index_is_what_real_repositories_hold(database: impl AsyncFnOnce() -> String) {
    let Some(peers) = Peers::start(Seed::Nothing) else { return };
    let mut world = World::new(peers, database().await);
    let first = world.start_instance("first");
    // Without a cursor it starts live: what is written before it listens is the backfill's.
    world.wait_for_subscriber().await;
    world.seed();
    world.is_settled("the seeded records").await;
    assert!(!index::read(&world.database, &[index::CURSORS]).await.unwrap()["stream_cursor"].is_empty());

    records_change(&mut world).await;
    accounts_change(&mut world).await;
    the_stream_breaks(&mut world).await;

    // A crash in the middle of writes, and another instance after it.
    tags(&mut world, "killed", 0..10);
    first.signal(Signal::KILL);
    tags(&mut world, "killed", 5..15);
    drop(first);
    let mut second = world.start_instance("second");
    tags(&mut world, "killed", 10..20);
    world.is_settled("a crash").await;

    // A take-over in the middle of writes, between two that run.
    let third = world.start_instance("third");
    third.admin_address();
    tags(&mut world, "moved", 0..10);
    second.signal(Signal::TERM);
    tags(&mut world, "moved", 5..15);
    assert_eq!(second.wait_exit(STOP_WITHIN), Exit::Code(0));
    world.delete("alice", TAG, "moved_3");
    world.is_settled("a take-over").await;
}

async fn records_change(world: &mut World) {
    let alice = world.did("alice");
    // The older shapes.
    let old = json!({ "repository": "old", "tag": "v0", "manifestDigest": digest(1), "createdAt": at(1) });
    world.put("alice", TAG, "old_v0", old);
    // Both times are optional, taken together.
    world.put(
        "alice",
        TAG,
        "old_v1",
        json!({ "repository": "old", "tag": "v1", "manifestDigest": digest(1) }),
    );
    let endpoint = json!({ "holdEndpoint": "https://hold.example:8443" });
    world.put("alice", MANIFEST, &key(3), manifest(3, "old", endpoint));
    world.put("alice", MANIFEST, &key(1), manifest(1, "old", json!({})));
    let helm = json!({ "config": { "digest": digest(9), "size": 9, "mediaType": "application/vnd.cncf.helm.config.v1+json" } });
    world.put("alice", MANIFEST, &key(2), manifest(2, "chart", helm));
    // Updates: the tag moves, layers and annotations are replaced, the hold counts on.
    let moved = json!({ "repository": "hello", "tag": "latest", "updatedAt": at(40),
        "manifest": format!("at://{alice}/{MANIFEST}/{}", key(1)) });
    world.put("alice", TAG, "hello_latest", moved);
    let layers =
        json!({ "layers": [blob(5), blob(4)], "annotations": { "org.opencontainers.image.title": "new" } });
    world.put("alice", MANIFEST, &key(1), manifest(1, "old", layers));
    let counts = json!({ "ownerDid": alice, "repository": "hello", "pullCount": 8, "pushCount": 3, "updatedAt": at(41) });
    world.put("hold01", "io.atcr.hold.stats", "another", counts);
    // Deletes, and one that comes back under its key.
    world.delete("alice", TAG, "hello_v1");
    world.delete("bob", STAR, "3mstarhello2a");
    world.delete("bob", MANIFEST, &world.keys("bob", MANIFEST)[0]);
    let again =
        json!({ "repository": "hello", "tag": "v1", "manifestDigest": digest(7), "updatedAt": at(42) });
    world.put("alice", TAG, "hello_v1", again);
    // Malformed: a new record, and one in the place of a good one.
    let nested = json!({ "subject": format!("at://{alice}/{PAGE}/tools/cli"), "createdAt": at(47) });
    world.put("bob", STAR, "3mstarnested2", nested);
    world.put("bob", STAR, "3mstarmalformed", json!({ "subject": 7, "createdAt": at(43) }));
    world.put(
        "alice",
        PAGE,
        "hello",
        json!({ "repository": "hello", "createdAt": "yesterday", "updatedAt": at(44) }),
    );
    world.is_settled("updates, deletes and malformed records").await;

    // The hold's counts stop to count with its captain, and count again.
    world.delete("hold01", "io.atcr.hold.captain", "self");
    world.is_settled("a hold without its captain").await;
    let captain = json!({ "owner": alice, "public": false, "allowAllCrew": false, "enableBlueskyPosts": false,
        "deployedAt": at(45) });
    world.put("hold01", "io.atcr.hold.captain", "self", captain);
    let page = json!({ "repository": "hello", "createdAt": at(2), "updatedAt": at(46) });
    world.put("alice", PAGE, "hello", page);
    world.is_settled("records that are good again").await;
}

async fn accounts_change(world: &mut World) {
    world.rename("alice", "alicia");
    world.is_settled("a new handle").await;
    // A handle that somebody else had.
    world.rename("bob", "alice");
    world.is_settled("a handle that moved").await;
    world.deactivate("bob");
    world.is_settled("a deactivated account").await;
    world.activate("bob");
    world.put(
        "bob",
        STAR,
        "3mstarback222",
        json!({ "subject": { "did": world.did("alice"), "repository": "chart" }, "createdAt": at(50) }),
    );
    world.is_settled("an account that came back").await;
    world.create_account("carol");
    tags_of(world, "carol", "first", 0..3);
    world.is_settled("a new account").await;
}

async fn the_stream_breaks(world: &mut World) {
    tags(world, "cut", 0..10);
    world.cut().await;
    tags(world, "cut", 5..15);
    world.is_settled("a cut connection").await;

    world.peers.tell_jetstream("POST", "pause", r#"{"on":true}"#);
    tags(world, "paused", 0..10);
    world.delete("alice", TAG, "cut_3");
    world.cut().await;
    tags(world, "paused", 5..15);
    world.peers.tell_jetstream("POST", "pause", r#"{"on":false}"#);
    world.is_settled("a pause and a cut in it").await;

    // It forgets what it had, and tells everything again with new times.
    tags(world, "restarted", 0..10);
    world.peers.stop("jetstream");
    tags(world, "restarted", 5..15);
    world.delete("alice", TAG, "cut_4");
    world.peers.start_again("jetstream");
    world.is_settled("a stream that was started again").await;
}

/// Writes some tags of Alice, and takes a fourth of them back.
fn tags(world: &mut World, name: &str, numbers: std::ops::Range<u8>) {
    tags_of(world, "alice", name, numbers);
}

fn tags_of(world: &mut World, who: &str, name: &str, numbers: std::ops::Range<u8>) {
    for number in numbers {
        let tag = json!({ "repository": name, "tag": format!("v{number}"), "manifestDigest": digest(number),
            "updatedAt": at(number) });
        world.put(who, TAG, &format!("{name}_{number}"), tag);
        if number % 4 == 1 {
            world.delete(who, TAG, &format!("{name}_{number}"));
        }
    }
}

fn manifest(number: u8, repository: &str, more: Value) -> Value {
    let mut record = json!({
        "repository": repository, "digest": digest(number), "schemaVersion": 2, "createdAt": at(number),
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": [blob(3), blob(8), blob(3)],
    });
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

fn blob(number: u8) -> Value {
    json!({ "digest": digest(number), "size": number, "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip" })
}

fn key(number: u8) -> String {
    format!("{number:064x}")
}

fn digest(number: u8) -> String {
    format!("sha256:{}", key(number))
}

fn at(minute: u8) -> String {
    format!("2026-09-02T10:{minute:02}:00.000Z")
}

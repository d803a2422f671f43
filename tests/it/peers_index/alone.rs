//! Without a stream: a PDS, a PLC directory, and a relay that lists what the PDS has.

use serde_json::json;

use super::{MANIFEST, STAR, TAG, at, digest, key, manifest, tags_of, world::World};
use crate::support::{
    peers::{Peers, Seed},
    place::{Kind, Place, on_both_databases},
};

on_both_databases!(the_backfill_alone_fills_an_empty_database_and_follows_what_changes);

async fn the_backfill_alone_fills_an_empty_database_and_follows_what_changes(kind: Kind) {
    let Some(peers) = Peers::start(Seed::Nothing) else { return };
    let place = Place::fresh(kind).await;
    let mut world = World::new(peers, place.url().to_owned()).with_backfill("0s");
    world.launch = world.launch.clone().with("ATCR__JETSTREAM__ENABLED", "false");
    world.seed();
    // More than a page of listRecords, and two accounts that will go.
    for number in 0..130 {
        let tag = json!({ "repository": "many", "tag": format!("v{number}"), "manifestDigest": digest(number),
            "updatedAt": at(number % 60) });
        world.put("alice", TAG, &format!("many_{number}"), tag);
    }
    for name in ["carol", "dave"] {
        world.create_account(name);
        tags_of(&mut world, name, "first", 0..1);
        world.put(name, MANIFEST, &key(4), manifest(4, "first", json!({})));
    }
    let _instance = world.start_instance("only");
    world.is_settled("the first backfill").await;

    world.put("alice", MANIFEST, &key(5), manifest(5, "hello", json!({ "holdDid": world.did("hold01") })));
    let moved =
        json!({ "repository": "many", "tag": "v0", "manifestDigest": digest(9), "updatedAt": at(50) });
    world.put("alice", TAG, "many_0", moved);
    world.delete("alice", TAG, "many_1");
    world.delete("bob", STAR, "3mstarhello2a");
    world.rename("bob", "robert");
    world.deactivate("carol");
    world.delete_account("dave");
    world.create_account("erin");
    tags_of(&mut world, "erin", "late", 0..1);
    world.launch.backfill_all();
    world.is_settled("changes that no stream told").await;

    world.activate("carol");
    tags_of(&mut world, "carol", "back", 0..1);
    world.launch.backfill_all();
    world.is_settled("an account that came back").await;
}

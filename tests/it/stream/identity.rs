//! Who the authors are, asked beside the stream: a host that does not answer, or lies, costs neither the stream nor
//! anybody else.

use std::time::Instant;

use localnet::{
    ids,
    network::{Fault, On as Asked, Site},
    records,
};
use serde_json::Value;

use super::{
    rows::On,
    stage::{SOON, Stage},
};
use crate::support::{
    eventually::eventually,
    index::{Part, part},
};

const USERS: Part = part("users", "users", "did handle identity_failures identity_due_at");
const LOOK_UPS: &str = "atcr_identity_lookups_total";
const WELL_KNOWN: &str = "/.well-known/atproto-did";

/// bluesky-social/atproto#5504: the resolver had no limit on the time of a handle's well-known file.
#[tokio::test]
async fn a_well_known_file_that_never_comes_holds_up_neither_the_stream_nor_others() {
    let mut stage = Stage::on(On::Sqlite).await;
    stage.start_and_subscribe().await;
    // As many as are asked at once, and more.
    let stuck: Vec<String> = (0..12).map(|number| stage.net.add_account(&format!("stuck{number}"))).collect();
    let good = stage.net.add_account("good");
    for number in 0..stuck.len() {
        let host = format!("stuck{number}.test");
        stage.net.set_fault(Asked::site(Site::Hosts).host(&host).path(WELL_KNOWN), Fault::Never);
    }
    let since = Instant::now();
    stuck.iter().chain([&good]).for_each(|did| put_tag(&stage, did));
    eventually("the good one is known", SOON, async || has_handle(&stage, &good, "good.test").await).await;
    eventually("each dead one is put off, and its handle not taken for invalid", SOON, async || {
        let users = stage.rows.read(USERS).await;
        let is_put_off = |user: &&Value| {
            user["identity_failures"] == 1 && user["identity_due_at"].as_i64() > Some(ids::now_us())
        };
        if users.iter().filter(is_put_off).count() == stuck.len() { Ok(()) } else { Err(users) }
    })
    .await;
    println!("12 dead hosts and a good one: {:?}", since.elapsed());
    assert_eq!(stage.metric(LOOK_UPS, &[("outcome", "handle_unknown")]), 12.0);
    assert_eq!(stage.metric(LOOK_UPS, &[("outcome", "invalid")]), 0.0);
    stage.net.clear_faults();
    stuck.iter().for_each(|did| stage.net.identity_event(did));
    stage.becomes_the_fold().await;
    stage.stop().await;
}

/// chive-pub/chive#77: only the DNS half of resolving was there, so a handle with the file alone failed.
#[tokio::test]
async fn a_handle_without_a_dns_record_is_valid_by_its_file() {
    let mut stage = Stage::on(On::Sqlite).await;
    stage.start_and_subscribe().await;
    let alice = stage.net.add_account("alice");
    put_tag(&stage, &alice);
    eventually("alice is known", SOON, async || has_handle(&stage, &alice, "alice.test").await).await;
    assert_eq!(stage.net.requests(&Asked::site(Site::Hosts).host("alice.test").path(WELL_KNOWN)), 1);
    stage.becomes_the_fold().await;
    stage.stop().await;
}

/// bluesky-social/atproto#5504: nothing kept the resolver from the machine's own network.
#[tokio::test]
async fn an_author_on_the_loopback_or_the_metadata_address_is_indexed_and_not_asked() {
    let mut stage = Stage::on(On::Sqlite).await;
    stage.guard.allow_loopback = false;
    stage.start_and_subscribe().await;
    let port = stage.net.test_hosts().port();
    let authors = [
        format!("did:web:localhost%3A{port}"),
        "did:web:localhost".to_owned(),
        "did:web:alice.test".to_owned(),
        "did:web:alice.localhost".to_owned(),
    ];
    let never_authors = ["did:web:127.0.0.1", "did:web:169.254.169.254"];
    for did in authors.iter().map(String::as_str).chain(never_authors) {
        stage.net.jetstream(0).publish_line(tag_line(did)).unwrap();
    }
    eventually("each author was given up once", SOON, async || {
        let users = stage.rows.read(USERS).await;
        let given_up = |did: &&String| {
            users.iter().any(|user| user["did"] == ***did && user["identity_failures"].as_i64() > Some(0))
        };
        if authors.iter().filter(given_up).count() == authors.len() { Ok(()) } else { Err(users) }
    })
    .await;
    assert!(stage.rows.read(USERS).await.iter().all(|user| user["handle"] == "handle.invalid"));
    assert_eq!(stage.net.requests(&Asked::site(Site::Hosts)), 0, "nobody on this machine was asked");
    stage.stop().await;
}

/// A handle's host that leads the resolver on to this machine is not followed.
#[tokio::test]
async fn a_well_known_file_that_redirects_to_loopback_is_not_followed() {
    let mut stage = Stage::on(On::Sqlite).await;
    stage.start_and_subscribe().await;
    let alice = stage.net.add_account("alice");
    let pds = stage.net.pds_url().rsplit(':').next().unwrap().parse().unwrap();
    stage.net.set_fault(Asked::site(Site::Hosts).path(WELL_KNOWN), Fault::Redirect(pds));
    put_tag(&stage, &alice);
    stage.counts(LOOK_UPS, &[("outcome", "invalid")], 1.0).await;
    assert_eq!(stage.net.requests(&Asked::site(Site::Pds(0))), 0);
    stage.stop().await;
}

fn put_tag(stage: &Stage, did: &str) {
    stage.net.put(did, records::TAG, "web_v1", tag(did));
}

fn tag(did: &str) -> Value {
    records::tag(did, "web", "v1", &ids::digest(b"1"), ids::now_us())
}

fn tag_line(did: &str) -> Vec<u8> {
    let commit = serde_json::json!({
        "rev": ids::tid(ids::now_us(), 0), "operation": "create", "collection": records::TAG, "rkey": "web_v1",
        "record": tag(did),
    });
    let event =
        serde_json::json!({ "did": did, "time_us": ids::now_us(), "kind": "commit", "commit": commit });
    event.to_string().into_bytes()
}

async fn has_handle(stage: &Stage, did: &str, handle: &str) -> Result<(), Vec<Value>> {
    let users = stage.rows.read(USERS).await;
    let is_known = users.iter().any(|user| user["did"] == *did && user["handle"] == *handle);
    if is_known { Ok(()) } else { Err(users) }
}

//! The real peers answer as the rest of the tests expect: what is written to the PDS is what the network sees.

use serde_json::json;

use crate::support::{
    http,
    peers::{Peers, Seed},
};

#[test]
fn the_seeded_records_are_listed_and_their_owner_is_found_by_handle() {
    let Some(peers) = Peers::start(Seed::Accounts) else { return };
    let (pds, alice) = (peers.pds(), peers.did("alice.test"));

    let tags = pds.list_records(&alice, "io.atcr.tag");
    let mut names: Vec<_> = tags.iter().map(|tag| tag.uri.rsplit('/').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["hello_latest", "hello_v1", "multi_latest"]);
    assert_eq!(pds.list_records(&alice, "io.atcr.manifest").len(), 3);

    let well_known = format!("{}/.well-known/atproto-did", pds.url());
    let answer = http::request("GET", &well_known, &[("Host", "alice.test")], "").unwrap();
    assert_eq!((answer.status, answer.body), (200, alice.clone()));
    let document = http::get(&format!("{}/{alice}", peers.plc_url())).unwrap();
    assert!(document.body.contains("at://alice.test"), "{}", document.body);
}

#[test]
fn an_account_is_written_paged_renamed_and_put_to_sleep() {
    let Some(peers) = Peers::start(Seed::Nothing) else { return };
    let pds = peers.pds();
    let carol = pds.create_account("carol");
    let star = "io.atcr.sailor.star";
    for number in 0..101 {
        pds.put_record(&carol, star, &format!("star{number:03}"), json!({ "repository": "hello" }));
    }
    assert_eq!(pds.list_records(&carol.did, star).len(), 101, "more than one page");

    pds.delete_record(&carol, star, "star000");
    pds.update_handle(&carol, "caroline");
    pds.deactivate_account(&carol);
    pds.activate_account(&carol);
    assert_eq!(pds.list_records(&carol.did, star).len(), 100);

    peers.stop("jetstream");
    peers.start_again("jetstream");
    assert!(peers.jetstream_url().starts_with("ws://"));
}

#[test]
fn the_stream_and_the_relay_that_are_ours_are_what_clients_of_others_expect() {
    let Some(peers) = Peers::start(Seed::Accounts) else { return };
    peers.start_relay();
    peers.check().unwrap_or_else(|said| panic!("{said}"));
}

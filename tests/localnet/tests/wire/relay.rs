//! Relays, the endings of listings, and made-up repositories.

use localnet::network::{Ending, Made, Site};
use localnet::{Net, NetOptions, records};
use serde_json::{Value, json};

use crate::client::{address, get};

async fn net() -> Net {
    Net::start(NetOptions { pdses: 2, relays: 2, ..NetOptions::default() }).await.unwrap()
}

async fn list(net: &Net, relay: usize, collection: &str, rest: &str) -> Value {
    let target = format!("/xrpc/com.atproto.sync.listReposByCollection?collection={collection}{rest}");
    get(address(&net.relay_url_of(relay)), "relay", &target).await.json()
}

fn dids(page: &Value) -> Vec<String> {
    page["repos"].as_array().unwrap().iter().map(|repo| repo["did"].as_str().unwrap().to_owned()).collect()
}

fn rkeys(page: &Value) -> Vec<String> {
    let uris = page["records"].as_array().unwrap().iter().map(|record| record["uri"].as_str().unwrap());
    uris.map(|uri| uri.rsplit('/').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_relay_lists_whom_it_has_seen_and_forgets_nobody() {
    let net = net().await;
    let [gone, moved, late] = ["gone", "moved", "late"].map(|name| net.add_account(name));
    let hold = net.add_web_account("hold01");
    for did in [&gone, &moved, &hold] {
        net.put(did, records::TAG, "a", json!({}));
    }
    net.put_unseen(&late, records::TAG, "a", json!({}));
    net.set_account(&gone, false, Some("deleted"));
    net.move_account(&moved, 1);
    net.delete(&moved, records::TAG, "a");
    assert_eq!(dids(&list(&net, 0, records::TAG, "").await), [&*gone, &*moved]);
    net.crawl();
    assert_eq!(dids(&list(&net, 1, records::TAG, "").await), [&*gone, &*moved, &*late]);
    assert_eq!(dids(&list(&net, 0, records::STAR, "").await), [""; 0]);
    net.clear_relay(1);
    assert_eq!(dids(&list(&net, 1, records::TAG, "").await), [""; 0]);
}

#[tokio::test]
async fn a_throttled_account_is_on_no_relay_and_on_no_stream() {
    let net = net().await;
    let did = net.add_account("busy");
    net.throttle(&did, true);
    net.put(&did, records::TAG, "a", json!({}));
    net.crawl();
    assert_eq!(dids(&list(&net, 0, records::TAG, "").await), [""; 0]);
    assert_eq!(net.jetstream(0).published_commits().len(), 0);
    assert!(net.record(&did, records::TAG, "a").is_some());
    net.throttle(&did, false);
    net.put(&did, records::TAG, "b", json!({}));
    assert_eq!(dids(&list(&net, 0, records::TAG, "").await), [did]);
}

#[tokio::test]
async fn a_relay_refuses_what_it_does_not_understand() {
    let net = net().await;
    for bad in ["&limit=0", "&limit=2001", "&limit=x", "&cursor=x"] {
        assert_eq!(list(&net, 0, records::TAG, bad).await["error"], "InvalidRequest", "{bad}");
    }
    let elsewhere = get(address(&net.relay_url_of(0)), "relay", "/xrpc/com.atproto.sync.getRepo").await;
    assert_eq!(elsewhere.status, 501);
}

/// Pages of two, over three entries: keys and cursors until the end, or four pages.
async fn walked(ending: Ending) -> Vec<(Vec<String>, Option<String>)> {
    let net = net().await;
    let did = net.add_account("alice");
    for rkey in ["a", "b", "c"] {
        net.put(&did, records::TAG, rkey, json!({}));
    }
    net.set_ending(Site::Pds(0), ending);
    let mut pages = Vec::new();
    let mut cursor = String::new();
    while pages.len() < 4 {
        let call = format!("/xrpc/com.atproto.repo.listRecords?repo={did}&collection={}", records::TAG);
        let page = get(address(&net.pds_url()), "pds", &format!("{call}&limit=2{cursor}")).await.json();
        let next = page["cursor"].as_str().map(str::to_owned);
        cursor = format!("&cursor={}", next.clone().unwrap_or_default());
        pages.push((rkeys(&page), next.clone()));
        if next.is_none() {
            break;
        }
    }
    pages
}

#[tokio::test]
async fn a_listing_ends_in_the_way_that_was_commanded() {
    let page = |keys: &[&str], cursor: Option<&str>| {
        (keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(), cursor.map(str::to_owned))
    };
    let first = page(&["c", "b"], Some("b"));
    let last = page(&["a"], Some("a"));
    assert_eq!(walked(Ending::EmptyPage).await, [first.clone(), last.clone(), page(&[], None)]);
    assert_eq!(walked(Ending::NoCursor).await, [first.clone(), page(&["a"], None)]);
    assert_eq!(walked(Ending::Repeats).await, [first.clone(), last.clone(), last.clone(), last]);
    assert_eq!(walked(Ending::IgnoresCursors).await, [first.clone(), first.clone(), first.clone(), first]);
}

#[tokio::test]
async fn a_relays_listing_ends_in_the_same_ways() {
    let net = net().await;
    let dids_made = net.add_made_accounts(3, Made::records(2));
    let first = list(&net, 0, records::TAG, "&limit=2").await;
    assert_eq!((dids(&first), &first["cursor"]), (dids_made[..2].to_vec(), &json!("2")));
    let last = list(&net, 0, records::TAG, "&limit=2&cursor=2").await;
    assert_eq!((dids(&last), &last["cursor"]), (dids_made[2..].to_vec(), &json!("3")));
    assert_eq!(list(&net, 0, records::TAG, "&cursor=3").await, json!({ "repos": [] }));
    net.set_ending(Site::Relay(0), Ending::Repeats);
    let again = list(&net, 0, records::TAG, "&cursor=3").await;
    assert_eq!((dids(&again), &again["cursor"]), (dids_made[2..].to_vec(), &json!("3")));
    net.set_ending(Site::Relay(0), Ending::NoCursor);
    assert_eq!(list(&net, 0, records::TAG, "&limit=2&cursor=2").await["cursor"], Value::Null);
}

#[tokio::test]
async fn made_up_records_are_the_same_each_time_and_become_real_when_one_changes() {
    let net = net().await;
    let did = net.add_made_accounts(2, Made::records(20)).remove(1);
    let page = async |cursor: &str, reverse: &str| {
        let call = format!("/xrpc/com.atproto.repo.listRecords?repo={did}&collection={}", records::MANIFEST);
        let target = format!("{call}&limit=4&reverse={reverse}{cursor}");
        get(address(&net.pds_url_of(1)), "pds", &target).await.json()
    };
    let walk = async || {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = page(&cursor, "false").await;
            all.extend(page["records"].as_array().unwrap().iter().cloned());
            let Some(next) = page["cursor"].as_str() else { return all };
            cursor = format!("&cursor={next}");
        }
    };
    let made = walk().await;
    assert_eq!(made.len(), 9);
    assert!(made.iter().all(|record| {
        record["uri"]
            .as_str()
            .unwrap()
            .ends_with(record["value"]["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap())
    }));
    let up = rkeys(&page("", "true").await);
    assert_eq!(up, rkeys(&json!({ "records": made.iter().rev().take(4).collect::<Vec<_>>() })));
    assert_eq!([records::TAG, records::PROFILE].map(|of| net.records(of).len()), [20, 2]);
    let rkey = rkeys(&json!({ "records": [made[3]] })).remove(0);
    assert_eq!(net.record(&did, records::MANIFEST, &rkey).unwrap().value, made[3]["value"]);
    net.delete(&did, records::MANIFEST, &rkey);
    let left = walk().await;
    assert_eq!(left, [&made[..3], &made[4..]].concat());
}

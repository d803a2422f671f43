//! What the generators make.

use std::collections::{BTreeMap, HashSet};

use localnet::events::{self, Mix};
use localnet::seed::{self, Size};
use localnet::traffic::Traffic;
use localnet::{Net, NetOptions, ids, records};
use serde_json::Value;

async fn net() -> Net {
    Net::start(NetOptions::default()).await.unwrap()
}

/// Collection, author, key and value of every record.
fn contents(net: &Net) -> Vec<(String, String, String, Value)> {
    let of = |collection: &&str| {
        let all = net.records(collection).into_iter();
        all.map(|((did, rkey), record)| (collection.to_string(), did, rkey, record.value)).collect::<Vec<_>>()
    };
    records::COLLECTIONS.iter().flat_map(of).collect()
}

#[tokio::test]
async fn equal_seeds_make_equal_networks_of_every_collection() {
    let (one, two, other) = (net().await, net().await, net().await);
    assert_eq!(seed::seed(&one, Size::default(), 5), seed::seed(&two, Size::default(), 5));
    seed::seed(&other, Size::default(), 6);
    assert_eq!(contents(&one), contents(&two));
    assert_ne!(contents(&one), contents(&other));
    for collection in records::COLLECTIONS {
        assert!(!one.records(collection).is_empty(), "{collection}");
    }
    let stars: HashSet<bool> =
        one.records(records::STAR).values().map(|star| star.value["subject"].is_object()).collect();
    assert_eq!(stars.len(), 2, "both shapes");
    for ((_, rkey), stats) in one.records(records::STATS) {
        let field = |name: &str| stats.value[name].as_str().unwrap().to_owned();
        assert_eq!(rkey, ids::stats_rkey(&field("ownerDid"), &field("repository")));
    }
}

#[tokio::test]
async fn traffic_is_published_as_it_happens_to_the_repositories() {
    let net = net().await;
    let seeded = seed::seed(&net, Size::default(), 1);
    let mut traffic = Traffic::new(&seeded, 1, 0.2);
    for _ in 0..500 {
        traffic.step(&net);
    }
    let mut fold = BTreeMap::new();
    let mut operations = HashSet::new();
    for event in net.jetstream(0).published_commits() {
        let commit = &event["commit"];
        let part = |name: &str| commit[name].as_str().unwrap().to_owned();
        operations.insert(part("operation"));
        let key = (part("collection"), event["did"].as_str().unwrap().to_owned(), part("rkey"));
        match commit.get("record") {
            Some(record) => fold.insert(key, record.clone()),
            None => fold.remove(&key),
        };
    }
    assert_eq!(operations.len(), 3, "{operations:?}");
    let mut folded: Vec<_> = fold.into_iter().map(|((c, d, r), v)| (c, d, r, v)).collect();
    let mut held = contents(&net);
    folded.sort_by(|a, b| (&a.0, &a.1, &a.2).cmp(&(&b.0, &b.1, &b.2)));
    held.sort_by(|a, b| (&a.0, &a.1, &a.2).cmp(&(&b.0, &b.1, &b.2)));
    assert_eq!(folded, held);
}

#[test]
fn lines_are_equal_for_equal_seeds_and_rise_in_time() {
    let of = |seed| events::lines(Mix { seed, ..Mix::default() }).take(500).collect::<Vec<_>>();
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    let times: Vec<i64> = of(1)
        .iter()
        .map(|line| serde_json::from_slice::<Value>(line).unwrap()["time_us"].as_i64().unwrap())
        .collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn lines_have_the_mix_of_the_real_network() {
    let mut kinds = BTreeMap::<String, (u32, usize)>::new();
    for line in events::lines(Mix { registry_share: 0.1, ..Mix::default() }).take(10_000) {
        let event: Value = serde_json::from_slice(&line).unwrap();
        let commit = &event["commit"];
        let name = commit["collection"].as_str().or(event["kind"].as_str()).unwrap();
        let name = if name.starts_with("io.atcr.") { "registry" } else { name };
        let of = kinds.entry(name.to_owned()).or_default();
        *of = (of.0 + 1, of.1 + line.len());
    }
    let count = |name: &str| kinds[name].0;
    let bytes = |name: &str| kinds[name].1 / kinds[name].0 as usize;
    assert!((900..1100).contains(&count("registry")), "{kinds:?}");
    assert!((5900..6600).contains(&count("app.bsky.feed.like")), "{kinds:?}");
    assert!(count("identity") > 20 && count("account") > 20, "{kinds:?}");
    assert!((490..570).contains(&bytes("app.bsky.feed.like")), "{kinds:?}");
    assert!((550..950).contains(&bytes("app.bsky.feed.post")), "{kinds:?}");
    assert!((180..210).contains(&bytes("identity")), "{kinds:?}");
}

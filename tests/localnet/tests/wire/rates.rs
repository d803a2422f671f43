//! Limits that are really counted, and the visitors' book.

use std::time::Duration;

use localnet::network::{Fault, On, Rate, Site, Told};
use localnet::{Net, NetOptions};

use crate::client::{Answer, address, get};

async fn net() -> Net {
    Net::start(NetOptions { pdses: 2, named_pdses: true, ..NetOptions::default() }).await.unwrap()
}

async fn health(net: &Net, pds: usize) -> Answer {
    get(net.test_hosts(), &format!("pds{pds}.test"), "/xrpc/_health").await
}

fn header(answer: &Answer, name: &str) -> Option<i64> {
    let mut lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(n, _)| *n == name).map(|(_, value)| value.parse().unwrap())
}

fn rate(told: Told) -> Rate {
    Rate { requests: 2, window_ms: 600, told }
}

#[tokio::test]
async fn a_limit_counts_per_host_and_ends_with_its_window() {
    let net = net().await;
    net.set_rate(On::any(), rate(Told::RetryAfter));
    assert_eq!(health(&net, 0).await.status, 200);
    assert_eq!(health(&net, 0).await.status, 200);
    let refused = health(&net, 0).await;
    assert_eq!((refused.status, header(&refused, "retry-after")), (429, Some(1)));
    assert_eq!(header(&refused, "ratelimit-reset"), None);
    assert_eq!(health(&net, 1).await.status, 200);
    tokio::time::sleep(Duration::from_millis(650)).await;
    assert_eq!(health(&net, 0).await.status, 200);
    net.clear_rates();
    for _ in 0..5 {
        assert_eq!(health(&net, 0).await.status, 200);
    }
}

#[tokio::test]
async fn headers_tell_what_is_left_and_when_it_is_renewed() {
    let net = net().await;
    net.set_rate(On::site(Site::Pds(0)), rate(Told::Headers));
    for (left, status) in [(1, 200), (0, 200), (0, 429)] {
        let answer = health(&net, 0).await;
        assert_eq!((answer.status, header(&answer, "ratelimit-remaining")), (status, Some(left)));
        let reset = header(&answer, "ratelimit-reset").unwrap();
        assert!((reset - localnet::ids::now_us() / 1_000_000).abs() <= 1);
        assert_eq!(header(&answer, "retry-after"), None);
    }
    assert_eq!(header(&health(&net, 1).await, "ratelimit-remaining"), None);
    assert_eq!(net.pressed(1, Duration::ZERO), ["1 requests beyond what was left"]);
}

#[tokio::test]
async fn a_limit_that_tells_nothing_answers_with_html() {
    let net = net().await;
    net.set_rate(On::any(), Rate { requests: 0, ..rate(Told::Html) });
    let refused = health(&net, 0).await;
    assert!(refused.status == 429 && refused.body.starts_with("<!doctype html>"), "{}", refused.head);
    assert!(!refused.head.contains("ratelimit") && !refused.head.contains("retry-after"));
}

#[tokio::test]
async fn the_book_knows_who_came_back_too_early() {
    let net = net().await;
    net.set_fault(On::any().times(1), Fault::RetryAfter(1));
    assert_eq!(health(&net, 0).await.status, 429);
    health(&net, 0).await;
    health(&net, 1).await;
    assert_eq!(net.too_early(Duration::ZERO), [""; 0], "under way, or at another host");
    tokio::time::sleep(Duration::from_millis(200)).await;
    health(&net, 0).await;
    health(&net, 1).await;
    let early = net.too_early(Duration::ZERO);
    assert!(early.len() == 1 && early[0].starts_with("Pds(0) pds0.test /xrpc/_health"), "{early:?}");
    net.set_fault(On::site(Site::Pds(1)).times(1), Fault::Html(429));
    health(&net, 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    health(&net, 1).await;
    assert_eq!(net.too_early(Duration::ZERO).len(), 1);
    assert_eq!(net.too_early(Duration::from_secs(1)).len(), 2);
    let statuses: Vec<u16> = net.visits().iter().map(|visit| visit.status).collect();
    assert_eq!(statuses, [429, 200, 200, 200, 200, 429, 200]);
}

#[tokio::test]
async fn the_book_knows_how_many_were_there_at_once() {
    let net = net().await;
    assert_eq!(net.most_at_once(&On::any()), 0);
    net.set_fault(On::site(Site::Pds(0)), Fault::Late(200));
    tokio::join!(health(&net, 0), health(&net, 0), health(&net, 0), health(&net, 1));
    health(&net, 1).await;
    assert_eq!(net.most_at_once(&On::site(Site::Pds(0))), 3);
    assert_eq!(net.most_at_once(&On::site(Site::Pds(1))), 1);
    assert_eq!(net.most_at_once(&On::any()), 3);
    assert_eq!(net.pressed(2, Duration::ZERO), ["Pds(0) pds0.test: 3 requests at once"]);
    assert_eq!(net.pressed(3, Duration::ZERO), [""; 0]);
}

#[tokio::test]
async fn a_named_pds_is_the_one_that_documents_name() {
    let net = net().await;
    let did = net.add_account("alice");
    let document = get(address(&net.plc_url()), "plc", &format!("/{did}")).await.json();
    assert_eq!(document["service"][0]["serviceEndpoint"], "http://pds0.test");
    let target = format!("/xrpc/com.atproto.sync.getLatestCommit?did={did}");
    assert_eq!(get(net.test_hosts(), "pds0.test", &target).await.status, 200);
    assert_eq!(get(net.test_hosts(), "pds1.test", &target).await.status, 400);
    assert_eq!(net.requests(&On::site(Site::Pds(0))), 1);
}

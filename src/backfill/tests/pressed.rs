//! Hosts with limits, which count for themselves.

use localnet::network::{Fault, Rate, Told};
use tokio::time::Instant;

use super::*;

/// Every request that a limit refused.
fn refused(stage: &Stage) -> usize {
    stage.net.visits().iter().filter(|visit| visit.status == 429).count()
}

/// Fetches every account at once, and asserts that none was refused for good.
async fn fetch_all(stage: &Stage, dids: &[Did]) {
    let fetched = join_all(dids.iter().map(|did| stage.listing(did))).await;
    for (did, listing) in dids.iter().zip(fetched) {
        assert_eq!((listing.complete.len(), &listing.shortfall), (9, &None), "{did}");
    }
}

// S23: indigo#1247
#[tokio::test]
async fn no_host_sees_a_request_before_the_time_it_named_or_more_at_once_than_allowed() {
    let stage = Stage::start().await;
    let dids: Vec<Did> = (0..8).map(|i| stage.account(&format!("a{i}"), 0, 1)).collect();
    let rate = Rate { requests: 40, window_ms: 1_000, told: Told::RetryAfter };
    stage.net.set_rate(On::site(Site::Pds(0)), rate);
    stage.net.set_fault(On::site(Site::Pds(0)), Fault::Late(1));
    fetch_all(&stage, &dids).await;
    assert!(refused(&stage) > 0);
    assert_eq!(stage.net.too_early(Duration::ZERO), [""; 0]);
    assert_eq!(stage.net.most_at_once(&On::site(Site::Pds(0))), 2);
}

#[tokio::test]
async fn a_host_that_tells_what_is_left_never_has_to_refuse() {
    let stage = Stage::start().await;
    let dids: Vec<Did> = (0..8).map(|i| stage.account(&format!("a{i}"), 0, 1)).collect();
    let rate = Rate { requests: 60, window_ms: 1_000, told: Told::Headers };
    stage.net.set_rate(On::site(Site::Pds(0)), rate);
    stage.net.set_fault(On::site(Site::Pds(0)), Fault::Late(2));
    fetch_all(&stage, &dids).await;
    assert!(stage.net.requests(&On::site(Site::Pds(0))) > 60);
    assert_eq!(refused(&stage), 0);
    assert_eq!(stage.net.most_at_once(&On::site(Site::Pds(0))), 2);
}

// S26: bluesky-social/atproto#5443
#[tokio::test]
async fn a_refusal_in_html_without_headers_is_waited_out_by_default() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 1);
    stage.net.set_fault(On::site(Site::Pds(0)).times(2), Fault::Html(429));
    let began = Instant::now();
    fetch_all(&stage, std::slice::from_ref(&did)).await;
    // 0.4 s, then twice that.
    assert!(began.elapsed() >= millis(1_200));
    assert_eq!(stage.net.too_early(millis(400)), [""; 0]);
    // The third time in a row is left to the caller, with the time.
    stage.net.set_fault(On::site(Site::Pds(0)), Fault::Html(429));
    let before = stage.net.requests(&On::site(Site::Pds(0)));
    let error = stage.fetcher.fetch(&did, None).await.unwrap_err();
    assert!(error.is_temporary() && error.retry_at().unwrap() > Instant::now(), "{error}");
    assert_eq!(stage.net.requests(&On::site(Site::Pds(0))) - before, 3);
    assert_eq!(stage.net.too_early(millis(400)), [""; 0]);
}

#[tokio::test]
async fn one_hosts_refusal_delays_no_other_host() {
    let stage = Stage::start().await;
    let slow: Vec<Did> = (0..4).map(|i| stage.account(&format!("slow{i}"), 0, 1)).collect();
    let fast: Vec<Did> = (0..4).map(|i| stage.account(&format!("fast{i}"), 1, 1)).collect();
    stage.net.set_fault(On::site(Site::Pds(0)).times(1), Fault::RetryAfter(3));
    let began = Instant::now();
    let timed = async |dids: &[Did]| {
        fetch_all(&stage, dids).await;
        began.elapsed()
    };
    let (slow, fast) = tokio::join!(timed(&slow), timed(&fast));
    assert!(slow >= millis(3_000) && fast < millis(2_900), "{slow:?} {fast:?}");
    assert_eq!(stage.net.too_early(Duration::ZERO), [""; 0]);
}

#[tokio::test]
async fn a_pause_beyond_what_a_request_waits_is_told_without_asking() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 1);
    stage.net.set_fault(On::site(Site::Pds(0)).times(1), Fault::RetryAfter(600));
    let began = Instant::now();
    for _ in 0..5 {
        let error = stage.fetcher.fetch(&did, None).await.unwrap_err();
        assert!(error.is_temporary());
        let wait = error.retry_at().unwrap() - began;
        assert!((millis(600_000)..millis(605_000)).contains(&wait), "{wait:?}");
    }
    assert!(began.elapsed() < millis(5_000));
    assert_eq!(stage.net.requests(&On::site(Site::Pds(0))), 1);
}

#[tokio::test]
async fn the_directory_and_the_relays_are_not_pressed_either() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 1);
    stage.net.set_fault(On::site(Site::Plc).times(1), Fault::RetryAfter(600));
    stage.net.set_fault(On::site(Site::Relay(0)).times(1), Fault::RetryAfter(600));
    for _ in 0..3 {
        let errors = [
            stage.fetcher.fetch(&did, None).await.unwrap_err().retry_at(),
            stage.fetcher.status(&did).await.unwrap_err().retry_at(),
            stage.relays.page(0, Collection::Tag, None).await.unwrap_err().retry_at(),
        ];
        assert!(errors.iter().all(Option::is_some));
    }
    for site in [Site::Plc, Site::Relay(0)] {
        assert_eq!(stage.net.requests(&On::site(site)), 1);
    }
    assert_eq!(stage.relays.page(1, Collection::Tag, None).await.unwrap().dids, [did]);
}

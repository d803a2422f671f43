//! The rules of `GET /subscribe`.

use std::time::Duration;

use localnet::events::{self, Mix};
use localnet::jetstream::{Event, Identity, JetstreamOptions, Mode};
use localnet::{Jetstream, records};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::client::{SOON, net, put, refusal, subscribe};

const LIKE: &str = "app.bsky.feed.like";

#[tokio::test]
async fn events_have_the_v1_envelope() {
    let (net, did) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    let put = net.put(&did, records::TAG, "a", json!({ "tag": "latest" }));
    let event = client.event().await;
    assert_eq!(event["did"], json!(did));
    assert_eq!(event["kind"], "commit");
    let record = json!({ "$type": records::TAG, "tag": "latest" });
    let commit = json!({
        "rev": put.rev, "operation": "create", "collection": records::TAG, "rkey": "a", "cid": put.cid,
        "record": record,
    });
    assert_eq!(event["commit"], commit);
    net.put(&did, records::TAG, "a", json!({}));
    assert_eq!(client.event().await["commit"]["operation"], "update");
    let rev = net.delete(&did, records::TAG, "a").unwrap();
    let delete = json!({ "rev": rev, "operation": "delete", "collection": records::TAG, "rkey": "a" });
    assert_eq!(client.event().await["commit"], delete);
    net.set_account(&did, false, Some("deactivated"));
    let account = client.event().await;
    assert_eq!((&account["kind"], &account["account"]["active"]), (&json!("account"), &json!(false)));
    assert_eq!(account["account"]["status"], "deactivated");
    net.identity_event(&did);
    assert_eq!(client.event().await["identity"]["did"], json!(did));
}

#[tokio::test]
async fn wanted_collections_filter_commits_but_not_accounts() {
    let (net, did) = net().await;
    let mut client = subscribe(net.jetstream(0), "wantedCollections=io.atcr.*").await;
    net.put(&did, LIKE, "unwanted", json!({}));
    net.identity_event("did:plc:stranger");
    net.put(&did, records::STAR, "wanted", json!({}));
    assert_eq!(client.event().await["kind"], "identity");
    assert_eq!(client.event().await["commit"]["rkey"], "wanted");
}

#[tokio::test]
async fn wanted_dids_filter_every_kind() {
    let (net, did) = net().await;
    let bob = net.add_account("bob");
    let mut client = subscribe(net.jetstream(0), &format!("wantedDids={bob}")).await;
    net.identity_event(&did);
    put(&net, &did, 0..1);
    put(&net, &bob, 7..8);
    assert_eq!(client.rkeys(1).await, ["7"]);
}

#[tokio::test]
async fn too_large_events_are_skipped_without_a_word() {
    let (net, did) = net().await;
    let mut client = subscribe(net.jetstream(0), "maxMessageSizeBytes=1000").await;
    net.put(&did, records::PAGE, "large", json!({ "description": "x".repeat(1000) }));
    put(&net, &did, 1..2);
    assert_eq!(client.rkeys(1).await, ["1"]);
}

#[tokio::test]
async fn a_cursor_is_inclusive_and_meets_the_live_stream_without_a_gap() {
    let (net, did) = net().await;
    let mut first = subscribe(net.jetstream(0), "").await;
    put(&net, &did, 0..5);
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(first.event().await["time_us"].as_i64().unwrap());
    }
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    let mut second = subscribe(net.jetstream(0), &format!("cursor={}", times[3])).await;
    put(&net, &did, 5..6);
    assert_eq!(second.rkeys(3).await, ["3", "4", "5"]);
    assert_eq!(net.jetstream(0).stats().cursors(), [None, Some(times[3])]);
}

#[tokio::test]
async fn a_future_or_absent_cursor_is_live_and_an_old_one_starts_at_the_oldest() {
    let (net, did) = net().await;
    put(&net, &did, 0..5);
    net.jetstream(0).forget(2);
    let mut future = subscribe(net.jetstream(0), "cursor=99999999999999999").await;
    let mut absent = subscribe(net.jetstream(0), "").await;
    let mut old = subscribe(net.jetstream(0), "cursor=1000000000000000").await;
    put(&net, &did, 5..6);
    assert_eq!(future.rkeys(1).await, ["5"]);
    assert_eq!(absent.rkeys(1).await, ["5"]);
    assert_eq!(old.rkeys(3).await, ["3", "4", "5"]);
}

#[tokio::test]
async fn bad_options_are_refused_with_400_before_the_upgrade() {
    let (net, _) = net().await;
    let queries = [
        "cursor=yesterday",
        "wantedCollections=app.bsky.gra*",
        "wantedCollections=nonsense",
        "wantedDids=alice.test",
        &"wantedCollections=io.atcr.tag&".repeat(101),
    ];
    for query in queries {
        assert_eq!(refusal(net.jetstream(0), query).await.0, 400, "{query}");
    }
    assert_eq!(net.jetstream(0).stats().handshakes, 0);
}

#[tokio::test]
async fn nothing_is_sent_before_a_required_hello() {
    let (net, did) = net().await;
    let mut client = subscribe(net.jetstream(0), "requireHello=true&wantedCollections=io.atcr.*").await;
    put(&net, &did, 0..1);
    assert!(client.is_quiet().await);
    client.send(Message::text(r#"{"type":"something_else"}"#)).await;
    let hello = json!({ "type": "options_update", "payload": { "wantedCollections": [LIKE] } });
    client.send(Message::text(hello.to_string())).await;
    let server = net.jetstream(0);
    assert!(localnet::until(SOON, || server.stats().options_updates == 1).await);
    put(&net, &did, 1..2);
    net.put(&did, LIKE, "like", json!({}));
    assert_eq!(client.rkeys(1).await, ["like"]);
}

#[tokio::test]
async fn a_malformed_update_closes_the_socket() {
    let (net, _) = net().await;
    for text in ["{", r#"{"type":"options_update","payload":{"wantedDids":["x"]}}"#] {
        let mut client = subscribe(net.jetstream(0), "").await;
        client.send(Message::text(text)).await;
        assert!(matches!(client.message().await, Some(Ok(Message::Close(Some(_))))), "{text}");
    }
}

#[tokio::test]
async fn pings_and_close_are_answered() {
    let (net, _) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    client.send(Message::Ping(b"abc".to_vec().into())).await;
    assert_eq!(client.message().await.unwrap().unwrap(), Message::Pong(b"abc".to_vec().into()));
    assert_eq!(net.jetstream(0).stats().pings, 1);
    client.send(Message::Close(None)).await;
    assert!(matches!(client.message().await, Some(Ok(Message::Close(_)))));
    assert!(net.jetstream(0).subscribed(0, SOON).await);
}

#[tokio::test]
async fn the_server_pings_too() {
    let options = JetstreamOptions { ping_every: Duration::from_millis(10), ..JetstreamOptions::default() };
    let server = Jetstream::start(options).await.unwrap();
    let mut client = subscribe(&server, "").await;
    for _ in 0..3 {
        assert!(matches!(client.message().await, Some(Ok(Message::Ping(_)))));
    }
    assert_eq!(server.stats().pings, 0);
}

#[tokio::test]
async fn a_generator_that_waits_for_the_backlog_feeds_a_long_run_whole() {
    let options = JetstreamOptions { retain: 2_000, ..JetstreamOptions::default() };
    let server = Jetstream::start(options).await.unwrap();
    let mut client = subscribe(&server, "").await;
    let mix = Mix { registry_share: 0.05, ..Mix::default() };
    let feed = async {
        for line in events::lines(mix).take(10_000) {
            assert!(localnet::until(SOON, || server.backlog() < 1_000).await);
            server.publish_line(line).unwrap();
        }
    };
    let read = async {
        for line in events::lines(mix).take(10_000) {
            let message = client.message().await.unwrap().unwrap();
            assert_eq!(message.into_data(), line);
        }
    };
    tokio::join!(feed, read);
    assert!(server.drained(SOON).await);
    assert_eq!(server.stats().events_sent, 10_000);
}

#[tokio::test]
async fn jitter_shows_times_out_of_order() {
    let options = JetstreamOptions { jitter_us: 33_000, ..JetstreamOptions::default() };
    let server = Jetstream::start(options).await.unwrap();
    let mut client = subscribe(&server, "").await;
    let event = |n| Event::Identity {
        identity: Identity { did: "did:plc:a".into(), handle: None, seq: n, time: String::new() },
    };
    let times: Vec<i64> = (0..50).map(|n| server.publish("did:plc:a", &event(n))).collect();
    assert!(!times.is_sorted(), "{times:?}");
    for time in times {
        assert_eq!(client.event().await["time_us"], json!(time));
    }
}

#[tokio::test]
async fn a_subscriber_that_falls_out_of_the_log_is_cut() {
    let options = JetstreamOptions { retain: 10, ..JetstreamOptions::default() };
    let server = Jetstream::start(options).await.unwrap();
    server.set_mode(Mode::Silent);
    let mut client = subscribe(&server, "").await;
    for line in events::lines(Mix::default()).take(50) {
        server.publish_line(line).unwrap();
    }
    server.set_mode(Mode::Normal);
    assert!(client.ends_without_close().await);
}

//! Each way in which a Jetstream server can be wrong.

use std::time::Duration;

use localnet::jetstream::{Door, JetstreamOptions, Limit, Mode, Raw};
use localnet::{Net, NetOptions, records};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::client::{Client, QUIET, SOON, connect, net, put, refusal, subscribe};

/// Whether a ping stays without an answer, and nothing else comes either.
async fn is_unanswered(client: &mut Client) -> bool {
    client.send(Message::Ping(b"there?".to_vec().into())).await;
    client.is_quiet().await
}

#[tokio::test]
async fn a_cut_ends_every_connection_without_a_close_frame() {
    let (net, _) = net().await;
    let mut clients = [subscribe(net.jetstream(0), "").await, subscribe(net.jetstream(0), "").await];
    net.jetstream(0).cut();
    for client in &mut clients {
        assert!(client.ends_without_close().await);
    }
    assert!(net.jetstream(0).subscribed(0, SOON).await);
    subscribe(net.jetstream(0), "").await;
    assert_eq!(net.jetstream(0).stats().connects, 3);
}

#[tokio::test]
async fn a_limit_cuts_each_connection_after_exactly_so_many_events() {
    let (net, did) = net().await;
    put(&net, &did, 0..10);
    net.jetstream(0).set_limit(Some(Limit::CutAfter(3)));
    for _ in 0..2 {
        let mut client = subscribe(net.jetstream(0), "cursor=1").await;
        assert_eq!(client.rkeys(3).await, ["0", "1", "2"]);
        assert!(client.ends_without_close().await);
    }
    assert_eq!(net.jetstream(0).stats().events_sent, 6);
}

#[tokio::test]
async fn a_silent_server_stays_open_and_answers_no_ping() {
    let (net, did) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    net.jetstream(0).set_mode(Mode::Silent);
    put(&net, &did, 0..1);
    assert!(is_unanswered(&mut client).await);
    net.jetstream(0).set_mode(Mode::SilentButPongs);
    client.send(Message::Ping(b"now?".to_vec().into())).await;
    assert_eq!(client.message().await.unwrap().unwrap(), Message::Pong(b"now?".to_vec().into()));
    assert!(client.is_quiet().await);
    net.jetstream(0).set_mode(Mode::Normal);
    assert_eq!(client.rkeys(1).await, ["0"]);
    assert_eq!(net.jetstream(0).stats().pings, 2);
}

#[tokio::test]
async fn silence_sets_in_after_so_many_events() {
    let (net, did) = net().await;
    net.jetstream(0).set_limit(Some(Limit::SilentAfter(2)));
    let mut client = subscribe(net.jetstream(0), "").await;
    put(&net, &did, 0..5);
    assert_eq!(client.rkeys(2).await, ["0", "1"]);
    assert!(is_unanswered(&mut client).await);
    net.jetstream(0).cut();
    assert!(client.ends_without_close().await);
}

#[tokio::test]
async fn a_frozen_server_reads_nothing_until_the_socket_is_full() {
    let (net, _) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    net.jetstream(0).set_mode(Mode::Frozen);
    let fill = async {
        for _ in 0..64 {
            client.send(Message::binary(vec![0; 1 << 20])).await;
        }
    };
    assert!(timeout(QUIET * 4, fill).await.is_err(), "64 MiB were taken by a server that does not read");
    assert_eq!(net.jetstream(0).stats().pings, 0);
}

#[tokio::test]
async fn a_cut_reaches_a_writer_that_is_stuck() {
    let (net, did) = net().await;
    let _client = subscribe(net.jetstream(0), "").await;
    for n in 0..16 {
        net.put(&did, records::PAGE, &n.to_string(), json!({ "description": "x".repeat(1 << 20) }));
    }
    assert!(!net.jetstream(0).drained(QUIET).await);
    net.jetstream(0).cut();
    assert!(net.jetstream(0).subscribed(0, SOON).await);
}

#[tokio::test]
async fn doors_refuse_so_many_connections_and_open_again() {
    let (net, _) = net().await;
    let server = net.jetstream(0);
    server.set_door(Door::Status(503), 2);
    assert_eq!(refusal(server, "").await.0, 503);
    assert_eq!(refusal(server, "cursor=5").await.0, 503);
    subscribe(server, "").await;
    server.set_door(Door::Html(200), 1);
    assert!(matches!(connect(server, "").await, Err(Error::Http(_))));
    server.set_door(Door::Html(404), usize::MAX);
    for _ in 0..3 {
        let (status, body) = refusal(server, "").await;
        assert_eq!(status, 404);
        assert!(body.contains("<!doctype html>"));
    }
    server.set_door(Door::Open, 0);
    subscribe(server, "").await;
    server.set_door(Door::Slam, 1);
    assert!(connect(server, "").await.is_err());
    assert_eq!(server.stats().handshakes, 2);
}

#[tokio::test]
async fn a_handshake_is_never_finished_behind_a_door_without_answer() {
    let (net, _) = net().await;
    net.jetstream(0).set_door(Door::NoAnswer, 1);
    let connecting = tokio_tungstenite::connect_async(net.jetstream(0).url());
    assert!(timeout(QUIET, connecting).await.is_err());
    assert_eq!(net.jetstream(0).stats().queries, [""]);
}

#[tokio::test]
async fn a_mute_server_sends_101_and_not_a_byte_more() {
    let (net, did) = net().await;
    net.jetstream(0).set_door(Door::Mute, 1);
    let mut client = subscribe(net.jetstream(0), "").await;
    put(&net, &did, 0..1);
    assert!(is_unanswered(&mut client).await);
    let mut other = subscribe(net.jetstream(0), "cursor=1").await;
    assert_eq!(other.rkeys(1).await, ["0"]);
}

#[tokio::test]
async fn reordering_loses_nothing_and_stays_within_its_window() {
    let (net, did) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    net.jetstream(0).reorder(8);
    put(&net, &did, 0..20);
    net.jetstream(0).reorder(0);
    let rkeys: Vec<i32> = client.rkeys(20).await.iter().map(|r| r.parse().unwrap()).collect();
    assert!(!rkeys.is_sorted(), "{rkeys:?}");
    for (window, of) in rkeys.chunks(8).zip([0..8, 8..16, 16..20]) {
        let mut sorted = window.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, of.collect::<Vec<_>>());
    }
    put(&net, &did, 20..21);
    assert_eq!(client.rkeys(1).await, ["20"]);
}

#[tokio::test]
async fn windows_and_hours_are_replayed_with_their_old_times() {
    let (net, did) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    put(&net, &did, 0..4);
    net.jetstream(0).replay_last(2);
    assert_eq!(client.rkeys(6).await, ["0", "1", "2", "3", "2", "3"]);
    net.jetstream(0).replay_since(Duration::from_secs(3600));
    assert_eq!(client.rkeys(6).await, ["0", "1", "2", "3", "2", "3"]);
    net.jetstream(0).replay_since(Duration::ZERO);
    assert!(client.is_quiet().await);
    assert_eq!(net.jetstream(0).published_commits().len(), 4);
}

#[tokio::test]
async fn cursors_are_taken_further_back_than_asked() {
    let (net, did) = net().await;
    put(&net, &did, 0..4);
    let newest = net.jetstream(0).newest_us();
    net.jetstream(0).rewind_cursors(Duration::from_secs(3600));
    let mut client = subscribe(net.jetstream(0), &format!("cursor={newest}")).await;
    assert_eq!(client.rkeys(4).await, ["0", "1", "2", "3"]);
}

#[tokio::test]
async fn raw_frames_arrive_as_they_are_in_order_with_events() {
    let (net, did) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    put(&net, &did, 0..1);
    net.jetstream(0).send_raw(Raw::Text(br#"{"kind":"news"}"#.to_vec()));
    net.jetstream(0).send_raw(Raw::Binary(vec![7; 9 << 20]));
    put(&net, &did, 1..2);
    net.jetstream(0).send_raw(Raw::Text(vec![0xff, 0xfe]));
    assert_eq!(client.rkeys(1).await, ["0"]);
    assert_eq!(client.event().await, json!({ "kind": "news" }));
    assert_eq!(client.message().await.unwrap().unwrap(), Message::binary(vec![7; 9 << 20]));
    assert_eq!(client.rkeys(1).await, ["1"]);
    assert!(matches!(client.message().await, Some(Err(Error::Utf8(_)))));
    let mut late = subscribe(net.jetstream(0), "cursor=1").await;
    assert_eq!(late.rkeys(2).await, ["0", "1"], "raw frames are not replayed");
    net.jetstream(0).send_raw(Raw::Close(1001));
    assert!(matches!(late.message().await, Some(Ok(Message::Close(Some(_))))));
}

#[tokio::test]
async fn a_partial_frame_ends_the_connection_in_its_middle() {
    let (net, _) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    net.jetstream(0).send_raw(Raw::Partial(vec![b'x'; 1000]));
    assert!(client.ends_without_close().await);
    let mut client = subscribe(net.jetstream(0), "").await;
    net.jetstream(0).send_raw(Raw::Bytes(vec![0xff; 20]));
    assert!(matches!(client.message().await, Some(Err(Error::Protocol(_)))));
}

#[tokio::test]
async fn withheld_commits_are_lost_while_account_events_flow() {
    let (net, did) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    net.jetstream(0).withhold_commits(true);
    put(&net, &did, 0..3);
    net.account_event("did:plc:stranger", true, None);
    assert_eq!(client.event().await["kind"], "account");
    net.jetstream(0).withhold_commits(false);
    put(&net, &did, 3..4);
    assert_eq!(client.rkeys(1).await, ["3"]);
    assert_eq!(net.jetstream(0).published_commits().len(), 4);
    assert_eq!(net.records(records::TAG).len(), 4);
}

#[tokio::test]
async fn each_server_has_its_own_faults() {
    let jetstreams = vec![JetstreamOptions::default(); 2];
    let net = Net::start(NetOptions { jetstreams, ..NetOptions::default() }).await.unwrap();
    let did = net.add_account("alice");
    net.jetstream(0).set_mode(Mode::Silent);
    let mut first = subscribe(net.jetstream(0), "").await;
    let mut second = subscribe(net.jetstream(1), "").await;
    put(&net, &did, 0..1);
    assert_eq!(second.rkeys(1).await, ["0"]);
    assert!(first.is_quiet().await);
}

#[tokio::test]
async fn dropping_the_network_ends_its_tasks_and_frees_its_ports() {
    let (net, _) = net().await;
    let mut client = subscribe(net.jetstream(0), "").await;
    let mut idle = TcpStream::connect(net.test_hosts()).await.unwrap();
    let address = net.jetstream(0).address();
    drop(net);
    assert!(client.ends_without_close().await);
    assert!(matches!(timeout(SOON, idle.read(&mut [0])).await, Ok(Ok(0) | Err(_))));
    let bound = || std::net::TcpListener::bind(address).is_ok();
    assert!(localnet::until(SOON, bound).await);
}

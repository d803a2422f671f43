//! The rules of `/xrpc/network.bsky.jetstream.subscribeEvents`, and its faults.

use localnet::jetstream::{Compressed, Door, FutureCursor, V1_DICTIONARY, V2_DICTIONARY, dictionary};
use localnet::{Net, records};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use zstd::bulk::Decompressor;

use crate::client::{Client, SOON, exchange, net, put, refusal_v2, subscribe, subscribe_v2};

const NSID: &str = "network.bsky.jetstream.subscribeEvents";

/// The record keys of the next commits.
async fn rkeys(client: &mut Client, count: usize) -> Vec<String> {
    let mut rkeys = Vec::new();
    while rkeys.len() < count {
        let event = client.event().await;
        rkeys.push(event["payload"]["rkey"].as_str().unwrap_or_else(|| panic!("{event}")).to_owned());
    }
    rkeys
}

async fn last_seq(net: &Net) -> u64 {
    net.jetstream(0).next_seq() - 1
}

#[tokio::test]
async fn events_have_the_envelope_of_the_lexicon_in_the_alphabets_order() {
    let (net, did) = net().await;
    let mut client = subscribe_v2(net.jetstream(0), "").await;
    let put = net.put(&did, records::TAG, "a", json!({ "tag": "latest" }));
    let message = client.message().await.unwrap().unwrap().into_text().unwrap();
    assert!(
        message.starts_with(&format!(r#"{{"$type":"message","payload":{{"$type":"{NSID}#commit","cid":"#))
    );
    let commit: Value = serde_json::from_str(&message).unwrap();
    let payload = &commit["payload"];
    let time = payload["time"].as_str().unwrap();
    assert_eq!((time.len(), &payload["witnessedAt"]), (27, &json!(time)));
    let expected = json!({
        "$type": format!("{NSID}#commit"), "did": did, "seq": 1, "time": time, "witnessedAt": time, "rev": put.rev,
        "operation": "create", "collection": records::TAG, "rkey": "a", "cid": put.cid,
        "record": { "$type": records::TAG, "tag": "latest" },
    });
    assert_eq!(payload, &expected);
    net.delete(&did, records::TAG, "a");
    let delete = client.event().await;
    assert!(delete["payload"].get("record").is_none() && delete["payload"].get("cid").is_none());
    net.set_account(&did, false, Some("deactivated"));
    assert_eq!(client.event().await["payload"]["account"]["status"], "deactivated");
    net.identity_event(&did);
    assert_eq!(client.event().await["payload"]["$type"], format!("{NSID}#identity"));
    net.sync_event(&did);
    let sync = client.event().await;
    assert_eq!((&sync["payload"]["sync"]["did"], &sync["payload"]["seq"]), (&json!(did), &json!(5)));
}

#[tokio::test]
async fn both_wires_tell_of_the_same_changes_but_only_the_second_of_syncs() {
    let (net, did) = net().await;
    let (mut first, mut second) =
        (subscribe(net.jetstream(0), "").await, subscribe_v2(net.jetstream(0), "").await);
    net.sync_event(&did);
    put(&net, &did, 0..3);
    assert_eq!(first.rkeys(3).await, ["0", "1", "2"]);
    assert_eq!(second.event().await["payload"]["$type"], format!("{NSID}#sync"));
    assert_eq!(rkeys(&mut second, 3).await, ["0", "1", "2"]);
}

#[tokio::test]
async fn filters_are_by_kind_by_did_and_by_collection_of_commits() {
    let (net, did) = net().await;
    let bob = net.add_account("bob");
    let mut commits = subscribe_v2(net.jetstream(0), "kinds=commit&collections=io.atcr.*").await;
    let mut of_bob = subscribe_v2(net.jetstream(0), &format!("dids={bob}&maxMessageSizeBytes=1000")).await;
    net.put(&did, "app.bsky.feed.like", "unwanted", json!({}));
    net.identity_event(&did);
    net.put(&bob, records::PAGE, "large", json!({ "description": "x".repeat(1000) }));
    net.put(&bob, records::STAR, "wanted", json!({}));
    assert_eq!(rkeys(&mut commits, 2).await, ["large", "wanted"]);
    assert_eq!(rkeys(&mut of_bob, 1).await, ["wanted"]);
}

#[tokio::test]
async fn bad_options_are_refused_by_name_before_the_upgrade() {
    let (net, did) = net().await;
    let server = net.jetstream(0);
    for query in [
        "wantedCollections=io.atcr.tag",
        "wantedDids=did:plc:a",
        "kinds=label",
        "kinds=identity&collections=io.atcr.tag",
        "cursor=yesterday",
        "cursor=-1",
        "collections=nonsense",
    ] {
        let (status, body) = refusal_v2(server, query).await;
        assert_eq!((status, body["error"].as_str()), (400, Some("InvalidRequest")), "{query}");
    }
    let (status, body) = refusal_v2(server, "zstdDictionary=5").await;
    assert_eq!((status, body["error"].as_str()), (400, Some("UnknownZstdDictionary")));
    assert!(body["message"].as_str().unwrap().contains(&V2_DICTIONARY.to_string()), "{body}");
    put(&net, &did, 0..9);
    server.forget(2);
    let (status, body) = refusal_v2(server, "cursor=3").await;
    assert_eq!((status, body["error"].as_str()), (400, Some("CursorTooOld")));
    assert!(body["message"].as_str().unwrap().contains('8'), "{body}");
    server.set_door(Door::Xrpc(503, "ServiceUnavailable".into()), 1);
    let (status, body) = refusal_v2(server, "").await;
    assert_eq!((status, body["error"].as_str()), (503, Some("ServiceUnavailable")));
}

#[tokio::test]
async fn a_number_is_inclusive_and_meets_the_live_stream_without_a_gap() {
    let (net, did) = net().await;
    put(&net, &did, 0..5);
    let mut client = subscribe_v2(net.jetstream(0), "cursor=4").await;
    put(&net, &did, 5..6);
    assert_eq!(rkeys(&mut client, 3).await, ["3", "4", "5"]);
    let mut next = subscribe_v2(net.jetstream(0), "cursor=7").await;
    put(&net, &did, 6..7);
    assert_eq!(rkeys(&mut next, 1).await, ["6"], "the number that comes next is no future one");
}

#[tokio::test]
async fn a_time_older_than_what_is_kept_begins_there_after_a_notice() {
    let (net, did) = net().await;
    put(&net, &did, 0..5);
    net.jetstream(0).forget(2);
    let mut client = subscribe_v2(net.jetstream(0), "cursor=1000000000000000").await;
    let info = client.event().await;
    assert_eq!((&info["payload"]["name"], &info["payload"]["seq"]), (&json!("OutdatedCursor"), &Value::Null));
    assert_eq!(rkeys(&mut client, 2).await, ["3", "4"]);
    let mut future = subscribe_v2(net.jetstream(0), "cursor=99999999999999999").await;
    put(&net, &did, 5..6);
    assert_eq!(rkeys(&mut future, 1).await, ["5"]);
}

#[tokio::test]
async fn a_number_of_the_future_is_told_in_three_ways() {
    let (net, did) = net().await;
    let server = net.jetstream(0);
    put(&net, &did, 0..5);
    server.reset_sequencer();
    let mut client = subscribe_v2(server, "cursor=5").await;
    assert_eq!(client.event().await["payload"]["name"], "FutureCursor");
    put(&net, &did, 5..6);
    let event = client.event().await;
    assert_eq!((&event["payload"]["seq"], last_seq(&net).await), (&json!(1), 1));

    server.set_future_cursor(FutureCursor::Silent);
    let mut client = subscribe_v2(server, "cursor=5").await;
    put(&net, &did, 6..7);
    assert_eq!(rkeys(&mut client, 1).await, ["6"]);

    server.set_future_cursor(FutureCursor::Error);
    let mut client = subscribe_v2(server, "cursor=5").await;
    let error = client.event().await;
    assert_eq!((&error["$type"], &error["error"]), (&json!("error"), &json!("FutureCursor")));
    assert!(
        matches!(client.message().await, Some(Ok(Message::Close(Some(frame)))) if u16::from(frame.code) == 1008)
    );
}

#[tokio::test]
async fn notices_and_errors_come_on_command_to_the_second_wire_alone() {
    let (net, did) = net().await;
    let (mut first, mut second) =
        (subscribe(net.jetstream(0), "").await, subscribe_v2(net.jetstream(0), "").await);
    net.jetstream(0).send_info("OutdatedCursor", "m");
    net.jetstream(0).send_error("ConsumerTooSlow", "m");
    put(&net, &did, 0..1);
    assert_eq!(first.rkeys(1).await, ["0"]);
    assert_eq!(second.event().await["payload"]["name"], "OutdatedCursor");
    assert_eq!(second.event().await["error"], "ConsumerTooSlow");
    assert!(matches!(second.message().await, Some(Ok(Message::Close(Some(_))))));
    assert!(net.jetstream(0).subscribed(1, SOON).await);
}

#[tokio::test]
async fn a_message_of_the_client_closes_the_socket() {
    let (net, _) = net().await;
    let mut client = subscribe_v2(net.jetstream(0), "").await;
    client.send(Message::text(r#"{"type":"options_update"}"#)).await;
    assert!(
        matches!(client.message().await, Some(Ok(Message::Close(Some(frame)))) if u16::from(frame.code) == 1008)
    );
}

#[tokio::test]
async fn the_sub_protocol_is_answered_if_asked_for() {
    let (net, _) = net().await;
    let ask = async |protocol: &'static str| {
        let mut request = net.jetstream(0).url_v2().into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
        tokio_tungstenite::connect_async(request).await
    };
    let (_, answer) = ask("other, xrpc.v1.json").await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "xrpc.v1.json");
    assert!(ask("xrpc.v2.cbor").await.is_err());
}

#[tokio::test]
async fn frames_are_compressed_with_the_dictionary_that_is_served() {
    let (net, did) = net().await;
    let server = net.jetstream(0);
    let path = "/xrpc/network.bsky.jetstream.getZstdDictionary";
    let get = async |query: &str| {
        let request = format!("GET {path}{query} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
        exchange(server.address(), &request).await
    };
    let served = get("").await;
    assert!(served.ends_with(&dictionary(V2_DICTIONARY)));
    assert!(get(&format!("?id={V2_DICTIONARY}")).await.ends_with(&dictionary(V2_DICTIONARY)));
    let unknown = get("?id=5").await;
    assert!(String::from_utf8_lossy(&unknown).contains("DictionaryNotFound"));
    assert_eq!(server.stats().dictionaries, 3);

    let mut second = subscribe_v2(server, &format!("zstdDictionary={V2_DICTIONARY}")).await;
    let mut first = subscribe(server, "compress=true").await;
    put(&net, &did, 0..1);
    for (client, id) in [(&mut second, V2_DICTIONARY), (&mut first, V1_DICTIONARY)] {
        let text = client.inflated(id).await.unwrap();
        let event: Value = serde_json::from_slice(&text).unwrap();
        assert!(event.to_string().contains(r#""rkey":"0""#), "{event}");
    }
    server.set_compressed(Compressed::With(9));
    put(&net, &did, 1..2);
    assert!(second.inflated(9).await.is_ok());
    server.set_compressed(Compressed::Broken);
    put(&net, &did, 2..3);
    assert!(second.inflated(V2_DICTIONARY).await.is_err());
    server.set_dictionary(7);
    assert_eq!(refusal_v2(server, &format!("zstdDictionary={V2_DICTIONARY}")).await.0, 400);
}

impl Client {
    async fn inflated(&mut self, id: u32) -> std::io::Result<Vec<u8>> {
        let Message::Binary(frame) = self.message().await.unwrap().unwrap() else { panic!("not compressed") };
        Decompressor::with_dictionary(&dictionary(id)).unwrap().decompress(&frame, 1 << 20)
    }
}

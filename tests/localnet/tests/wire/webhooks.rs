//! The receiver of webhooks: what it keeps, and each way in which it answers badly.

use std::io::{Read, Write};
use std::net::SocketAddr;

use localnet::webhooks::{Behaviour, Receiver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Answer, QUIET, SOON, address, request};

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nX-ATCR-Delivery: whd_1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn receiver() -> (Receiver, SocketAddr) {
    let receiver = Receiver::start(0).await.unwrap();
    let at = address(&receiver.url());
    (receiver, at)
}

async fn answer(at: SocketAddr, path: &str) -> Answer {
    request(at, &post(path, "{}")).await
}

#[tokio::test]
async fn what_was_sent_is_kept_with_headers_and_body() {
    let (receiver, at) = receiver().await;
    assert_eq!(request(at, &post("/a?x=1", r#"{"n":1}"#)).await.status, 200);
    let received = receiver.received_at("/a");
    assert_eq!((received.len(), received[0].id(), received[0].status), (1, "whd_1", 200));
    assert_eq!((received[0].json()["n"].as_i64(), received[0].header("host")), (Some(1), Some("a")));
    assert!(receiver.received_at("/b").is_empty());
    receiver.reset();
    assert!(receiver.received().is_empty() && receiver.requests("/a") == 0);
}

#[tokio::test]
async fn an_endpoint_answers_as_it_is_told_and_the_others_do_not() {
    let (receiver, at) = receiver().await;
    receiver.behave("/a", Behaviour::Status(503));
    receiver.script("/a", [Behaviour::RetryAfter(429, 7), Behaviour::Down]);
    let first = answer(at, "/a").await;
    assert!(first.status == 429 && first.head.contains("retry-after: 7"), "{}", first.head);
    assert_eq!(answer(at, "/a").await.status, 0, "hung up");
    assert_eq!(answer(at, "/a").await.status, 503);
    assert_eq!(answer(at, "/b").await.status, 200);
    let statuses: Vec<u16> = receiver.received_at("/a").iter().map(|received| received.status).collect();
    assert_eq!(statuses, [429, 0, 503]);
    receiver.behave("/a", Behaviour::Redirect("http://127.0.0.1:1/".to_owned()));
    let redirect = answer(at, "/a").await;
    assert!(redirect.status == 302 && redirect.head.contains("location: http://127.0.0.1:1/"));
    receiver.behave("/a", Behaviour::Headers(500));
    assert_eq!(answer(at, "/a").await.head.matches("x-flood").count(), 500);
}

#[tokio::test]
async fn an_answer_never_comes_or_never_ends() {
    let (receiver, at) = receiver().await;
    receiver.behave("/never", Behaviour::Never);
    receiver.behave("/endless", Behaviour::Endless);
    let mut never = TcpStream::connect(at).await.unwrap();
    never.write_all(post("/never", "").as_bytes()).await.unwrap();
    assert!(timeout(QUIET, never.read_u8()).await.is_err());
    assert_eq!(receiver.most_at_once("/never"), 1);
    let mut endless = TcpStream::connect(at).await.unwrap();
    endless.write_all(post("/endless", "").as_bytes()).await.unwrap();
    let mut much = vec![0; 4 << 20];
    timeout(SOON, endless.read_exact(&mut much)).await.unwrap().unwrap();
}

/// A client that has read the answer may be back before the server's task has run on: sixteen of them, so that one is
/// interrupted there.
#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_at_once_was_not_there_twice() {
    let (receiver, at) = receiver().await;
    let clients = (0..16).map(|client| {
        tokio::task::spawn_blocking(move || {
            for _ in 0..200 {
                let mut stream = std::net::TcpStream::connect(at).unwrap();
                stream.write_all(post(&format!("/{client}"), "{}").as_bytes()).unwrap();
                let mut read = [0; 1024];
                while !read.windows(6).any(|six| six == b"\r\n\r\nok") {
                    assert!(stream.read(&mut read).unwrap() > 0);
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    for client in 0..16 {
        let path = format!("/{client}");
        assert_eq!((receiver.requests(&path), receiver.most_at_once(&path)), (200, 1), "{path}");
    }
}

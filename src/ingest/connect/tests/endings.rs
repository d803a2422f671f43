//! Every way that an attempt, a connection or the task ends.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::*;

/// Reads the request and answers with `text`, closing after it.
pub(super) async fn answer(mut stream: TcpStream, text: &'static str) {
    let mut request = vec![0; 4_096];
    let _ = stream.read(&mut request).await;
    stream.write_all(text.as_bytes()).await.unwrap();
}

async fn close_with(stream: TcpStream, code: u16) {
    let (mut socket, _) = accept(stream).await;
    let frame = CloseFrame { code: code.into(), reason: "bye".into() };
    socket.send(Message::Close(Some(frame))).await.unwrap();
    answer_pings(socket).await;
}

async fn raw_after_handshake(stream: TcpStream, bytes: &'static [u8]) {
    let (mut socket, _) = accept(stream).await;
    socket.get_mut().write_all(bytes).await.unwrap();
    answer_pings(socket).await;
}

/// How a host ends it, the counter that tells so, and the word.
const ENDS: [(&str, &str); 15] = [
    ("connects", "status_4xx"),
    ("connects", "status_5xx"),
    ("connects", "status_other"),
    ("connects", "handshake"),
    ("connects", "handshake"),
    ("connects", "timeout"),
    ("disconnects", "close_1000"),
    ("disconnects", "close_1001"),
    ("disconnects", "close_1008"),
    ("disconnects", "close_1013"),
    ("disconnects", "close_other"),
    ("disconnects", "close_other"),
    ("disconnects", "cut"),
    ("disconnects", "violation"),
    ("disconnects", "nothing_ever"),
];

async fn end(way: usize, stream: TcpStream) {
    match way {
        0 => answer(stream, "HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\nbad query").await,
        1 => answer(stream, "HTTP/1.1 502 Bad Gateway\r\n\r\n<html>").await,
        2 => answer(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>").await,
        3 => answer(stream, "SSH-2.0-OpenSSH_9.2\r\n\r\n").await,
        4 => answer(stream, "").await,
        5 => hang(stream).await,
        6 => close_with(stream, 1000).await,
        7 => close_with(stream, 1001).await,
        8 => close_with(stream, 1008).await,
        9 => close_with(stream, 1013).await,
        10 => close_with(stream, 4321).await,
        11 => accept(stream).await.0.close(None).await.unwrap(),
        12 => drop(accept(stream).await),
        13 => raw_after_handshake(stream, &[0xf2, 1, b'x']).await,
        14 => hang(accept(stream).await).await,
        _ => unreachable!(),
    }
}

/// blacksky-algorithms/rsky#76: consumers stop without a word.
#[tokio::test]
async fn every_way_that_a_connection_ends_is_counted_by_its_reason_and_followed_by_the_next_host() {
    let (metrics, _guard) = recorded();
    let mut hosts = Vec::new();
    for way in 0..ENDS.len() {
        hosts.push(FakeHost::start(move |_, stream| end(way, stream)).await);
    }
    let good = FakeHost::start(|_, stream| healthy(stream, T0)).await;
    let mut config = config(&hosts.iter().chain([&good]).collect::<Vec<_>>());
    config.connect_timeout = Duration::from_millis(300);
    let plain = FakeHost::start(|_, stream| answer(stream, "HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    config.hosts.insert(0, Host::parse(&format!("wss://{}/", plain.key)).unwrap());
    config.hosts.insert(0, Host::parse("ws://127.0.0.1:1/").unwrap());
    config.hosts.insert(0, Host::parse("ws://no-such-host.invalid/").unwrap());

    let mut following = Following::start(config);
    assert_eq!(following.process().await.0, good.key);
    let rendered = metrics.render();
    let counted = |counter: &str, key: &str, word: &str| {
        let label = if counter == "connects" { "outcome" } else { "reason" };
        let line = format!(r#"atcr_stream_{counter}_total{{host="{key}",{label}="{word}"}} 1"#);
        assert!(rendered.contains(&line), "no {line} in\n{rendered}");
    };
    for (host, (counter, word)) in hosts.iter().zip(ENDS) {
        counted(counter, &host.key, word);
    }
    counted("connects", &plain.key, "tls");
    counted("connects", "127.0.0.1:1", "tcp");
    counted("connects", &good.key, "connected");
    assert!(rendered.contains(&format!(r#"atcr_stream_connected{{host="{}"}} 1"#, good.key)), "{rendered}");
    following.stop().await;
    assert!(metrics.render().contains(r#"atcr_stream_ends_total{reason="stopped"} 1"#));
    assert!(metrics.render().contains(&format!(r#"atcr_stream_connected{{host="{}"}} 0"#, good.key)));
}

#[tokio::test]
async fn the_task_ends_when_nobody_takes_its_frames() {
    let (metrics, _guard) = recorded();
    let host = FakeHost::start(|_, stream| healthy(stream, T0)).await;
    let mut following = Following::start(config(&[&host]));
    following.process().await;
    drop(following.frames);
    timeout(DEADLINE, following.task).await.unwrap().unwrap();
    assert!(metrics.render().contains(r#"atcr_stream_ends_total{reason="consumer_gone"} 1"#));
}

/// idunno.Bluesky#499: an incomplete close breaks reconnecting for good, and a receive resumes in mid-message.
#[tokio::test]
async fn a_stop_in_mid_frame_in_mid_close_and_in_mid_connect_each_leads_to_a_clean_new_socket() {
    for way in ["mid frame", "mid close", "mid connect", "close never answered"] {
        let (there, mut reached) = tokio::sync::mpsc::channel(1);
        let host = FakeHost::start(move |n, stream| {
            let there = there.clone();
            async move {
                if n > 0 {
                    return healthy(stream, T0 + 1).await;
                }
                if way == "mid connect" {
                    there.send(()).await.unwrap();
                    return hang(stream).await;
                }
                let (mut socket, _) = accept(stream).await;
                socket.send(event(T0)).await.unwrap();
                let partial: &[u8] = match way {
                    "mid frame" => &[0x81, 126, 1, 0, b'{', b'"'],
                    "mid close" => &[0x88, 2, 0x03],
                    _ => &[],
                };
                socket.get_mut().write_all(partial).await.unwrap();
                there.send(()).await.unwrap();
                hang(socket).await;
            }
        })
        .await;
        let mut first = Following::start(config(&[&host]));
        timeout(DEADLINE, reached.recv()).await.unwrap().unwrap();
        if way != "mid connect" {
            assert_eq!(first.process().await.1, T0);
        }
        first.stop().await;
        let mut second = Following::start(config(&[&host]));
        assert_eq!(second.process().await, (host.key.clone(), T0 + 1), "{way}");
        assert_eq!(host.connections(), 2, "{way}");
        second.stop().await;
    }
}

//! One bad message costs one message, and neither the connection nor a second look at it.

use tokio::io::AsyncWriteExt;

use super::*;

async fn around(bad: Vec<u8>) -> (FakeHost, Following) {
    let host = FakeHost::start(move |_, stream| {
        let bad = bad.clone();
        async move {
            let (mut socket, _) = accept(stream).await;
            socket.send(event(T0)).await.unwrap();
            socket.get_mut().write_all(&bad).await.unwrap();
            socket.send(event(T0 + 1)).await.unwrap();
            answer_pings(socket).await;
        }
    })
    .await;
    let mut following = Following::start(config(&[&host]));
    assert_eq!(following.process().await.1, T0);
    (host, following)
}

#[tokio::test]
async fn a_text_that_is_not_utf8_is_one_undecodable_frame() {
    let (host, mut following) = around(vec![0x81, 3, b'"', 0xff, b'"']).await;
    let bad = following.frame().await;
    assert_eq!(crate::ingest::decode::decode(&bad.bytes).unwrap_err().kind(), "not_utf8");
    assert_eq!(following.process().await.1, T0 + 1);
    assert_eq!(host.connections(), 1);
    following.stop().await;
}

#[tokio::test]
async fn a_message_over_the_limit_is_skipped_and_counted() {
    let (metrics, _guard) = recorded();
    let size = 300_000_u64;
    let head = [vec![0x81, 127], size.to_be_bytes().to_vec()].concat();
    let (host, mut following) = around([head, vec![b' '; size as usize]].concat()).await;
    assert_eq!(following.process().await.1, T0 + 1);
    assert_eq!(host.connections(), 1);
    let line = format!(r#"atcr_stream_skipped_total{{host="{}"}} 1"#, host.key);
    assert!(metrics.render().contains(&line), "{}", metrics.render());
    following.stop().await;
}

//! Sockets that are open and useless.

use super::*;

/// jetstream-legacy#48: a host stops sending after a minute; the socket stays open and pings go unanswered.
#[tokio::test]
async fn a_host_that_goes_silent_is_left_for_the_next_within_the_idle_limit() {
    let (metrics, _guard) = recorded();
    let silent = FakeHost::start(|_, stream| async {
        let (mut socket, _) = accept(stream).await;
        for n in 0..3 {
            socket.send(event(T0 + n)).await.unwrap();
        }
        hang(socket).await;
    })
    .await;
    let good = FakeHost::start(|_, stream| async {
        let (mut socket, cursor) = accept(stream).await;
        socket.send(event(cursor.unwrap())).await.unwrap();
        answer_pings(socket).await;
    })
    .await;
    let mut following = Following::start(config(&[&silent, &good]));
    for n in 0..3 {
        assert_eq!(following.process().await, (silent.key.clone(), T0 + n));
    }
    let since = Instant::now();
    let rewound = T0 + 2 - 30_000_000;
    assert_eq!(
        following.process().await,
        (good.key.clone(), rewound),
        "another host's position is rewound by 30 s"
    );
    // The limit, and room for a busy machine.
    assert!(since.elapsed() < 2 * LIMIT, "{:?}", since.elapsed());
    let line = format!(r#"atcr_stream_disconnects_total{{host="{}",reason="no_answer"}} 1"#, silent.key);
    assert!(metrics.render().contains(&line), "{}", metrics.render());
    following.stop().await;
}

/// simonw/tools#308: a host completes the handshake and never sends a byte.
#[tokio::test]
async fn a_host_that_never_sends_a_byte_is_left_after_one_idle_limit() {
    let (metrics, _guard) = recorded();
    let mute = FakeHost::start(|_, stream| async { hang(accept(stream).await).await }).await;
    let good = FakeHost::start(|_, stream| healthy(stream, T0)).await;
    let mut following = Following::start(config(&[&mute, &good]));
    let since = Instant::now();
    assert_eq!(following.process().await, (good.key.clone(), T0));
    assert!(since.elapsed() < 2 * LIMIT, "{:?}", since.elapsed());
    let line = format!(r#"atcr_stream_disconnects_total{{host="{}",reason="nothing_ever"}} 1"#, mute.key);
    assert!(metrics.render().contains(&line), "{}", metrics.render());
    following.stop().await;
}

/// indigo#974, indigo#975: a host forgets to close a subscriber that it dropped; a catch-up starts over each time.
#[tokio::test]
async fn a_forgotten_connection_ends_and_resumes_from_the_last_processed_event() {
    let host = FakeHost::start(|n, stream| async move {
        let (mut socket, cursor) = accept(stream).await;
        if n == 0 {
            assert_eq!(cursor, None);
            for n in 0..50 {
                socket.send(event(T0 + n)).await.unwrap();
            }
            return hang(socket).await;
        }
        socket.send(event(cursor.unwrap())).await.unwrap();
        answer_pings(socket).await;
    })
    .await;
    let mut following = Following::start(config(&[&host]));
    for n in 0..50 {
        assert_eq!(following.process().await.1, T0 + n);
    }
    assert_eq!(following.process().await.1, T0 + 49);
    following.stop().await;
}

/// MarshalX/atproto#489: after a spell of 503s the client hangs on a host that accepts and stays silent.
#[tokio::test]
async fn twenty_503s_and_then_silence_are_outlived_unattended() {
    let host = FakeHost::start(|n, stream| async move {
        match n {
            0..20 => endings::answer(stream, "HTTP/1.1 503 Service Unavailable\r\n\r\n").await,
            20 => hang(accept(stream).await).await,
            21 => hang(stream).await,
            _ => healthy(stream, T0).await,
        }
    })
    .await;
    let mut following = Following::start(config(&[&host]));
    assert_eq!(following.process().await.1, T0);
    assert_eq!(host.connections(), 23);
    following.stop().await;
}

/// A quiet host that answers pings is kept: on a small network nothing may happen for hours (jetstream-legacy#25).
#[tokio::test]
async fn a_quiet_host_is_kept_and_called_stale_and_another_is_tried_only_once() {
    let (metrics, _guard) = recorded();
    let quiet = |_, stream| async { answer_pings(accept(stream).await.0).await };
    let alone = FakeHost::start(quiet).await;
    let following = Following::start(config(&[&alone]));
    let stale = |key: &str| format!(r#"atcr_stream_stale{{host="{key}"}} 1"#);
    eventually("stale", || metrics.render().contains(&stale(&alone.key))).await;

    let (first, second) = (FakeHost::start(quiet).await, FakeHost::start(quiet).await);
    let pair = Following::start(config(&[&first, &second]));
    eventually("the second is stale too", || metrics.render().contains(&stale(&second.key))).await;
    tokio::time::sleep(2 * LIMIT).await;
    assert_eq!((first.connections(), second.connections(), alone.connections()), (1, 1, 1));
    pair.stop().await;
    following.stop().await;
}

/// A slow database is no dead host: while the queue is full the liveness clocks stand still.
#[tokio::test]
async fn a_full_queue_stops_the_reading_and_not_the_connection() {
    let host = FakeHost::start(|_, stream| async {
        let (mut socket, _) = accept(stream).await;
        for n in 0..100 {
            socket.send(event(T0 + n)).await.unwrap();
        }
        answer_pings(socket).await;
    })
    .await;
    let mut following = Following::with(config(&[&host]), Positions::default(), 2);
    following.process().await;
    tokio::time::sleep(3 * LIMIT).await;
    for n in 1..100 {
        assert_eq!(following.process().await.1, T0 + n);
    }
    assert_eq!(host.connections(), 1);
    following.stop().await;
}

#[tokio::test]
async fn a_host_is_not_called_stale_for_the_time_that_the_queue_was_full() {
    let (metrics, _guard) = recorded();
    let host = FakeHost::start(|_, stream| async {
        let (mut socket, _) = accept(stream).await;
        socket.send(event(T0)).await.unwrap();
        socket.send(event(T0 + 1)).await.unwrap();
        answer_pings(socket).await;
    })
    .await;
    let mut config = config(&[&host]);
    config.idle_limit = 2 * LIMIT;
    let mut following = Following::with(config, Positions::default(), 1);
    tokio::time::sleep(4 * LIMIT).await;
    following.process().await;
    following.process().await;
    // Two decisions later; a host without events would be stale only after sixteen.
    tokio::time::sleep(LIMIT / 4).await;
    let line = format!(r#"atcr_stream_stale{{host="{}"}} 0"#, host.key);
    assert!(metrics.render().contains(&line), "{}", metrics.render());
    following.stop().await;
}

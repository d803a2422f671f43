//! Hosts that cut their clients while they deliver.

use super::*;

/// jetstream-legacy#27: closed without a close frame every few seconds while catching up.
#[tokio::test]
async fn a_host_that_cuts_at_every_1000_events_is_caught_up_with_and_not_hammered() {
    let host = FakeHost::start(|_, stream| async {
        let (mut socket, cursor) = accept(stream).await;
        let from = cursor.map_or(T0, |cursor| cursor + 1);
        for n in 0..1_000 {
            socket.feed(event(from + n)).await.unwrap();
        }
        socket.flush().await.unwrap();
    })
    .await;
    let mut following = Following::start(config(&[&host]));
    let since = Instant::now();
    for n in 0..5_000 {
        assert_eq!(following.process().await.1, T0 + n);
    }
    // Four waits of the first step, less its jitter; none of the doubled ones, which would be 10 + 20 + 40 + 40 ms.
    assert!(since.elapsed() >= 4 * Duration::from_millis(10), "{:?}", since.elapsed());
    assert!(host.connections() <= 6, "{}", host.connections());
    following.stop().await;
}

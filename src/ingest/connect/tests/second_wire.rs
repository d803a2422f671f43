//! Hosts of the second wire that refuse what they are asked for.

use super::endings::answer;
use super::*;

fn numbered(host: &FakeHost, seq: i64) -> Positions {
    let positions = Positions::default();
    positions.put(Saved { wire: Wire::V2, host: host.key.clone(), time_us: T0, seq: Some(seq) });
    positions
}

fn second_wire(host: &FakeHost) -> Config {
    let mut config = config(&[host]);
    let url = format!("ws://{}/xrpc/network.bsky.jetstream.subscribeEvents", host.key);
    config.hosts = vec![Host::parse(&url).unwrap()];
    config
}

fn message(seq: i64) -> Message {
    let kind = "network.bsky.jetstream.subscribeEvents#identity";
    let payload = format!(
        r#"{{"$type":"{kind}","did":"did:plc:a","identity":{{}},"seq":{seq},"time":"2026-07-04T14:38:08Z"}}"#
    );
    format!(r#"{{"$type":"message","payload":{payload}}}"#).into()
}

/// Refuses so many times, then sends the event of `seq`; tells the last cursor that it was asked for by the time.
async fn refusing(times: usize, refusal: &'static str, seq: i64) -> (FakeHost, Arc<Mutex<Option<i64>>>) {
    let asked = Arc::new(Mutex::new(None));
    let told = Arc::clone(&asked);
    let host = FakeHost::start(move |number, stream| {
        let told = Arc::clone(&told);
        async move {
            if number < times {
                return answer(stream, refusal).await;
            }
            let (mut socket, cursor) = accept(stream).await;
            *told.lock().unwrap() = cursor;
            socket.send(message(seq)).await.unwrap();
            answer_pings(socket).await;
        }
    })
    .await;
    (host, asked)
}

const BACK: i64 = 30_000_000;

#[tokio::test]
async fn a_number_that_is_too_old_is_asked_for_by_time_at_the_next_attempt() {
    let body = "HTTP/1.1 400 Bad Request\r\n\r\n{\"error\":\"CursorTooOld\",\"message\":\"floor 9\"}";
    let (host, asked) = refusing(1, body, 9).await;
    let mut following = Following::with(second_wire(&host), numbered(&host, 7), 10);
    let gap = following.gap().await;
    assert_eq!((gap.wire, gap.reason, gap.forget), (Wire::V2, GapReason::OldCursor, false));
    assert_eq!(following.frame().await.wire, Wire::V2);
    assert_eq!(*asked.lock().unwrap(), Some(T0 - BACK));
    assert_eq!(host.connections(), 2);
    following.stop().await;
}

/// The body of a refusal need not arrive with its head, and not every proxy passes it on.
#[tokio::test]
async fn a_number_that_is_refused_without_a_name_is_given_up_after_three_times() {
    let (metrics, _guard) = recorded();
    let (host, asked) = refusing(3, "HTTP/1.1 400 Bad Request\r\n\r\n<html>", 3).await;
    let mut following = Following::with(second_wire(&host), numbered(&host, 7), 10);
    let gap = following.gap().await;
    assert_eq!((gap.reason, gap.forget), (GapReason::Recount, true));
    let alarm = |on: u8| format!(r#"atcr_stream_position_refused{{host="{}"}} {on}"#, host.key);
    assert!(metrics.render().contains(&alarm(1)), "{}", metrics.render());
    following.frame().await;
    assert_eq!(*asked.lock().unwrap(), Some(T0 - BACK));
    assert!(metrics.render().contains(&alarm(0)), "{}", metrics.render());
    following.stop().await;
}

#[tokio::test]
async fn a_server_that_is_not_ready_leaves_the_number_alone() {
    let body = "HTTP/1.1 503 Service Unavailable\r\n\r\n{\"error\":\"ServiceUnavailable\"}";
    let (host, asked) = refusing(5, body, 8).await;
    let mut following = Following::with(second_wire(&host), numbered(&host, 7), 10);
    following.frame().await;
    assert_eq!(*asked.lock().unwrap(), Some(7));
    following.stop().await;
}

#[tokio::test]
async fn the_event_of_the_number_is_not_delivered_again() {
    let host = FakeHost::start(|_, stream| async {
        let (mut socket, _) = accept(stream).await;
        socket.send(message(7)).await.unwrap();
        socket.send(message(8)).await.unwrap();
        answer_pings(socket).await;
    })
    .await;
    let mut following = Following::with(second_wire(&host), numbered(&host, 7), 10);
    let frame = following.frame().await;
    assert!(frame.bytes.windows(7).any(|part| part == br#""seq":8"#));
    following.stop().await;
}

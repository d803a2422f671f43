//! With the runtime's clock stopped: a wait takes no time, and is exact.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::advance;

use super::*;
use crate::atproto::guard::Allowance;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pace() -> Pace {
    Pace::new(Limits::of(2))
}

fn refused_for(seconds: u64) -> Heard {
    Heard::Answer(Allowance::RefusedFor(secs(seconds)))
}

const REFUSED: Heard = Heard::Answer(Allowance::Refused);
const FINE: Heard = Heard::Answer(Allowance::Unsaid);

/// How long a request waits for its host.
async fn wait(pace: &Pace, host: &str) -> Duration {
    let began = Instant::now();
    drop(pace.enter(host).await.unwrap());
    began.elapsed()
}

// S23: indigo#1247
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_time_that_the_host_named() {
    let pace = pace();
    pace.enter("a").await.unwrap().done(refused_for(30));
    advance(secs(10)).await;
    // Read from the wheel of the runtime's timers, which counts in milliseconds.
    let waited = wait(&pace, "a").await;
    assert!((secs(20)..secs(20) + Duration::from_millis(2)).contains(&waited), "{waited:?}");
    assert_eq!(wait(&pace, "a").await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn one_hosts_refusal_never_delays_another_host() {
    let pace = pace();
    pace.enter("a").await.unwrap().done(refused_for(50));
    let sleeping = [pace.enter("a"), pace.enter("a"), pace.enter("a")];
    let mut sleeping = sleeping.map(Box::pin);
    assert!(sleeping.iter_mut().all(|entering| entering.now_or_never().is_none()));
    for _ in 0..100 {
        assert_eq!(wait(&pace, "b").await, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_longer_than_a_request_waits_is_told_at_once_with_its_end() {
    let pace = pace();
    let told_at = Instant::now();
    pace.enter("a").await.unwrap().done(refused_for(61));
    let error = pace.enter("a").now_or_never().unwrap().err().unwrap();
    assert_eq!(error, Paused { host: "a".to_owned(), retry_at: told_at + secs(61) });
    assert_eq!(error.to_string(), "a takes no requests for another 61s");
    assert_eq!(pace.wait("a").now_or_never().unwrap().unwrap_err(), error);
    advance(secs(2)).await;
    assert!(wait(&pace, "a").await >= secs(59));
}

/// All that wait behind a request hear of a long pause as soon as it does.
#[tokio::test(start_paused = true)]
async fn a_long_pause_ends_every_wait_for_a_place() {
    let pace = pace();
    let (first, second) = (pace.enter("a").await.unwrap(), pace.enter("a").await.unwrap());
    let waiting = futures_util::future::join_all((0..6).map(|_| pace.enter("a")));
    let refuse = async {
        first.done(refused_for(600));
        second.done(FINE);
    };
    let (waited, ()) = tokio::join!(waiting, refuse);
    assert!(waited.iter().all(Result::is_err));
}

// S26: bluesky-social/atproto#5443
#[tokio::test(start_paused = true)]
async fn a_refusal_without_a_time_pauses_for_ten_seconds_doubling_to_five_minutes() {
    let pace = pace();
    let mut pauses = Vec::new();
    for _ in 0..7 {
        pace.enter("a").await.unwrap().done(REFUSED);
        let until = pace.lock().known["a"].state.paused_until(Instant::now()).unwrap();
        pauses.push(until.duration_since(Instant::now()).as_secs());
        advance(until.duration_since(Instant::now())).await;
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
    pace.enter("a").await.unwrap().done(FINE);
    pace.enter("a").await.unwrap().done(REFUSED);
    assert!((secs(10)..secs(11)).contains(&wait(&pace, "a").await));
}

#[tokio::test(start_paused = true)]
async fn refusals_of_requests_that_were_under_way_together_count_as_one() {
    let pace = pace();
    let (first, second) = (pace.enter("a").await.unwrap(), pace.enter("a").await.unwrap());
    first.done(REFUSED);
    second.done(REFUSED);
    assert!((secs(10)..secs(11)).contains(&wait(&pace, "a").await));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_an_earlier_request_does_not_end_a_pause() {
    let pace = pace();
    let (first, second) = (pace.enter("a").await.unwrap(), pace.enter("a").await.unwrap());
    first.done(refused_for(30));
    second.done(FINE);
    assert!(wait(&pace, "a").await >= secs(30));
}

#[tokio::test(start_paused = true)]
async fn the_last_requests_of_an_allowance_are_left_to_those_under_way() {
    let pace = pace();
    let left = |requests| Heard::Answer(Allowance::Left { requests, renewed_in: secs(30) });
    pace.enter("a").await.unwrap().done(left(2));
    assert_eq!(wait(&pace, "a").await, Duration::ZERO);
    pace.enter("a").await.unwrap().done(left(1));
    assert!(wait(&pace, "a").await >= secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_is_paused_from_the_third_time_on() {
    let pace = pace();
    for _ in 0..2 {
        pace.enter("a").await.unwrap().done(Heard::Silence);
        assert_eq!(wait(&pace, "a").await, Duration::ZERO);
    }
    pace.enter("a").await.unwrap().done(Heard::Silence);
    assert!(wait(&pace, "a").await >= secs(10));
    pace.enter("a").await.unwrap().done(Heard::Silence);
    assert!(wait(&pace, "a").await >= secs(20));
    pace.enter("a").await.unwrap().done(FINE);
    pace.enter("a").await.unwrap().done(Heard::Silence);
    assert_eq!(wait(&pace, "a").await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_host_has_two_places_and_those_who_wait_take_turns() {
    let pace = pace();
    let (first, _second) = (pace.enter("a").await.unwrap(), pace.enter("a").await.unwrap());
    let mut third = Box::pin(pace.enter("a"));
    let mut fourth = Box::pin(pace.enter("a"));
    assert!((&mut third).now_or_never().is_none() && (&mut fourth).now_or_never().is_none());
    drop(first);
    assert!((&mut fourth).now_or_never().is_none());
    let third = (&mut third).now_or_never().unwrap().unwrap();
    assert!((&mut fourth).now_or_never().is_none());
    drop(third);
    assert!((&mut fourth).now_or_never().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_host_is_forgotten_once_nothing_is_to_be_remembered() {
    let pace = pace();
    pace.enter("fine").await.unwrap().done(FINE);
    let mut given_up = Box::pin(pace.enter("given up"));
    drop((&mut given_up).now_or_never());
    drop(given_up);
    pace.heard("never entered", FINE);
    assert_eq!(pace.lock().known.len(), 0);
    pace.enter("a").await.unwrap().done(REFUSED);
    advance(secs(601)).await;
    pace.enter("a").await.unwrap().done(FINE);
    assert_eq!(pace.lock().known.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_memory_of_hosts_has_a_bound_and_keeps_the_shorter_pauses() {
    let pace = pace();
    for i in 0..HOSTS_MAX + 50 {
        // The first fifty ask to be left alone for longest.
        pace.heard(&format!("host{i}"), refused_for(if i < 50 { 3_600 } else { 300 }));
    }
    assert_eq!(pace.lock().known.len(), HOSTS_MAX);
    assert!(pace.enter("host0").now_or_never().unwrap().is_ok());
    assert!(pace.enter(&format!("host{HOSTS_MAX}")).now_or_never().unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn hosts_whose_pauses_are_over_do_not_pile_up() {
    let pace = pace();
    for round in 0..100 {
        for i in 0..50 {
            pace.heard(&format!("host{i} of {round}"), refused_for(300));
        }
        assert!(pace.lock().known.len() <= 2 * SWEEP_FROM, "{}", pace.lock().known.len());
        advance(secs(301)).await;
    }
}

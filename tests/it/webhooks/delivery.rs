//! Deliveries to a receiver: what is sent, when it is sent again, and that no endpoint delays another.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use leased_actors::clock::Clock;
use leased_actors::lease::{Term, Trust};
use localnet::webhooks::Behaviour;

use super::stage::{SOON, Stage, id};
use crate::store::fixture::Fixture;
use crate::store::on_both;
use crate::support::eventually::eventually;

on_both! {
    a_delivery_carries_its_names_and_both_signatures
    without_a_secret_nothing_is_signed
    a_failed_delivery_is_made_again_with_the_same_id_and_body
    an_endpoint_that_names_a_time_is_left_alone_until_then
    an_answer_that_is_final_is_not_tried_again
    a_redirect_is_not_followed
    an_endpoint_that_never_answers_has_a_deadline_and_is_tried_again
    an_endless_body_is_cut_and_a_flood_of_headers_given_up
    what_was_under_way_at_a_stop_goes_out_again_under_the_same_id
    without_trust_no_request_begins
    an_endpoint_that_is_down_or_hangs_delays_no_other
}

async fn a_delivery_carries_its_names_and_both_signatures(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    stage.webhook(1, "/hook").await;
    stage.deliveries(1, 0..1).await;
    let working = stage.start(stage.worker());
    let received = stage.until_received("/hook", 1).await.remove(0);
    stage.until_status(1, "delivered", 1).await;
    working.stop().await;
    let id = id(1, 0);
    for (name, expected) in [
        ("content-type", "application/json"),
        ("user-agent", "ATCR-Webhook/1"),
        ("x-atcr-event", "push"),
        ("x-atcr-delivery", id.as_str()),
        ("idempotency-key", id.as_str()),
        ("webhook-id", id.as_str()),
    ] {
        assert_eq!(received.header(name), Some(expected), "{name}");
    }
    let plain = received.header("x-webhook-signature-256").unwrap();
    assert!(plain.starts_with("sha256=") && plain.len() == 7 + 64, "{plain}");
    assert!(received.header("webhook-signature").unwrap().starts_with("v1,"));
    let sent_at: i64 = received.header("webhook-timestamp").unwrap().parse().unwrap();
    assert!((received.time_us / 1_000_000 - sent_at).abs() <= 1);
    assert_eq!(received.json()["push_data"]["digest"], format!("sha256:{:064x}", 0));
}

async fn without_a_secret_nothing_is_signed(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    stage.webhook_to(1, &format!("{}/hook", stage.receiver.url()), None).await;
    stage.deliveries(1, 0..1).await;
    // Chats know their webhooks by the address, secret or not.
    stage.webhook(2, "/api/webhooks/1/token").await;
    stage.deliveries(2, 0..1).await;
    let working = stage.start(stage.worker());
    let plain = stage.until_received("/hook", 1).await.remove(0);
    let discord = stage.until_received("/api/webhooks/1/token", 1).await.remove(0);
    working.stop().await;
    for received in [&plain, &discord] {
        assert_eq!(received.header("webhook-signature"), None);
        assert_eq!(received.header("x-webhook-signature-256"), None);
    }
    assert_eq!(discord.json()["allowed_mentions"], serde_json::json!({ "parse": [] }));
    assert_eq!(discord.json()["embeds"][0]["title"], r"alice.test/hello\:latest pushed");
}

// S41: Vexa-ai/vexa#520, RamaAditya49/titen#32
async fn a_failed_delivery_is_made_again_with_the_same_id_and_body(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    stage.webhook(1, "/hook").await;
    stage.receiver.script("/hook", [Behaviour::Status(500), Behaviour::Down, Behaviour::Status(503)]);
    stage.deliveries(1, 0..1).await;
    let wait = "SELECT CAST((next_attempt_at - asked_at) / 1000000 AS TEXT) AS line FROM webhook_deliveries";
    // Each attempt by another worker: what waits is in the database and nowhere else.
    for (attempt, waits) in [(1, 30..45), (2, 120..150), (3, 480..550)] {
        let before = localnet::ids::now_us();
        let working = stage.start(stage.worker());
        stage.until_received("/hook", attempt).await;
        eventually("the attempt is written", SOON, async || {
            let statuses = stage.statuses(1).await;
            if statuses[0].starts_with(&format!("pending {attempt} ")) { Ok(()) } else { Err(statuses) }
        })
        .await;
        working.stop().await;
        let waited = stage.fixture.lines(wait).await[0].parse::<i64>().unwrap();
        let since_asked = (before - created(&stage).await) / 1_000_000;
        assert!(waits.contains(&(waited - since_asked)), "after attempt {attempt}: {waited} - {since_asked}");
        stage.let_it_be_due().await;
    }
    let working = stage.start(stage.worker());
    stage.until_status(1, "delivered", 1).await;
    working.stop().await;
    let received = stage.receiver.received_at("/hook");
    let same: BTreeSet<_> = received.iter().map(|one| (one.id().to_owned(), one.body.clone())).collect();
    assert_eq!((received.len(), same.len()), (4, 1));
}

async fn created(stage: &Stage) -> i64 {
    stage.fixture.lines("SELECT CAST(created_at AS TEXT) AS line FROM webhook_deliveries").await[0]
        .parse()
        .unwrap()
}

async fn an_endpoint_that_names_a_time_is_left_alone_until_then(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    stage.webhook(1, "/hook").await;
    stage.receiver.script("/hook", [Behaviour::RetryAfter(429, 3)]);
    stage.deliveries(1, 0..2).await;
    let working = stage.start(stage.worker());
    stage.until_status(1, "delivered", 2).await;
    working.stop().await;
    let received = stage.receiver.received_at("/hook");
    assert_eq!(received.len(), 3);
    // Neither the delivery that was refused nor the one behind it.
    let waited = received[1].at - received[0].at;
    assert!((Duration::from_secs(3)..Duration::from_secs(20)).contains(&waited), "{waited:?}");
}

async fn an_answer_that_is_final_is_not_tried_again(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    stage.webhook(1, "/hook").await;
    stage.receiver.behave("/hook", Behaviour::Status(410));
    stage.deliveries(1, 0..1).await;
    let working = stage.start(stage.worker());
    stage.until_status(1, "failed", 1).await;
    working.stop().await;
    assert_eq!(stage.statuses(1).await, ["failed 1 answered 410"]);
}

// S40: go-gitea/gitea#4624, gogs#5366, gogs#7031
async fn a_redirect_is_not_followed(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    stage.webhook(1, "/hook").await;
    stage.receiver.behave("/hook", Behaviour::Redirect(format!("{}/secret", stage.receiver.url())));
    stage.deliveries(1, 0..1).await;
    let working = stage.start(stage.worker());
    stage.until_status(1, "failed", 1).await;
    working.stop().await;
    assert_eq!(stage.receiver.requests("/secret"), 0);
    assert_eq!(stage.statuses(1).await, ["failed 1 answered 302: redirects are not followed"]);
}

// S41: Vexa-ai/vexa#520, RamaAditya49/titen#32
async fn an_endpoint_that_never_answers_has_a_deadline_and_is_tried_again(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    for (webhook, path, behaviour) in [(1, "/never", Behaviour::Never), (2, "/drip", Behaviour::Drip)] {
        stage.webhook(webhook, path).await;
        stage.receiver.behave(path, behaviour);
        stage.deliveries(webhook, 0..1).await;
    }
    let working = stage.start(stage.worker_with(|guard| guard.timeout = Duration::from_millis(500)));
    for webhook in [1, 2] {
        eventually("it is to be tried again", SOON, async || {
            let statuses = stage.statuses(webhook).await;
            let expected = "pending 1 127.0.0.1 did not answer within 500ms";
            if statuses == [expected] { Ok(()) } else { Err(statuses) }
        })
        .await;
    }
    working.stop().await;
}

async fn an_endless_body_is_cut_and_a_flood_of_headers_given_up(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    for (webhook, path, behaviour) in
        [(1, "/endless", Behaviour::Endless), (2, "/flood", Behaviour::Headers(10_000))]
    {
        stage.webhook(webhook, path).await;
        stage.receiver.behave(path, behaviour);
        stage.deliveries(webhook, 0..1).await;
    }
    let working = stage.start(stage.worker());
    // Its status has come, and 64 KiB of its body.
    stage.until_status(1, "delivered", 1).await;
    eventually("the flood is no answer", SOON, async || {
        let statuses = stage.statuses(2).await;
        if statuses[0].starts_with("pending 1 asking 127.0.0.1 failed") { Ok(()) } else { Err(statuses) }
    })
    .await;
    working.stop().await;
}

async fn what_was_under_way_at_a_stop_goes_out_again_under_the_same_id(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    stage.webhook(1, "/hook").await;
    stage.receiver.script("/hook", [Behaviour::Never]);
    stage.deliveries(1, 0..2).await;
    let working = stage.start(stage.worker());
    stage.until_received("/hook", 1).await;
    let since = Instant::now();
    working.stop().await;
    // S - 250 ms is what a worker has.
    assert!(since.elapsed() < Duration::from_millis(750), "{:?}", since.elapsed());
    assert_eq!(stage.receiver.requests("/hook"), 1, "none begins after a stop");
    assert_eq!(stage.statuses(1).await, ["pending 0 ", "pending 0 "]);
    let working = stage.start(stage.worker());
    stage.until_status(1, "delivered", 2).await;
    working.stop().await;
    let ids: Vec<_> = stage.receiver.received_at("/hook").iter().map(|one| one.id().to_owned()).collect();
    assert_eq!(ids, [id(1, 0), id(1, 0), id(1, 1)]);
}

async fn without_trust_no_request_begins(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    stage.webhook(1, "/hook").await;
    stage.receiver.behave("/hook", Behaviour::Slow(1_000));
    stage.deliveries(1, 0..5).await;
    let (clock, trusted_for) = (Clock::boottime(), Duration::from_secs(3));
    let trust = Trust::none(clock.clone());
    let term = Term::new(stage.term.id().clone(), trust.clone());
    let working = stage.start_under(stage.worker(), term.clone());
    // A look, and the pause before the next.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(stage.receiver.requests("/hook"), 0, "no trust, no look");
    let until = Instant::now() + trusted_for;
    trust.extend(clock.now() + trusted_for);
    eventually("the trust is over", SOON, async || if term.is_trusted() { Err(()) } else { Ok(()) }).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let received = stage.receiver.received_at("/hook");
    assert!((1..=4).contains(&received.len()), "{}", received.len());
    // A request whose trust ends between the look at it and its arrival has some milliseconds for its way.
    let late = Duration::from_millis(200);
    assert!(received.iter().all(|one| one.at.into_std() < until + late));
    working.stop().await;
}

// S38: distribution/distribution#2422, #324
async fn an_endpoint_that_is_down_or_hangs_delays_no_other(fixture: Fixture) {
    const EVENTS: u32 = 10_000;
    let stage = Stage::new(fixture).await;
    for (webhook, path, behaviour) in [
        (1, "/down", Behaviour::Down),
        (2, "/never", Behaviour::Never),
        (3, "/limited", Behaviour::RetryAfter(429, 3_600)),
        (4, "/fine", Behaviour::Fine),
    ] {
        stage.webhook(webhook, path).await;
        stage.receiver.behave(path, behaviour);
    }
    // The others' are due before those of the one that is well.
    for webhook in 1..=3 {
        stage.deliveries(webhook, 0..EVENTS).await;
    }
    stage.deliveries(4, 0..100).await;
    let since = Instant::now();
    let working = stage.start(stage.worker());
    stage.until_status(4, "delivered", 100).await;
    let took = since.elapsed();
    working.stop().await;
    let requests = |path| stage.receiver.requests(path);
    println!(
        "100 delivered in {took:?}; requests: {:?}",
        ["/down", "/never", "/limited", "/fine"].map(requests)
    );
    assert_eq!(requests("/fine"), 100);
    assert!(took < Duration::from_secs(9), "{took:?}: a request that hangs takes ten seconds");
    // One at a time, and the longer it fails the fewer.
    assert!(requests("/down") <= 6 && requests("/never") == 1 && requests("/limited") == 1);
    assert_eq!(stage.receiver.most_at_once("/fine"), 1);
}

/// What the database refuses is kept, and written when it is well again: the endpoint hears of it once.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_could_not_be_written_is_written_later() {
    let stage = Stage::new(Fixture::sqlite().await).await;
    stage.webhook(1, "/hook").await;
    stage.deliveries(1, 0..20).await;
    let refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON webhook_deliveries WHEN NEW.status = 'delivered'
                  BEGIN SELECT RAISE(ABORT, 'not now'); END";
    stage.fixture.execute(refuse).await;
    let working = stage.start(stage.worker());
    // No more than may wait.
    stage.until_received("/hook", 8).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(stage.receiver.requests("/hook"), 8);
    stage.fixture.execute("DROP TRIGGER refuse").await;
    stage.until_status(1, "delivered", 20).await;
    working.stop().await;
    let ids: BTreeSet<_> =
        stage.receiver.received_at("/hook").iter().map(|one| one.id().to_owned()).collect();
    assert_eq!((ids.len(), stage.receiver.requests("/hook")), (20, 20));
}

//! The worker in processes of its own: one of two follows the labeler, and takes over from the other, however that one ends.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::{
    eventually::eventually,
    place::{Kind, on_both_databases},
    process::{Exit, Instance},
    stage::{PATIENCE, Stage, until_ready},
};

const TAKEDOWN: &str = "!takedown";

on_both_databases!(
    what_is_hidden_is_what_the_labeler_says_through_every_take_over,
    without_a_labeler_no_lease_is_taken,
);

async fn stage(kind: Kind) -> Stage {
    let stage = Stage::new(kind).await.quick().with("ATCR__JETSTREAM__ENABLED", "false");
    let did = stage.net.labeler().did();
    stage.with("ATCR__LABELER__DID", &did)
}

async fn is_settled(stage: &Stage) {
    eventually("what is hidden is what the labeler says", PATIENCE, async || {
        let lines = stage.place.lines("SELECT DISTINCT uri AS line FROM taken_down ORDER BY 1").await;
        let said = stage.net.labeler().taken_down();
        if lines == said { Ok(()) } else { Err((lines.len(), said.len())) }
    })
    .await;
}

/// Says and takes back this and that of a dozen subjects.
fn says(stage: &Stage, round: u64) {
    for n in 0..24 {
        let uri = format!("did:plc:user{}", (n * 7 + round) % 12);
        if (n + round).is_multiple_of(3) {
            stage.net.labeler().negate(&uri, TAKEDOWN)
        } else {
            stage.net.labeler().say(&uri, TAKEDOWN)
        };
    }
}

// S35: bluesky-social/atproto#2552
async fn what_is_hidden_is_what_the_labeler_says_through_every_take_over(kind: Kind) {
    let stage = stage(kind).await;
    let labeler = stage.net.labeler();
    let mut instances: Vec<Instance> = vec![stage.start("first")];
    assert!(labeler.subscribed(1, PATIENCE).await);
    says(&stage, 0);
    is_settled(&stage).await;
    for (round, signal) in [(1, Signal::KILL), (2, Signal::TERM), (3, Signal::KILL)] {
        instances.push(stage.start("next"));
        until_ready(&instances[1]);
        assert_eq!(labeler.stats().subscribers, 1, "one of the two follows it");
        says(&stage, round * 10);
        let mut old = instances.remove(0);
        old.signal(signal);
        says(&stage, round * 10 + 1);
        let expected = if signal == Signal::TERM { Exit::Code(0) } else { Exit::Signal(9) };
        assert_eq!(old.wait_exit(Duration::from_secs(60)), expected);
        says(&stage, round * 10 + 2);
        is_settled(&stage).await;
    }
    let cursors = labeler.stats().cursors;
    assert!(cursors[1..].iter().all(|cursor| cursor != "0"), "nobody began anew: {cursors:?}");
    let epochs = stage.place.lines("SELECT CAST(COUNT(*) AS TEXT) AS line FROM lease_event WHERE name = 'labeler' AND what = 'acquired'").await;
    assert_eq!(epochs, ["4"]);
}

async fn without_a_labeler_no_lease_is_taken(kind: Kind) {
    let stage = Stage::new(kind).await.with("ATCR__LABELER__DID", "");
    let instance = stage.start("first");
    stage.worker(&[&instance]);
    let leases = stage.leases();
    assert!(leases.iter().all(|lease| lease["name"] != "labeler"), "{leases:?}");
    assert_eq!(stage.net.labeler().stats().cursors, [""; 0]);
}

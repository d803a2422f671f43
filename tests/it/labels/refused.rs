//! No stream at the address: a wrong path, a proxy that does not pass the upgrade on, a document that names none.

use std::time::Duration;

use localnet::labeler::LabelerDoor;

use super::stage::{CONNECTS, SOON, Stage, on_both};
use crate::support::{eventually::eventually, place::Kind};

on_both! {
    a_page_instead_of_a_stream_is_asked_for_slowly,
    a_labeler_that_does_not_exist_is_looked_for_slowly,
}

// S34: aliceisjustplaying/labeler-starter-kit-bsky#1
async fn a_page_instead_of_a_stream_is_asked_for_slowly(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    for door in [LabelerDoor::Html(200), LabelerDoor::Status(404)] {
        stage.labeler.set_door(door);
        let before = stage.labeler.stats().turned_away;
        let since = std::time::Instant::now();
        stage.start().await;
        eventually("it was turned away four times", SOON, async || {
            let times = stage.labeler.stats().turned_away - before;
            if times >= 4 { Ok(()) } else { Err(times) }
        })
        .await;
        // Half of 400, 800 and 1600 ms at least; the quick waits would be done in a fifth of a second.
        assert!(since.elapsed() >= Duration::from_millis(1400), "{:?}", since.elapsed());
        stage.labeler.set_door(LabelerDoor::Open);
        assert!(stage.labeler.subscribed(1, SOON).await, "it is found once it is there");
        stage.stop().await;
        assert!(stage.labeler.subscribed(0, SOON).await);
    }
    assert!(stage.metric(CONNECTS, &[("outcome", "no_stream")]) >= 8.0);
}

// S34: bluesky-social/ozone#270
async fn a_labeler_that_does_not_exist_is_looked_for_slowly(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    let nobody = "did:web:localhost%3A1".parse().unwrap();
    stage.config.labeler = atcr_workers::labels::Named::Did(nobody);
    stage.start().await;
    // It neither fails nor ends: the other workers of the instance have nothing of it.
    assert!(stage.labeler.subscribed(0, SOON).await);
    stage.stop().await;
    assert_eq!(stage.labeler.stats().documents, 0);
}

//! What the stream leaves out is found in the labeler's list; positions that the labeler does not know, or not any more.

use std::time::Duration;

use localnet::labeler::LabelerMode;

use super::stage::{DISCONNECTS, MISSED, SOON, Stage, on_both};
use crate::support::place::Kind;

const TAKEDOWN: &str = "!takedown";
const ALICE: &str = "did:plc:alice";
const BOB: &str = "did:plc:bob";
const ALARM: &str = "atcr_labeler_cursor_refused";

on_both! {
    what_a_silent_stream_withholds_is_found_in_the_list,
    what_a_stream_lost_is_found_in_the_list,
    without_a_list_the_stream_is_looked_at_anew,
    an_outdated_position_makes_the_whole_list_be_read,
    a_position_of_the_future_is_an_alarm_and_given_up_after_five_refusals,
    a_list_of_many_pages_is_read_to_its_end,
}

// S33: bluesky-social/ozone#107
async fn what_a_silent_stream_withholds_is_found_in_the_list(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    stage.config.check_every = Duration::from_millis(300);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.start_and_subscribe().await;
    stage.hides(&[ALICE]).await;
    stage.labeler.set_mode(LabelerMode::Silent);
    stage.labeler.negate(ALICE, TAKEDOWN);
    stage.labeler.say(BOB, TAKEDOWN);
    stage.hides(&[BOB]).await;
    stage.counts(MISSED, &[], 2.0).await;
    stage.counts(DISCONNECTS, &[("reason", "incomplete")], 1.0).await;
    // And the stream goes on from where it was.
    stage.labeler.set_mode(LabelerMode::Normal);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.hides_what_the_labeler_says().await;
    stage.stop().await;
}

// S33: bluesky-social/ozone#107
async fn what_a_stream_lost_is_found_in_the_list(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    stage.config.check_every = Duration::from_millis(300);
    stage.start_and_subscribe().await;
    stage.labeler.set_mode(LabelerMode::Lossy);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.labeler.set_mode(LabelerMode::Normal);
    stage.labeler.say(BOB, TAKEDOWN);
    stage.hides(&[ALICE, BOB]).await;
    stage.counts(MISSED, &[], 1.0).await;
    stage.stop().await;
}

// S33: bluesky-social/ozone#107
async fn without_a_list_the_stream_is_looked_at_anew(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    stage.config.check_every = Duration::from_millis(300);
    stage.labeler.set_list(false);
    stage.start_and_subscribe().await;
    stage.labeler.set_mode(LabelerMode::Lossy);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.hides(&[ALICE]).await;
    assert!(stage.metric("atcr_labeler_checks_total", &[("outcome", "failed")]) >= 1.0);
    stage.stop().await;
}

async fn an_outdated_position_makes_the_whole_list_be_read(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.labeler.say(BOB, TAKEDOWN);
    stage.labeler.forget(1);
    // No reading of its own accord.
    stage.start_and_subscribe().await;
    stage.hides(&[ALICE, BOB]).await;
    assert!(stage.labeler.stats().lists >= 1);
    stage.stop().await;
}

// S28: bluesky-social/pds#341
async fn a_position_of_the_future_is_an_alarm_and_given_up_after_five_refusals(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    for n in 0..10 {
        stage.labeler.say(&format!("did:plc:user{n}"), TAKEDOWN);
    }
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.labeler.negate(ALICE, TAKEDOWN);
    stage.heard_all().await;
    let connected = stage.labeler.stats().cursors.len();
    // The first ten are lost, and it counts anew from there.
    stage.labeler.reset_sequencer(10);
    stage.counts(ALARM, &[], 1.0).await;
    stage.labeler.say(BOB, TAKEDOWN);
    // The order of one moment's labels holds over the restart: the negation came last, then and now.
    stage.counts("atcr_labeler_restarts_total", &[], 1.0).await;
    stage.heard_all().await;
    let cursors = stage.labeler.stats().cursors.split_off(connected);
    let refused = cursors.iter().filter(|cursor| *cursor == "12").count();
    assert!(refused >= 5 && cursors.last().map(String::as_str) == Some("0"), "{cursors:?}");
    assert_eq!(stage.metric(ALARM, &[]), 0.0);
    let hidden = stage.hidden().await;
    assert!(hidden.contains(&BOB.to_owned()) && !hidden.contains(&ALICE.to_owned()), "{hidden:?}");
    assert_eq!(hidden.len(), 11, "what the labeler lost stays as it was said");
    stage.stop().await;
}

async fn a_list_of_many_pages_is_read_to_its_end(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    stage.config.check_every = Duration::from_millis(300);
    stage.labeler.set_mode(LabelerMode::Silent);
    (0..600).for_each(|n| _ = stage.labeler.say(&format!("did:plc:user{n}"), TAKEDOWN));
    stage.start_and_subscribe().await;
    stage.counts(MISSED, &[], 600.0).await;
    assert_eq!(stage.hidden().await.len(), 600);
    let lists = stage.labeler.stats().lists;
    assert!(stage.labeler.subscribed(1, SOON).await);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.counts(MISSED, &[], 601.0).await;
    // Each reading goes on from the last one: one page with what is new, one without.
    assert!(stage.labeler.stats().lists - lists < 12, "{lists} {:?}", stage.labeler.stats());
    stage.stop().await;
}

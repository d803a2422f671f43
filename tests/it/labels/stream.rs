//! What comes by the stream: labels, negations, ends, repetitions; and messages that are none.

use localnet::labeler::Label;

use super::stage::{CONNECTS, DISCONNECTS, NEVER, SOON, Stage, in_seconds, on_both};
use crate::support::{eventually::eventually, place::Kind};

const TAKEDOWN: &str = "!takedown";
const ALICE: &str = "did:plc:alice";
const BOB: &str = "did:plc:bob";

on_both! {
    a_takedown_hides_and_a_negation_restores_at_once,
    a_label_ends_at_its_time_without_another_word,
    a_label_that_is_said_again_counts_again,
    a_replay_of_everything_changes_nothing,
    a_late_older_label_does_not_win,
    of_two_labels_of_one_moment_the_later_in_the_stream_counts,
    what_was_said_before_the_first_start_is_heard,
    values_other_than_takedown_are_kept_without_effect,
    unknown_kinds_of_messages_are_skipped,
    bad_framing_ends_the_connection_and_loses_nothing,
    an_error_frame_ends_the_connection_and_loses_nothing,
    a_worker_that_comes_after_goes_on_from_the_position,
    a_labeler_by_its_address_is_found,
    another_labeler_takes_the_place_of_the_first,
    more_labels_at_once_than_a_batch_has_are_all_kept,
}

async fn a_takedown_hides_and_a_negation_restores_at_once(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.labeler.say(BOB, TAKEDOWN);
    stage.hides(&[ALICE, BOB]).await;
    stage.labeler.negate(ALICE, TAKEDOWN);
    stage.hides(&[BOB]).await;
    stage.hides_what_the_labeler_says().await;
    stage.stop().await;
}

async fn a_label_ends_at_its_time_without_another_word(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say_label(Label::of(ALICE, TAKEDOWN).until(in_seconds(15)));
    stage.labeler.say_label(Label::of(BOB, TAKEDOWN).until(in_seconds(-1)));
    stage.hides(&[ALICE]).await;
    stage.stop().await;
    // Nobody is at work any more: the view alone ends it.
    stage.hides(&[]).await;
    assert!(localnet::ids::now_us() >= in_seconds(0));
}

async fn a_label_that_is_said_again_counts_again(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.labeler.negate(ALICE, TAKEDOWN);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.hides(&[ALICE]).await;
    stage.labeler.negate(ALICE, TAKEDOWN);
    stage.hides_what_the_labeler_says().await;
    assert_eq!(stage.kept().await, "1");
    stage.stop().await;
}

async fn a_replay_of_everything_changes_nothing(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    for n in 0..40 {
        let uri = format!("did:plc:user{}", n % 10);
        if n % 3 == 0 {
            stage.labeler.negate(&uri, TAKEDOWN)
        } else {
            stage.labeler.say(&uri, TAKEDOWN)
        };
    }
    stage.hides_what_the_labeler_says().await;
    stage.stop().await;
    let all = "SELECT uri || ' ' || CAST(cts AS TEXT) || ' ' || CAST(changed_at AS TEXT) AS line FROM labels
               ORDER BY uri";
    let before = stage.place.lines(all).await;
    stage.place.execute("UPDATE labeler_cursor SET seq = 0").await;
    stage.start_and_subscribe().await;
    stage.hides_what_the_labeler_says().await;
    assert_eq!(stage.place.lines(all).await, before);
    stage.stop().await;
}

async fn a_late_older_label_does_not_win(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.negate(ALICE, TAKEDOWN);
    stage.labeler.say_label(Label::of(ALICE, TAKEDOWN).at(in_seconds(-60)));
    stage.labeler.say(BOB, TAKEDOWN);
    stage.hides(&[BOB]).await;
    stage.stop().await;
}

async fn of_two_labels_of_one_moment_the_later_in_the_stream_counts(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    let (at, negated) = (in_seconds(-5), |uri| Label { neg: Some(true), ..Label::of(uri, TAKEDOWN) });
    stage.labeler.say_label(Label::of(ALICE, TAKEDOWN).at(at));
    stage.labeler.say_label(negated(BOB).at(at));
    stage.heard_all().await;
    stage.labeler.say_label(negated(ALICE).at(at));
    stage.labeler.say_label(Label::of(BOB, TAKEDOWN).at(at));
    stage.heard_all().await;
    stage.hides(&[BOB]).await;
    stage.stop().await;
}

async fn what_was_said_before_the_first_start_is_heard(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.start_and_subscribe().await;
    stage.hides(&[ALICE]).await;
    assert_eq!(stage.labeler.stats().cursors, ["0"]);
    stage.stop().await;
}

async fn values_other_than_takedown_are_kept_without_effect(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    for val in ["!hide", "spam", "takedown", "!takedown2"] {
        stage.labeler.say(ALICE, val);
    }
    stage.labeler.say("https://example.com/page", TAKEDOWN);
    stage.heard_all().await;
    assert_eq!((stage.kept().await.as_str(), stage.hidden().await.len()), ("5", 0));
    stage.stop().await;
}

async fn unknown_kinds_of_messages_are_skipped(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.send_message("#tomorrow", "name", "x");
    stage.labeler.send_message("#info", "name", "Anything");
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.hides(&[ALICE]).await;
    assert_eq!(stage.metric(CONNECTS, &[("outcome", "connected")]), 1.0);
    assert_eq!(stage.metric("atcr_labeler_skipped_total", &[("reason", "unknown_kind")]), 1.0);
    stage.stop().await;
}

async fn bad_framing_ends_the_connection_and_loses_nothing(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    for (n, bytes) in [&b"\xff\xff"[..], b"<html>", b"\xa1\x62op\x01"].into_iter().enumerate() {
        stage.labeler.send_bytes(bytes.to_vec());
        stage.labeler.say(&format!("did:plc:user{n}"), TAKEDOWN);
        stage.counts(DISCONNECTS, &[("reason", "bad_message")], (n + 1) as f64).await;
        assert!(stage.labeler.subscribed(1, SOON).await);
        stage.hides_what_the_labeler_says().await;
    }
    assert_eq!(stage.hidden().await.len(), 4);
    stage.stop().await;
}

async fn an_error_frame_ends_the_connection_and_loses_nothing(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.labeler.send_error("ConsumerTooSlow");
    stage.counts(DISCONNECTS, &[("reason", "error_frame")], 1.0).await;
    stage.labeler.cut();
    stage.labeler.say(BOB, TAKEDOWN);
    stage.hides(&[ALICE, BOB]).await;
    stage.stop().await;
}

async fn a_worker_that_comes_after_goes_on_from_the_position(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.heard_all().await;
    stage.stop().await;
    stage.labeler.negate(ALICE, TAKEDOWN);
    stage.labeler.say(BOB, TAKEDOWN);
    stage.start_and_subscribe().await;
    stage.hides(&[BOB]).await;
    assert_eq!(stage.labeler.stats().cursors, ["0", "1"]);
    stage.stop().await;
}

async fn a_labeler_by_its_address_is_found(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    stage.config.labeler = atcr_workers::labels::Named::Url(stage.labeler.url());
    stage.start_and_subscribe().await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.hides(&[ALICE]).await;
    stage.stop().await;
}

async fn another_labeler_takes_the_place_of_the_first(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.hides(&[ALICE]).await;
    stage.stop().await;
    let other = localnet::Labeler::start(0).await.unwrap();
    other.say(BOB, TAKEDOWN);
    let first = std::mem::replace(
        &mut stage.config.labeler,
        atcr_workers::labels::Named::Did(other.did().parse().unwrap()),
    );
    stage.start().await;
    stage.hides(&[BOB]).await;
    stage.stop().await;
    // And back: what the first said is still known.
    stage.config.labeler = first;
    stage.start_and_subscribe().await;
    stage.hides(&[ALICE]).await;
    stage.stop().await;
}

async fn more_labels_at_once_than_a_batch_has_are_all_kept(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    (0..1_100).for_each(|n| _ = stage.labeler.say(&format!("did:plc:user{n}"), TAKEDOWN));
    stage.start().await;
    eventually("all are hidden", SOON, async || match stage.hidden().await.len() {
        1_100 => Ok(()),
        fewer => Err(fewer),
    })
    .await;
    assert_eq!(stage.config.check_every, NEVER, "the stream alone");
    stage.stop().await;
}

//! Whose word counts: signatures, sources, keys.

use std::time::Duration;

use localnet::labeler::{Flaw, Label};

use super::stage::{LABELS, Stage, on_both};
use crate::support::place::Kind;

const TAKEDOWN: &str = "!takedown";
const ALICE: &str = "did:plc:alice";
const BOB: &str = "did:plc:bob";

on_both! {
    bad_unsigned_and_foreign_labels_have_no_effect,
    twenty_six_bad_labels_cost_one_look_at_the_document,
    a_negation_that_is_not_signed_ends_nothing,
    a_new_key_is_learnt_from_the_first_label_that_it_signs,
    a_key_that_is_published_late_is_learnt_later,
    what_a_key_signed_stays_when_it_goes,
    what_another_key_makes_good_counts_after_a_take_over,
    the_accounts_own_key_signs_no_label,
    without_verification_every_label_of_the_labeler_counts,
    verification_that_is_switched_on_is_caught_up_with,
}

// S36: hipstersmoothie/standard-reader#92
async fn bad_unsigned_and_foreign_labels_have_no_effect(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    for (n, flaw) in [Flaw::Signature, Flaw::HighS, Flaw::Unsigned, Flaw::Source].into_iter().enumerate() {
        stage.labeler.say_badly(Label::of(&format!("did:plc:user{n}"), TAKEDOWN), flaw);
    }
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.hides(&[ALICE]).await;
    stage.heard_all().await;
    for (result, count) in [("bad_signature", 2.0), ("unsigned", 1.0), ("foreign", 1.0), ("good", 1.0)] {
        assert_eq!(stage.metric(LABELS, &[("result", result)]), count, "{result}");
    }
    assert_eq!(stage.kept().await, "4", "of another source nothing is kept");
    stage.stop().await;
}

// S36: hipstersmoothie/standard-reader#92
async fn twenty_six_bad_labels_cost_one_look_at_the_document(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    let before = stage.labeler.stats().documents;
    for n in 0..26 {
        stage.labeler.say_badly(Label::of(&format!("did:plc:user{n}"), TAKEDOWN), Flaw::Signature);
    }
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.hides(&[ALICE]).await;
    stage.heard_all().await;
    assert_eq!(stage.metric(LABELS, &[("result", "bad_signature")]), 26.0);
    assert_eq!(stage.labeler.stats().documents - before, 1);
    stage.stop().await;
}

async fn a_negation_that_is_not_signed_ends_nothing(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    for flaw in [Flaw::Unsigned, Flaw::Signature, Flaw::Source] {
        stage.labeler.say_badly(Label { neg: Some(true), ..Label::of(ALICE, TAKEDOWN) }, flaw);
    }
    stage.labeler.say_badly(Label::of(BOB, TAKEDOWN), Flaw::Unsigned);
    stage.heard_all().await;
    assert_eq!(stage.hidden().await, [ALICE]);
    // A good one counts although worse ones are newer.
    let older = localnet::ids::now_us() - 60_000_000;
    stage.labeler.say_label(Label::of(BOB, TAKEDOWN).at(older));
    stage.hides(&[ALICE, BOB]).await;
    stage.stop().await;
}

// S37: bluesky-social/atproto-website#669
async fn a_new_key_is_learnt_from_the_first_label_that_it_signs(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.heard_all().await;
    stage.labeler.rotate_key(2, true);
    stage.labeler.say(BOB, TAKEDOWN);
    stage.hides(&[ALICE, BOB]).await;
    stage.labeler.negate(ALICE, TAKEDOWN);
    stage.hides(&[BOB]).await;
    stage.stop().await;
}

// S37: bluesky-social/atproto-website#669
async fn a_key_that_is_published_late_is_learnt_later(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    (stage.config.ask_every, stage.config.check_every) =
        (Duration::from_millis(300), Duration::from_millis(300));
    stage.start_and_subscribe().await;
    // The list would make good what the stream has to.
    stage.labeler.set_list(false);
    stage.labeler.rotate_key(2, false);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.counts(LABELS, &[("result", "bad_signature")], 1.0).await;
    stage.heard_all().await;
    assert_eq!(stage.hidden().await, [""; 0]);
    stage.labeler.publish_key();
    // Nothing more is said: what was not good is heard again.
    stage.hides(&[ALICE]).await;
    stage.stop().await;
}

// S37: bluesky-social/atproto-website#669
async fn what_a_key_signed_stays_when_it_goes(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.hides(&[ALICE]).await;
    stage.stop().await;
    stage.labeler.rotate_key(2, true);
    // The labels of the old key come again, and are not good any more: they were when they came.
    stage.place.execute("UPDATE labeler_cursor SET seq = 0").await;
    stage.start_and_subscribe().await;
    stage.labeler.say(BOB, TAKEDOWN);
    stage.hides(&[ALICE, BOB]).await;
    stage.stop().await;
}

// S37: bluesky-social/atproto-website#669
async fn what_another_key_makes_good_counts_after_a_take_over(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.rotate_key(2, false);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.counts(LABELS, &[("result", "bad_signature")], 1.0).await;
    stage.heard_all().await;
    stage.stop().await;
    stage.labeler.publish_key();
    stage.start_and_subscribe().await;
    stage.hides(&[ALICE]).await;
    assert_eq!(stage.labeler.stats().cursors.last().map(String::as_str), Some("0"), "heard again");
    stage.stop().await;
}

async fn the_accounts_own_key_signs_no_label(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    // The key of `#atproto` in the labeler's document.
    stage.labeler.rotate_key(99, false);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.counts(LABELS, &[("result", "bad_signature")], 1.0).await;
    stage.heard_all().await;
    assert_eq!(stage.hidden().await, [""; 0]);
    stage.stop().await;
}

async fn without_verification_every_label_of_the_labeler_counts(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    stage.config.verify = false;
    stage.start_and_subscribe().await;
    stage.labeler.say_badly(Label::of(ALICE, TAKEDOWN), Flaw::Unsigned);
    stage.labeler.say_badly(Label::of(BOB, TAKEDOWN), Flaw::Source);
    stage.hides(&[ALICE]).await;
    stage.labeler.say_badly(Label { neg: Some(true), ..Label::of(ALICE, TAKEDOWN) }, Flaw::Signature);
    stage.hides(&[]).await;
    stage.stop().await;
}

async fn verification_that_is_switched_on_is_caught_up_with(kind: Kind) {
    let mut stage = Stage::on(kind).await;
    stage.config.verify = false;
    stage.start_and_subscribe().await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.labeler.say_badly(Label::of(BOB, TAKEDOWN), Flaw::Unsigned);
    stage.hides(&[ALICE, BOB]).await;
    stage.stop().await;
    stage.config.verify = true;
    stage.start_and_subscribe().await;
    stage.hides(&[ALICE]).await;
    stage.stop().await;
}

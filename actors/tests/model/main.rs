//! Every state that three instances of the very state machine that the supervisor runs can come to within a few ticks
//! and faults, over an abstract store: partitions, pauses, crashes, lost sessions and answers, a store that restarts.
//! Not in it: workers that fail or do not stop, more than one lease, timers within a tick, lost news, operators' wishes.
//! `simulation` walks far and at random; this walks everywhere, nearby. Then each guard is taken away, and must be missed.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod explore;
mod node;
mod print;
mod rules;
mod store;
mod turn;
mod world;

use std::time::{Duration, Instant};

use leased_actors::lease::Effects;
use leased_actors::lease::timing::Timing;
use rules::Fault::{self, *};
use rules::{Broken, Rules, SAFE, all_faults};

const RULES: Rules = Rules {
    effects: Effects::External,
    timing: SAFE,
    broken: Broken::None,
    faults_max: 2,
    // TTL + G, twice.
    ticks_max: 14,
    faults: all_faults,
    only_overlap: false,
};

fn hold(what: &str, rules: &Rules, holder: usize) {
    let began = Instant::now();
    let seen = explore::explore(rules, holder);
    println!("{what}: {} states, {} steps deep, {:?}", seen.states, seen.steps, began.elapsed());
    assert_eq!(seen.violation, None, "{what}");
}

fn assert_overlaps(what: &str, rules: Rules) {
    assert_breaks("I2", what, rules);
}

fn assert_breaks(invariant: &str, what: &str, rules: Rules) {
    let began = Instant::now();
    let seen = explore::explore(&Rules { only_overlap: true, ..rules }, 0);
    println!("{what}: {} states, {:?}, {:?}", seen.states, began.elapsed(), seen.violation);
    let (violation, _) = seen.violation.unwrap_or_else(|| panic!("{what}: nothing was found"));
    assert_eq!(violation.0, invariant, "{what}");
}

#[test]
fn every_pair_of_faults_leaves_every_invariant_of_an_external_lease() {
    hold("external, pairs", &RULES, 0);
}

#[test]
fn it_makes_no_difference_whose_turn_comes_before_the_holders() {
    for holder in [1, 2] {
        hold("external, single faults", &Rules { faults_max: 1, ..RULES }, holder);
    }
}

#[test]
fn a_fenced_lease_commits_in_the_order_of_its_epochs() {
    let faults: fn(usize) -> Vec<Fault> =
        |n| vec![Crash(n), Kill(n), Drain(n), Shutdown(n), ReplyLost(n), ReplyLate(n), CallLate(n)];
    hold("fenced, pairs", &Rules { effects: Effects::Fenced, faults, ..RULES }, 0);
    hold("fenced, single faults", &Rules { effects: Effects::Fenced, faults_max: 1, ..RULES }, 0);
}

#[test]
fn a_wait_is_owed_through_three_faults() {
    hold("external, owed waits", &Rules { faults_max: 3, faults: owing, ..RULES }, 0);
}

/// The holder loses its session and works on; the next one has the wait, and lets go.
fn owing(node: usize) -> Vec<Fault> {
    match node {
        0 => vec![Kill(0), Cut(0)],
        1 => vec![Drain(1), Kill(1)],
        _ => vec![],
    }
}

#[test]
fn a_grace_below_f_plus_s_overlaps() {
    let timing = Timing { grace: Duration::from_secs(2), ..SAFE };
    assert_overlaps("G = 2", Rules { timing, faults: owing, ..RULES });
}

#[test]
fn a_ttl_below_f_plus_s_overlaps() {
    let timing = Timing { ttl: Duration::from_secs(2), ..SAFE };
    assert_overlaps("TTL = 2", Rules { timing, faults: |n| vec![Cut(n), Pause(n)], ..RULES });
}

#[test]
fn a_wait_that_is_not_carried_overlaps() {
    let broken = Broken::CarriedWait;
    assert_overlaps("wait not carried", Rules { broken, faults_max: 3, faults: owing, ..RULES });
}

#[test]
fn a_claim_that_gives_trust_overlaps() {
    let faults: fn(usize) -> Vec<Fault> = |n| match n {
        0 => vec![Drain(0)],
        1 => vec![ReplyLate(1), Pause(1)],
        _ => vec![],
    };
    assert_overlaps(
        "claim without trust",
        Rules { broken: Broken::ClaimTrusts, faults_max: 3, faults, ..RULES },
    );
}

#[test]
fn a_ttl_by_the_stores_wall_clock_overlaps() {
    let faults: fn(usize) -> Vec<Fault> = |n| if n == 0 { vec![Cut(0), ClockStep(6)] } else { vec![] };
    assert_overlaps("TTL by wall clock", Rules { broken: Broken::WallClockTtl, faults, ..RULES });
}

#[test]
fn a_lost_beacon_that_counts_as_an_expiry_overlaps() {
    let broken = Broken::TtlBeforeBeacon;
    assert_overlaps("TTL before beacon", Rules { broken, faults: owing, ..RULES });
}

#[test]
fn a_release_before_the_confirmed_stop_overlaps() {
    assert_overlaps(
        "release first",
        Rules { broken: Broken::ReleaseFirst, faults: |n| vec![Shutdown(n)], ..RULES },
    );
}

#[test]
fn without_the_fence_an_older_epoch_commits_last() {
    let rules = Rules { effects: Effects::Fenced, broken: Broken::Fence, faults: |n| vec![Kill(n)], ..RULES };
    assert_breaks("I3", "no fence", rules);
}

/// It takes a lost session, a cut, a drain and a step, all within G.
fn owing_while_the_clock_steps(node: usize) -> Vec<Fault> {
    match node {
        0 => vec![Kill(0), Cut(0), ClockStep(6)],
        1 => vec![Drain(1)],
        _ => vec![],
    }
}

#[test]
fn a_carried_wait_survives_a_step_of_the_stores_wall_clock() {
    let faults = owing_while_the_clock_steps;
    hold("clock step and a carried wait", &Rules { faults_max: 4, ticks_max: 10, faults, ..RULES }, 0);
}

#[test]
fn a_carried_wait_by_the_stores_wall_clock_overlaps() {
    let (broken, faults) = (Broken::WallClockWait, owing_while_the_clock_steps);
    assert_overlaps("wait by wall clock", Rules { broken, faults_max: 4, faults, ..RULES });
}

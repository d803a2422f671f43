//! Three instances of the very state machine that the supervisor runs, one store, and a network that delays, cuts and
//! loses; instances that pause, crash, come back and shut down. Simulated time, fixed seeds: a failing seed fails again.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod claims;
mod history;
mod interleavings;
mod node;
mod world;

use std::time::Duration;

use world::{Rules, World};

/// Rounds of each claim; each takes some forty milliseconds.
const SEEDS: u64 = 60;

#[test]
fn two_external_workers_never_act_at_the_same_time() {
    for seed in 0..SEEDS {
        World::new(seed, Rules::default()).run(Duration::from_secs(60));
    }
}

#[test]
fn a_healthy_instance_runs_every_lease_in_the_end() {
    for seed in 1_000..1_000 + SEEDS {
        let mut world = World::new(seed, Rules::default());
        world.run(Duration::from_secs(60));
        world.heal();
        world.run(Duration::from_secs(40));
        world.assert_each_lease_runs_once();
    }
}

#[test]
fn after_an_orderly_shutdown_nothing_is_left_to_expire() {
    for seed in 2_000..2_000 + SEEDS {
        let mut world = World::new(seed, Rules { faults: false, ..Rules::default() });
        world.run(Duration::from_secs(5));
        world.shut_all_down();
        world.run(Duration::from_secs(10));
        world.assert_all_released();
    }
}

/// The checks can fail: with a TTL below F + S, a rival starts beside the old worker.
#[test]
fn a_ttl_that_is_too_short_is_caught_by_these_checks() {
    let rules = Rules { ttl: Duration::from_millis(900), ..Rules::default() };
    let caught = (0..SEEDS).any(|seed| {
        let run = std::panic::AssertUnwindSafe(|| World::new(seed, rules).run(Duration::from_secs(60)));
        std::panic::catch_unwind(run).is_err()
    });
    assert!(caught, "no seed of {SEEDS} found the overlap");
}

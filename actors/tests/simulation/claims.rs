//! What went wrong for others, played over simulated minutes.

use std::time::Duration;

use leased_actors::lease::{Effects, LeaseName};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::world::{Rules, TIMING, World};

/// Nothing happens but what a test does.
const CALM: Rules = Rules {
    ttl: TIMING.ttl,
    nodes: 3,
    leases: one,
    faults: false,
    dawdling: false,
    news: true,
    renewals_lost: None,
};

fn one() -> Vec<(LeaseName, Effects)> {
    vec![(work(), Effects::External)]
}

fn work() -> LeaseName {
    "work".parse().unwrap()
}

fn twelve() -> Vec<(LeaseName, Effects)> {
    (b'a'..=b'l').map(|letter| (char::from(letter).to_string().parse().unwrap(), Effects::External)).collect()
}

// L2: kubernetes/kubernetes#67651
#[test]
fn the_terms_of_two_hundred_contenders_that_stall_at_random_are_disjoint() {
    let mut random = StdRng::seed_from_u64(2);
    let mut world = World::new(2, Rules { nodes: 200, dawdling: true, ..CALM });
    for _ in 0..60 {
        world.run(Duration::from_millis(random.random_range(200..1_500)));
        // Half of them shorter than F, half long enough to be declared dead in.
        let span = |random: &mut StdRng| {
            Duration::from_millis(if random.random() {
                random.random_range(50..2_000)
            } else {
                random.random_range(5_500..9_000)
            })
        };
        for _ in 0..3 {
            let node = random.random_range(0..200);
            world.stall(node, span(&mut random));
        }
        let now = world.clock.now();
        let Some(holder) = world.runner(&work()).filter(|at| world.nodes[*at].is_awake(now)) else {
            continue;
        };
        match random.random_range(0..10) {
            0..5 => world.stall(holder, span(&mut random)),
            5..8 => world.shut_down(holder),
            _ => {}
        }
    }
    let terms = world.assert_disjoint(&work());
    assert!(terms >= 5, "too few hand-overs to show anything: {terms}");
}

// L13: cloudamqp/lavinmq#906
#[test]
fn a_standby_that_waited_for_longer_than_the_ttl_wins_and_keeps_the_lease() {
    let mut world = World::new(13, Rules { nodes: 2, ..CALM });
    world.run(TIMING.ttl * 3);
    let first = world.runner(&work()).unwrap();
    world.shut_down(first);
    world.run(TIMING.ttl * 10);
    let [_, won] = world.stints(&work())[..] else { panic!("{:?}", world.history) };
    assert_eq!((won.node, won.to), (1 - first, None), "{:?}", world.history);
}

// L31: ShedLock#151 #606 #344; factcast#2854
#[test]
fn a_worker_that_works_for_ten_times_the_ttl_is_never_joined_by_another() {
    for seed in 0..5 {
        let mut world = World::new(seed, Rules { dawdling: true, ..CALM });
        world.run(TIMING.ttl * 11);
        let [only] = world.stints(&work())[..] else { panic!("seed {seed}: {:?}", world.history) };
        let worked = world.clock.now().since(only.from);
        assert!(only.to.is_none() && worked >= TIMING.ttl * 10, "seed {seed}: {worked:?}");
    }
}

// L34: hashicorp/consul#1162; akka-management#1440; CrunchyData/postgres-operator#1631; azure-webjobs-sdk#2454
#[test]
fn one_lost_renewal_of_four_for_ten_minutes_moves_no_lease() {
    let mut world = World::new(34, Rules { renewals_lost: Some(4), ..CALM });
    world.run(Duration::from_secs(600));
    let [only] = world.stints(&work())[..] else { panic!("{:?}", world.history) };
    let renewals = world.nodes[only.node].renewals;
    assert!(only.to.is_none() && renewals > 700, "{only:?}, {renewals} renewals");
}

// L40: camunda/camunda#7223; libopenstorage/stork#280
#[test]
fn twelve_leases_of_one_instance_are_spread_over_three_within_a_minute_by_one_move_each_at_most() {
    // Whether releases are told to the others or not.
    for (seed, news) in (0..3).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut world = World::new(seed, Rules { leases: twelve, news, ..CALM });
        world.begin_again(1, Duration::from_secs(10));
        world.begin_again(2, Duration::from_secs(10));
        world.run(Duration::from_secs(10));
        assert_eq!(world.nodes[0].workers.len(), 12, "the first had them all");
        world.run(Duration::from_secs(60));
        let loads: Vec<_> = world.nodes.iter().map(|node| node.workers.len()).collect();
        let even = loads.iter().all(|load| (3..=5).contains(load));
        assert!(even && loads.iter().sum::<usize>() == 12, "seed {seed}: {loads:?}");
        for (name, _) in twelve() {
            let terms = world.assert_disjoint(&name);
            assert!(terms <= 2, "seed {seed}: {name} moved {} times", terms - 1);
        }
    }
}

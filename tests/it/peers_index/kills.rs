//! Two processes over one database, one of them killed at a random moment, again and again, while accounts write, take
//! back, fall asleep, wake up and go: the stream, the backfill or both are cut wherever they are.

use std::{collections::BTreeMap, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::process::Signal;

use super::{STOP_WITHIN, tags_of, world::World, writing::Writing};
use crate::support::{
    eventually::eventually,
    index,
    peers::{Peers, Seed},
    place::{Kind, Place, on_both_databases},
    process::{Exit, Instance},
};

on_both_databases!(fifty_kills_leave_what_the_repositories_hold);

const KILLS: usize = 50;
/// From when the victim is chosen, often because it has a lease: from its first batch to a run of the backfill.
const MOMENTS_MS: std::ops::Range<u64> = 0..700;
/// Set to the number that a failed test has printed, it makes the same choices again, though not at the same moments of
/// the other processes.
const SEED: &str = "ATCR_TEST_KILLS_SEED";

async fn fifty_kills_leave_what_the_repositories_hold(kind: Kind) {
    let Some(peers) = Peers::start(Seed::Nothing) else { return };
    let seed = std::env::var(SEED).map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("{kind:?}: {SEED}={seed}");
    let place = Place::fresh(kind).await;
    let mut world = World::new(peers, place.url().to_owned()).with_backfill("1s");
    world.seed();
    for name in ["carol", "dave"] {
        world.create_account(name);
        tags_of(&mut world, name, "first", 0..1);
    }
    let launch = world.launch.clone();
    let mut instances: Vec<Instance> = (0..2).map(|at| launch.start(&format!("start{at}"))).collect();
    // Who is to be deleted must be known before, with its handle: its PDS does not tell it later.
    world.is_settled("the first backfill").await;
    // Without a position the stream starts with what is new: what it did not hear is the backfill's, which cannot read
    // who is asleep, and leaves no tombstone of what it never saw. So it has one before anybody is killed.
    eventually("the stream has a position", STOP_WITHIN, async || {
        tags_of(&mut world, "alice", "begin", 0..1);
        let known = index::read(place.url(), &[index::CURSORS]).await?;
        if known["stream_cursor"].is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;

    let writing = Writing::start(world, seed);
    let mut random = StdRng::seed_from_u64(seed);
    for kill in 0..KILLS {
        let victim = match kill % 3 {
            0 => holder(&place, &instances, "jetstream").await,
            1 => holder(&place, &instances, "backfill").await,
            _ => random.random_range(0..instances.len()),
        };
        // The moment, which is what is random here; nothing is waited for.
        tokio::time::sleep(Duration::from_millis(random.random_range(MOMENTS_MS))).await;
        let victim = &mut instances[victim];
        victim.signal(Signal::KILL);
        assert_eq!(victim.wait_exit(STOP_WITHIN), Exit::Signal(9), "{}", victim.lines().join("\n"));
        *victim = launch.start(&format!("after{kill}"));
    }
    let (world, written) = writing.stop().await;
    launch.backfill_all();
    world.is_settled(&format!("{KILLS} kills ({SEED}={seed})")).await;

    let count = async |select: &str| place.lines(select).await.len();
    let terms = async |lease: &str| {
        count(&format!("SELECT what AS line FROM lease_event WHERE name = '{lease}' AND what = 'acquired'"))
            .await
    };
    let (stream, backfill) = (terms("jetstream").await, terms("backfill").await);
    let runs = count("SELECT reason AS line FROM backfill_run WHERE ended_at > 0 AND NOT given_up").await;
    println!(
        "{kind:?}: {written:?}, {stream} terms of the stream, {backfill} of the backfill, {runs} runs of it"
    );
    assert!(stream > KILLS / 3 && backfill > KILLS / 3, "too few hand-overs to show anything");
    for what in ["put", "delete", "deactivate", "activate", "delete account", "new account", "rename"] {
        assert!(written.contains_key(what), "no {what}: {written:?}");
    }
}

/// Waits until one of these has the lease, and tells which.
async fn holder(place: &Place, instances: &[Instance], lease: &str) -> usize {
    let select = format!(
        "SELECT CAST(pid AS TEXT) AS line FROM lease JOIN lease_instance ON incarnation = holder WHERE name = '{lease}'"
    );
    eventually(&format!("one has the lease {lease}"), STOP_WITHIN, async || {
        let holder = place.lines(&select).await;
        let is_holder = |instance: &Instance| holder.contains(&instance.pid().to_string());
        instances.iter().position(is_holder).ok_or(holder)
    })
    .await
}

/// How often each thing was done.
pub(super) type Written = BTreeMap<&'static str, usize>;

//! What operators say about leases, by the command line, and what two instances make of it.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::place::{Kind, on_both_databases};
use crate::support::process::{Exit, Instance};
use crate::support::stage::{PATIENCE, Stage, until_in, until_standby};

on_both_databases!(
    a_drained_instance_loses_its_lease_and_takes_none_until_it_is_undrained,
    a_lease_moves_to_the_instance_that_is_named,
    a_paused_lease_runs_nowhere_until_it_is_resumed,
    the_history_tells_who_had_the_lease_and_how_it_ended,
    what_cannot_be_done_is_said,
);

/// Two instances, and the one that has the lease first.
async fn pair(kind: Kind) -> (Stage, Vec<Instance>, usize) {
    let stage = Stage::new(kind).await;
    let instances: Vec<Instance> = ["one", "two"].map(|label| stage.start(label)).into();
    let worker = stage.worker(&instances.iter().collect::<Vec<_>>());
    until_standby(&instances[1 - worker]);
    (stage, instances, worker)
}

const LABELS: [&str; 2] = ["one", "two"];

fn done(stage: &Stage, arguments: &[&str]) -> String {
    let (exit, said) = stage.command(arguments);
    assert_eq!(exit, Exit::Code(0), "{arguments:?}: {said}");
    said
}

async fn a_drained_instance_loses_its_lease_and_takes_none_until_it_is_undrained(kind: Kind) {
    let (stage, mut instances, worker) = pair(kind).await;
    let said = done(&stage, &["leases", "drain", LABELS[worker]]);
    assert!(said.contains("takes no leases any more") && said.contains("it has none"), "{said}");
    until_in(&instances[1 - worker], "running");
    // The only other one leaves, and the lease stays free: until the drained one may take it.
    let mut other = instances.remove(1 - worker);
    other.signal(Signal::TERM);
    assert_eq!(other.wait_exit(PATIENCE), Exit::Code(0));
    until_standby(&instances[0]);
    assert_eq!(stage.leases()[0]["state"], "free");
    done(&stage, &["leases", "undrain", LABELS[worker]]);
    until_in(&instances[0], "running");
}

async fn a_lease_moves_to_the_instance_that_is_named(kind: Kind) {
    let (stage, instances, worker) = pair(kind).await;
    for to in [1 - worker, worker, worker] {
        let said = done(&stage, &["leases", "move", "jetstream", LABELS[to]]);
        assert!(said.contains(&format!("jetstream is at {}", LABELS[to])), "{said}");
        until_in(&instances[to], "running");
        until_standby(&instances[1 - to]);
    }
    assert_eq!(stage.leases()[0]["desired"], Value::Null, "the wish outlived its fulfilment");
    assert_eq!(instances[worker].metric("lease_acquisitions_total", &[]), Some(2.0));
}

async fn a_paused_lease_runs_nowhere_until_it_is_resumed(kind: Kind) {
    let (stage, instances, _) = pair(kind).await;
    done(&stage, &["leases", "pause", "jetstream"]);
    instances.iter().for_each(until_standby);
    let [lease] = &stage.leases()[..] else { panic!("one lease") };
    assert_eq!((lease["state"].as_str(), lease["paused"].as_bool()), (Some("paused"), Some(true)));
    stage.changes(1, 5);
    done(&stage, &["leases", "resume", "jetstream"]);
    stage.worker(&instances.iter().collect::<Vec<_>>());
    stage.caught_up().await;
}

async fn the_history_tells_who_had_the_lease_and_how_it_ended(kind: Kind) {
    let (stage, mut instances, worker) = pair(kind).await;
    instances[worker].signal(Signal::KILL);
    until_in(&instances[1 - worker], "running");
    instances[1 - worker].signal(Signal::TERM);
    instances[1 - worker].wait_exit(PATIENCE);
    let said = done(&stage, &["leases", "history", "jetstream", "--json"]);
    let events: Vec<Value> = serde_json::from_str(&said).unwrap();
    let told: Vec<_> = events
        .iter()
        .rev()
        .map(|event| (event["label"].as_str().unwrap(), event["what"].as_str().unwrap().to_owned()))
        .collect();
    let (first, second) = (LABELS[worker], LABELS[1 - worker]);
    assert_eq!(told[0], (first, "acquired".to_owned()));
    assert!(told[1].0 == first && told[1].1.contains("beacon"), "{told:?}");
    assert_eq!(told[2..], [(second, "acquired".to_owned()), (second, "released".to_owned())]);
    assert!(done(&stage, &["leases", "history", "--limit", "1"]).contains("released"));
}

async fn what_cannot_be_done_is_said(kind: Kind) {
    let (stage, _instances, _) = pair(kind).await;
    for (arguments, reason) in [
        (&["leases", "drain", "three"][..], "no instance \"three\"; there are: one"),
        (&["leases", "move", "sweep", "one"], "sweep: there is no such lease"),
        (&["leases", "pause", "sweep"], "sweep: there is no such lease"),
    ] {
        let (exit, said) = stage.command(arguments);
        assert_eq!(exit, Exit::Code(1), "{arguments:?}: {said}");
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    let (exit, said) = stage.command(&["leases", "move", "Not A Name", "one"]);
    assert_eq!(exit, Exit::Code(78), "{said}");
}

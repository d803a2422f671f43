//! Faults of contenders as processes.

use rand::Rng;
use rand::rngs::StdRng;
use rustix::process::Signal;

use super::{a_holder, an_external_holder};
use crate::history::What;
use crate::runner::place::Place;
use crate::runner::process::pause as let_pass;
use crate::runner::stage::Stage;

pub(super) fn kill(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = a_holder(stage, random)?;
    stage.fault("kill", stage.times.timing.grace + stage.times.soon(), false);
    stage.kill(at)?;
    stage.until_elsewhere(at, stage.times.timing.ttl * 10)?;
    stage.start(at)
}

/// A child has what its parent had open until it executes its program; a lock that it keeps outlives the parent.
pub(super) fn children(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = a_holder(stage, random)?;
    stage.tell(at, "spawn")?;
    let_pass(std::time::Duration::from_millis(300));
    stage.fault("children", stage.times.timing.grace + stage.times.soon(), false);
    stage.kill(at)?;
    stage.until_elsewhere(at, stage.times.timing.ttl * 10)?;
    stage.start(at)
}

pub(super) fn pause(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = an_external_holder(stage, random)?;
    let timing = stage.times.timing;
    // Stopped inside a write transaction it keeps the file until it goes on: documented, and then nobody can claim.
    let keeps_the_file = matches!(stage.place, Place::File(_));
    stage.fault(
        "pause",
        timing.ttl + timing.renew_every + timing.stop_within + stage.times.soon(),
        keeps_the_file,
    );
    stage.write_of(at, What::Paused);
    stage.signal(at, Signal::STOP);
    let elsewhere = stage.until_elsewhere(at, timing.ttl * 2 + stage.times.soon());
    stage.signal(at, Signal::CONT);
    stage.write_of(at, What::Resumed);
    stage.healed();
    if keeps_the_file { Ok(()) } else { elsewhere }
}

pub(super) fn deaf(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = a_holder(stage, random)?;
    for each in 0..stage.instances() {
        stage.tell(each, "deafen")?;
    }
    stage.fault("deaf", stage.times.soon(), false);
    stage.stop(at)?;
    stage.until_elsewhere(at, stage.times.timing.ttl * 10)?;
    for each in (0..stage.instances()).filter(|each| *each != at) {
        stage.tell(each, "hear")?;
    }
    stage.start(at)
}

pub(super) fn rounds(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    for _ in 0..stage.times.rounds {
        let at = random.random_range(0..stage.instances());
        stage.fault("rounds", stage.times.soon(), false);
        stage.stop(at)?;
        stage.start(at)?;
        stage.until_well("a round")?;
    }
    Ok(())
}

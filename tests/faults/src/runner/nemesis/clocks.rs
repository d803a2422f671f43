//! Faults of clocks.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;

use super::{a_holder, an_external_holder};
use crate::history::What;
use crate::runner::place::Place;
use crate::runner::process::pause;
use crate::runner::stage::Stage;

/// How long each step is left.
const STAYS: Duration = Duration::from_millis(800);

pub(super) fn suspend(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = an_external_holder(stage, random)?;
    let timing = stage.times.timing;
    stage.fault("suspend", timing.trust_for + timing.stop_within + stage.times.soon(), false);
    stage.tell(at, "shift 120000")?;
    pause(timing.renew_every * 2);
    Ok(())
}

pub(super) fn of_an_instance(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = a_holder(stage, random)?;
    let file = stage.folder.join("clock");
    stage.fault("clock", stage.times.soon(), false);
    stage.stop(at)?;
    stage.environment =
        faked(stage, &file)?.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let started = stage.start(at);
    stage.environment.clear();
    started?;
    stage.until_well("a start under a faked clock")?;
    // Whatever it has by then, it keeps, and takes what it is given.
    for step in ["+180", "-180", "+0"] {
        stage.fault("clock", stage.times.soon(), false);
        step_to(&file, step)?;
        pause(STAYS);
    }
    stage.stop(at)?;
    stage.start(at)
}

pub(super) fn of_the_server(stage: &mut Stage, _random: &mut StdRng) -> Result<(), String> {
    let file = stage.folder.join("server-clock");
    let environment = faked(stage, &file)?;
    let within = stage.times.timing.grace + stage.times.soon() + Duration::from_secs(1);
    restart(stage, &environment)?;
    stage.until_well("a server under a faked clock")?;
    for step in ["+180", "-180", "+0"] {
        stage.write(What::Stepped);
        stage.fault("server-clock", within, false);
        step_to(&file, step)?;
        pause(STAYS);
        stage.until_well("a step of the server's clock")?;
    }
    restart(stage, &[])
}

fn restart(stage: &mut Stage, environment: &[(&'static str, String)]) -> Result<(), String> {
    let within = stage.times.timing.grace + stage.times.soon() + Duration::from_secs(1);
    stage.fault("server-restart", within, true);
    let Place::Server { server, .. } = &mut stage.place else { return Ok(()) };
    server.stop(false)?;
    server.start(environment)?;
    stage.healed();
    Ok(())
}

/// Monotonic clocks are the kernel's; the wall clock is what the file says, looked up at each call.
fn faked(stage: &Stage, file: &Path) -> Result<[(&'static str, String); 5], String> {
    let library = stage.fake_time.as_ref().ok_or("no libfaketime")?;
    step_to(file, "+0")?;
    Ok([
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("FAKETIME_DONT_RESET", "1".to_owned()),
    ])
}

/// In one step, as whoever reads it may do so at any moment.
fn step_to(file: &Path, offset: &str) -> Result<(), String> {
    let new = file.with_extension("new");
    let written = fs::write(&new, offset).and_then(|()| fs::rename(&new, file));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

//! Faults of a file: another writer, and a full disk.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use rand::rngs::StdRng;

use crate::runner::place::{Place, connect};
use crate::runner::process::pause;
use crate::runner::stage::Stage;

pub(super) fn busy(stage: &mut Stage, _random: &mut StdRng) -> Result<(), String> {
    let (within, outage) = (after(stage), stage.times.outage);
    let Place::File(disk) = &stage.place else { return Ok(()) };
    let mut writer = connect(disk)?;
    stage.fault("busy", within, true);
    writer.batch_execute("BEGIN IMMEDIATE").map_err(|error| error.to_string())?;
    pause(outage);
    writer.batch_execute("COMMIT").map_err(|error| error.to_string())?;
    stage.healed();
    Ok(())
}

pub(super) fn full(stage: &mut Stage, _random: &mut StdRng) -> Result<(), String> {
    let (within, outage) = (after(stage), stage.times.outage);
    let Place::File(disk) = &stage.place else { return Ok(()) };
    let filler = disk.folder.join("filler");
    stage.fault("full", within, true);
    let mut file = File::create(&filler).map_err(|error| error.to_string())?;
    for size in [1 << 20, 4096, 1] {
        let block = vec![0; size];
        while file.write_all(&block).is_ok() {}
    }
    pause(outage);
    drop(file);
    fs::remove_file(&filler).map_err(|error| error.to_string())?;
    stage.healed();
    Ok(())
}

/// A renewal that failed is sent again soon, and an external worker that stopped at F claims its lease anew.
fn after(stage: &Stage) -> Duration {
    stage.times.soon() + stage.times.timing.renew_timeout
}

//! `leases history`: who had which lease, from when, and how it ended.

use std::io::{self, Write};

use leased_actors::lease::LeaseName;

use crate::app::{Exit, Refusal};
use crate::store::{LeaseEvent, SqlLeases};

/// Lists the latest events, the newest first.
pub(super) async fn run(
    leases: &SqlLeases,
    name: Option<&LeaseName>,
    limit: u32,
    json: bool,
) -> Result<Exit, Refusal> {
    let events = leases.history(name, limit).await.map_err(Refusal::failed)?;
    Ok(crate::cli::print(|out| if json { print_json(&events, out) } else { print_table(&events, out) }))
}

fn print_json(events: &[LeaseEvent], out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, events)?;
    writeln!(out)
}

fn print_table(events: &[LeaseEvent], out: &mut dyn Write) -> io::Result<()> {
    if events.is_empty() {
        return writeln!(out, "nothing has happened yet");
    }
    writeln!(out, "{:<24} {:<10} {:>14}  {:<10} WHO", "AT", "LEASE", "EPOCH", "WHAT")?;
    for event in events {
        let short: String = event.incarnation.to_string().chars().take(6).collect();
        let label = event.label.as_deref().unwrap_or("-").escape_debug();
        writeln!(
            out,
            "{:<24} {:<10} {:>14}  {:<10} {label} {short}",
            event.at, event.name, event.epoch, event.what
        )?;
    }
    Ok(())
}

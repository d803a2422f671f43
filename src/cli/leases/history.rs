//! `leases history`: who had which lease, from when, and how it ended.

use leased_actors::lease::LeaseName;

use super::table;
use crate::app::{Exit, Refusal};
use crate::store::SqlLeases;
use crate::wishes;

/// Lists the latest events, the newest first.
pub(super) async fn run(
    leases: &SqlLeases,
    name: Option<&LeaseName>,
    limit: u32,
    json: bool,
) -> Result<Exit, Refusal> {
    let events = leases.history(name, limit).await.map_err(Refusal::failed)?;
    if events.is_empty()
        && let Some(name) = name
    {
        wishes::known(leases, name).await.map_err(Refusal::failed)?;
    }
    Ok(crate::cli::print(|out| {
        if json {
            serde_json::to_writer_pretty(&mut *out, &events)?;
            return writeln!(out);
        }
        if events.is_empty() {
            return writeln!(out, "nothing has happened yet");
        }
        table::history(&events).iter().try_for_each(|line| writeln!(out, "{line}"))
    }))
}

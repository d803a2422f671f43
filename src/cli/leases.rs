//! `leases`: who has which lease, read from the database.

use std::io::{self, Write};

use leased_actors::lease::{LeaseStore, LeaseView};

use crate::app::{self, Exit, Refusal};
use crate::settings::Settings;
use crate::store::SqlLeases;

/// Lists every lease.
///
/// # Errors
/// If the database does not answer.
pub async fn run(settings: &Settings, json: bool) -> Result<Exit, Refusal> {
    let database = app::open(settings).await?;
    if !database.pending_migrations().await?.is_empty() {
        return Err(app::not_migrated());
    }
    let leases = SqlLeases::new(database).list().await.map_err(Refusal::failed)?;
    Ok(super::print(|out| if json { print_json(&leases, out) } else { print_table(&leases, out) }))
}

fn print_json(leases: &[LeaseView], out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, leases)?;
    writeln!(out)
}

/// At most 80 columns, but for labels that are longer than the rest leaves.
fn print_table(leases: &[LeaseView], out: &mut dyn Write) -> io::Result<()> {
    if leases.is_empty() {
        return writeln!(out, "no leases yet: no instance has run on this database");
    }
    writeln!(out, "{:<12} {:<8} {:>14}  {:<20}  HOLDER", "LEASE", "STATE", "EPOCH", "SINCE")?;
    for lease in leases {
        let since = lease.since.as_deref().map_or("-", |since| since.get(..19).unwrap_or(since));
        let holder = lease.holder.as_ref().map_or_else(
            || "-".to_owned(),
            |holder| {
                let short: String = holder.incarnation.to_string().chars().take(6).collect();
                let label = holder.label.escape_debug();
                format!("{label} {short} pid {}", holder.pid)
            },
        );
        writeln!(out, "{:<12} {:<8} {:>14}  {since:<20}  {holder}", lease.name, lease.state, lease.epoch)?;
    }
    Ok(())
}

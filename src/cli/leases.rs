//! `leases`: who has which lease, read from the database; and where operators want them to be.

mod history;
mod wish;

use std::io::{self, Write};

use clap::Subcommand;
use leased_actors::lease::{LeaseName, LeaseStore, LeaseView};

use crate::app::{self, Exit, Refusal};
use crate::settings::Settings;
use crate::store::SqlLeases;

/// What can be asked of leases. INSTANCE is a label, or the first digits of an incarnation; a wish is carried out by the
/// instances themselves, so it works from any machine.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Who had which lease, and how it ended; the newest first.
    History {
        /// Only this lease.
        name: Option<LeaseName>,
        /// At most so many lines.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Have an instance give its leases up and take none; waits until it has none.
    Drain {
        /// Which one.
        instance: String,
    },
    /// Let a drained instance take leases again.
    Undrain {
        /// Which one.
        instance: String,
    },
    /// Move a lease to an instance; waits until it is there.
    Move {
        /// Which lease.
        name: LeaseName,
        /// Where to.
        instance: String,
    },
    /// Stop a lease's worker on every instance, until it is resumed.
    Pause {
        /// Which lease.
        name: LeaseName,
    },
    /// Let a paused lease's worker run again.
    Resume {
        /// Which lease.
        name: LeaseName,
    },
}

/// Lists every lease, or does what is asked of them.
///
/// # Errors
/// If the database does not answer, or what is asked for is not there.
pub async fn run(settings: &Settings, json: bool, command: Option<Command>) -> Result<Exit, Refusal> {
    let database = app::open(settings).await?;
    if !database.pending_migrations().await?.is_empty() {
        return Err(app::not_migrated());
    }
    let leases = SqlLeases::new(database);
    match command {
        None => list(&leases, json).await,
        Some(Command::History { name, limit }) => history::run(&leases, name.as_ref(), limit, json).await,
        Some(Command::Drain { instance }) => wish::drain(&leases, &instance).await,
        Some(Command::Undrain { instance }) => wish::undrain(&leases, &instance).await,
        Some(Command::Move { name, instance }) => wish::hand(&leases, &name, &instance).await,
        Some(Command::Pause { name }) => wish::pause(&leases, &name).await,
        Some(Command::Resume { name }) => wish::resume(&leases, &name).await,
    }
}

async fn list(leases: &SqlLeases, json: bool) -> Result<Exit, Refusal> {
    let leases = leases.list().await.map_err(Refusal::failed)?;
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

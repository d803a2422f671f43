//! `leases`: who has which lease, read from the database; and where operators want them to be.

mod history;
pub(super) mod table;
mod wish;

use clap::Subcommand;
use leased_actors::lease::{LeaseName, LeaseStore};

use crate::app::{self, Exit, Refusal};
use crate::cli::columns::COLUMNS;
use crate::cli::help;
use crate::settings::Settings;
use crate::store::SqlLeases;

/// What can be asked of leases. A wish is carried out by the instances themselves, so it works from any machine.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Who had which lease, and how it ended; the newest first.
    #[command(after_help = help::HISTORY)]
    History {
        /// Only this lease.
        name: Option<LeaseName>,
        /// At most so many lines.
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// As a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Have an instance give its leases up and take none; waits for it.
    #[command(after_help = help::DRAIN)]
    Drain {
        /// Its label, or the first digits of its incarnation.
        instance: String,
    },
    /// Let a drained instance take leases again.
    #[command(after_help = help::UNDRAIN)]
    Undrain {
        /// Its label, or the first digits of its incarnation.
        instance: String,
    },
    /// Move a lease to an instance; waits until it is there.
    #[command(after_help = help::MOVE)]
    Move {
        /// Which lease.
        name: LeaseName,
        /// Where to: a label, or the first digits of an incarnation.
        instance: String,
    },
    /// Stop a lease's worker on every instance, until it is resumed.
    #[command(after_help = help::PAUSE)]
    Pause {
        /// Which lease.
        name: LeaseName,
    },
    /// Let a paused lease's worker run again.
    #[command(after_help = help::RESUME)]
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
    if json && !matches!(command, None | Some(Command::History { .. })) {
        return Err(super::no_list());
    }
    let leases = SqlLeases::new(app::open_ready(settings).await?);
    match command {
        None => list(&leases, json).await,
        Some(Command::History { name, limit, json: as_json }) => {
            history::run(&leases, name.as_ref(), limit, json || as_json).await
        }
        Some(Command::Drain { instance }) => wish::drain(&leases, &instance).await,
        Some(Command::Undrain { instance }) => wish::undrain(&leases, &instance).await,
        Some(Command::Move { name, instance }) => wish::hand(&leases, &name, &instance).await,
        Some(Command::Pause { name }) => wish::pause(&leases, &name).await,
        Some(Command::Resume { name }) => wish::resume(&leases, &name).await,
    }
}

async fn list(leases: &SqlLeases, json: bool) -> Result<Exit, Refusal> {
    let leases = leases.list().await.map_err(Refusal::failed)?;
    Ok(super::print(|out| {
        if json {
            serde_json::to_writer_pretty(&mut *out, &leases)?;
            return writeln!(out);
        }
        if leases.is_empty() {
            return writeln!(out, "no leases yet: no instance has run on this database");
        }
        table::leases(&leases, COLUMNS).iter().try_for_each(|line| writeln!(out, "{line}"))
    }))
}

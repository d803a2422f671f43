//! The command line.

pub mod backfill;
pub mod leases;
pub mod migrate;
pub mod settings;
pub mod status;
pub mod webhooks;

mod columns;
mod help;
mod nobody;

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::app::{Exit, Refusal};

/// The background process of an AT Protocol container registry.
#[derive(Debug, Parser)]
#[command(name = "atcr-workers", version, after_help = help::ALL)]
pub struct Cli {
    /// Read this settings file over the defaults.
    #[arg(long, global = true, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// What to do; `run` if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the workers whose leases come here, until SIGTERM or SIGINT.
    #[command(after_help = help::RUN)]
    Run(Run),
    /// Say how everything is: instances, leases, streams, outbox, holds.
    #[command(after_help = help::STATUS)]
    Status {
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Say who has which lease, and where leases shall be.
    #[command(after_help = help::LEASES)]
    Leases {
        /// As a JSON array.
        #[arg(long)]
        json: bool,
        /// What to do; list them if nothing is said.
        #[command(subcommand)]
        command: Option<leases::Command>,
    },
    /// Have repositories read again, and wait until they are.
    #[command(after_help = help::BACKFILL)]
    Backfill(backfill::Arguments),
    /// List the users' webhooks; add, remove, disable or test one.
    #[command(after_help = help::WEBHOOKS)]
    Webhooks {
        /// As a JSON array.
        #[arg(long)]
        json: bool,
        /// What to do; list them if nothing is said.
        #[command(subcommand)]
        command: Option<webhooks::Command>,
    },
    /// Bring the database to this version's schema. `run` does it too.
    #[command(after_help = help::MIGRATE)]
    Migrate {
        /// Apply nothing; list what is pending (exit code 1).
        #[arg(long)]
        check: bool,
    },
    /// Print what a shell needs to complete our commands.
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the settings in effect with their origin, secrets masked.
    #[command(after_help = help::SETTINGS)]
    Settings {
        /// As a JSON array.
        #[arg(long)]
        json: bool,
    },
}

/// How it is run.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Run {
    /// Stop as on SIGTERM once the parent process has ended.
    #[arg(long)]
    pub exit_with_parent: bool,
}

/// Reads the command line; an error has been printed, with the code to end with.
///
/// # Errors
/// Bad usage (78: a restart cannot help), or help and version, which end with 0.
pub fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        // To a closed pipe nothing can be said.
        let _ = error.print();
        if error.use_stderr() { Exit::Settings.into() } else { ExitCode::SUCCESS }
    })
}

/// Prints a shell's completions.
pub fn completions(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "atcr-workers", &mut script);
    print(|out| out.write_all(&script))
}

/// Says why nothing is done, and gives the code to end with.
pub fn refuse(why: &dyn Display, exit: Exit) -> ExitCode {
    say(why, exit).into()
}

/// Says why nothing more is done.
#[allow(clippy::print_stderr, reason = "the log may not be set up, and a person is waiting for the answer")]
pub fn say(why: &dyn Display, exit: Exit) -> Exit {
    eprintln!("atcr-workers: {why}");
    exit
}

/// What changes something prints no list.
pub(crate) fn no_list() -> Refusal {
    Refusal::settings("--json: expected with what is listed only; nothing was done")
}

/// Prints an answer; a reader that has left needs none.
pub(crate) fn print(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> Exit {
    match write(&mut std::io::stdout().lock()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => say(&error, Exit::Failed),
        _ => Exit::Stopped,
    }
}

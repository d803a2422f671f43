//! The command line.

pub mod backfill;
pub mod leases;
pub mod migrate;
pub mod settings;
pub mod status;
pub mod webhooks;

mod nobody;

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::app::Exit;

/// What clap says after the options.
const AFTER: &str = "\
Settings come from the embedded defaults, then FILE, then the environment (ATCR__SECTION__KEY).

Exit codes: 0 stopped, every lease released · 1 failed, a restart may help · 75 stopped, but a
lease was left to expire · 78 settings are wrong, a restart cannot help · 130 second signal

Examples:
  atcr-workers                                    run with the defaults, on ./atcr.db
  ATCR__DATABASE__URL=postgres://… atcr-workers   run on PostgreSQL, on as many machines as you like
  atcr-workers status                             everything at a glance
  atcr-workers leases                             who runs what
  atcr-workers leases drain web1                  before web1 is stopped for long
  atcr-workers backfill --all                     read every repository again
  atcr-workers webhooks test 3                    send a test to a user's endpoint
  atcr-workers settings                           every setting, and where it came from";

/// The background process of an AT Protocol container registry.
#[derive(Debug, Parser)]
#[command(name = "atcr-workers", version, after_help = AFTER)]
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
    /// Run the workers whose leases come to this instance, until SIGTERM or SIGINT.
    Run(Run),
    /// Say how everything is: instances, leases, streams, backfill, outbox, and which holds answer.
    Status {
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// List every lease: who has it, since when, at which epoch; or say where leases shall be.
    Leases {
        /// As a JSON array.
        #[arg(long, global = true)]
        json: bool,
        /// What to do; list them if nothing is said.
        #[command(subcommand)]
        command: Option<leases::Command>,
    },
    /// Have repositories read again by whoever runs the backfill; waits until they are.
    #[command(after_help = backfill::AFTER)]
    Backfill(backfill::Arguments),
    /// List the users' webhooks; or add, remove, enable, disable or test one, or have a delivery made again.
    #[command(after_help = webhooks::AFTER)]
    Webhooks {
        /// As a JSON array.
        #[arg(long, global = true)]
        json: bool,
        /// What to do; list them if nothing is said.
        #[command(subcommand)]
        command: Option<webhooks::Command>,
    },
    /// Bring the database to this version's schema. `run` does it too.
    Migrate {
        /// Change nothing; list what would be applied, and exit 1 if there is anything.
        #[arg(long)]
        check: bool,
    },
    /// Print a shell's completions: `atcr-workers completions bash > /etc/bash_completion.d/atcr-workers`.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the effective settings with their origin, secrets masked.
    Settings {
        /// As a JSON array.
        #[arg(long)]
        json: bool,
    },
}

/// How it is run.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Run {
    /// Stop as on SIGTERM when the process that started this one has ended; for a registry that starts it as a child.
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

/// Prints an answer; a reader that has left needs none.
pub(crate) fn print(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> Exit {
    match write(&mut std::io::stdout().lock()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => say(&error, Exit::Failed),
        _ => Exit::Stopped,
    }
}

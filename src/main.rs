//! The life of the process on one screen.

use std::process::ExitCode;

use atcr_workers::app::{self, Exit};
use atcr_workers::cli::{self, Cli, Command, Run};
use atcr_workers::settings::{Settings, environment};
use atcr_workers::telemetry;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Some(Command::Completions { shell }) = cli.command {
        return cli::completions(shell).into();
    }
    let settings = match Settings::load(cli.settings.as_deref(), environment()) {
        Ok(settings) => settings,
        Err(error) => return cli::refuse(&error, Exit::Settings),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return cli::refuse(&app::no_runtime(&error), Exit::Failed),
    };
    // On a thread of the runtime, where signals and answers arrive: this one would have to be woken for each.
    let exit = runtime.block_on(async { tokio::spawn(act(cli, settings)).await }).unwrap_or(Exit::Failed);
    // Not by a return: a thread that is stuck in the kernel must not hold the process.
    std::process::exit(exit as i32);
}

async fn act(cli: Cli, settings: Settings) -> Exit {
    let outcome = match cli.command.unwrap_or(Command::Run(Run::default())) {
        Command::Run(how) => match telemetry::init(&settings.telemetry) {
            Ok(()) => app::run(settings, how.exit_with_parent).await,
            Err(error) => return cli::say(&error, Exit::Settings),
        },
        Command::Backfill(arguments) => cli::backfill::run(&settings, arguments).await,
        Command::Leases { json, command } => cli::leases::run(&settings, json, command).await,
        Command::Migrate { check } => cli::migrate::run(&settings, check).await,
        Command::Completions { shell } => Ok(cli::completions(shell)),
        Command::Webhooks { json, command } => cli::webhooks::run(&settings, json, command).await,
        Command::Settings { json } => cli::settings::run(&settings, json),
        Command::Status { json } => cli::status::run(&settings, json).await,
    };
    outcome.unwrap_or_else(|refusal| cli::say(&refusal, refusal.exit()))
}

//! `webhooks`: adds, lists, removes, enables, disables and tests webhooks, and has deliveries made again. All of it stands
//! in the database and is carried out by whoever runs the worker, so it works from any machine.

mod add;
mod list;
mod wait;

use clap::Subcommand;

use crate::app::{self, Exit, Refusal};
use crate::atproto::{Did, Handle};
use crate::cli::help;
use crate::settings::Settings;
use crate::store::SqlLeases;
use crate::store::webhooks::{Asked, User};

/// What can be done to webhooks.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add one, and print its number.
    #[command(after_help = help::ADD)]
    Add(add::Arguments),
    /// List them. The default.
    #[command(after_help = help::LIST)]
    List {
        /// Those of this user: a DID or a handle.
        #[arg(long, value_name = "DID|HANDLE", value_parser = user)]
        user: Option<User>,
        /// As a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Remove one, with its deliveries.
    #[command(after_help = help::REMOVE)]
    Remove {
        /// Its number.
        webhook: i64,
    },
    /// Enable one that was disabled, by whomever.
    #[command(after_help = help::ENABLE)]
    Enable {
        /// Its number.
        webhook: i64,
    },
    /// Disable one: what waits is withheld, and nothing more is put in.
    #[command(after_help = help::DISABLE)]
    Disable {
        /// Its number.
        webhook: i64,
        /// Kept with it.
        #[arg(long, default_value = "by an operator")]
        reason: String,
    },
    /// Send a test, and wait for its result.
    #[command(after_help = help::TEST)]
    Test {
        /// The webhook's number.
        webhook: i64,
        /// Ask, and do not wait.
        #[arg(long)]
        no_wait: bool,
    },
    /// Make a delivery once more, under the same id, and wait for it.
    #[command(after_help = help::REDELIVER)]
    Redeliver {
        /// The delivery's id.
        delivery: String,
        /// Ask, and do not wait.
        #[arg(long)]
        no_wait: bool,
    },
}

/// Does it.
///
/// # Errors
/// If the database does not answer, or what is asked for cannot be done.
pub async fn run(settings: &Settings, json: bool, command: Option<Command>) -> Result<Exit, Refusal> {
    let command = command.unwrap_or(Command::List { user: None, json });
    if json && !matches!(command, Command::List { .. }) {
        return Err(crate::cli::no_list());
    }
    let leases = SqlLeases::new(app::open_ready(settings).await?);
    match command {
        Command::Add(arguments) => add::run(settings, &leases, arguments).await,
        Command::List { user, json: as_json } => {
            let webhooks = leases.webhooks(user).await.map_err(Refusal::failed)?;
            Ok(list::print(&webhooks, json || as_json))
        }
        Command::Remove { webhook } => {
            done(leases.remove_webhook(webhook).await.map_err(Refusal::failed)?, webhook, "removed")
        }
        Command::Enable { webhook } => {
            done(leases.enable_webhook(webhook).await.map_err(Refusal::failed)?, webhook, "enabled")
        }
        Command::Disable { webhook, reason } => {
            done(leases.disable_webhook(webhook, reason).await.map_err(Refusal::failed)?, webhook, "disabled")
        }
        Command::Test { webhook, no_wait } => {
            let asked = leases.test_webhook(webhook).await.map_err(Refusal::failed)?;
            let delivery = asked_for(asked, &no_webhook(webhook))?;
            wait::outcome(settings, leases, &delivery, no_wait).await
        }
        Command::Redeliver { delivery, no_wait } => {
            let unknown = format!(
                "there is no delivery {delivery:?}: it is the X-ATCR-Delivery that an endpoint got; finished ones are \
                 deleted after a month"
            );
            let asked = leases.redeliver(delivery).await.map_err(Refusal::failed)?;
            let delivery = asked_for(asked, &unknown)?;
            wait::outcome(settings, leases, &delivery, no_wait).await
        }
    }
}

fn asked_for(asked: Asked, unknown: &str) -> Result<String, Refusal> {
    match asked {
        Asked::As(delivery) => Ok(delivery),
        Asked::Unknown => Err(Refusal::failed(unknown)),
        Asked::Disabled => {
            Err(Refusal::failed("the webhook is disabled: `atcr-workers webhooks enable` it first"))
        }
    }
}

fn no_webhook(webhook: i64) -> String {
    format!("there is no webhook {webhook}: `atcr-workers webhooks` lists them")
}

fn done(was_there: bool, webhook: i64, what: &str) -> Result<Exit, Refusal> {
    if !was_there {
        return Err(Refusal::failed(no_webhook(webhook)));
    }
    Ok(crate::cli::print(|out| writeln!(out, "webhook {webhook} is {what}")))
}

/// Reads a DID or a handle.
fn user(text: &str) -> Result<User, String> {
    if text.starts_with("did:") {
        return Did::parse(text).map(User::Did).map_err(|error| error.to_string());
    }
    text.parse::<Handle>().map(User::Handle).map_err(|error| error.to_string())
}

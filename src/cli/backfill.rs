//! `backfill`: a wish to have repositories read again is written to the database, and its fulfilment waited for. Whoever
//! runs the worker carries it out, so it works from any machine.

mod line;

use std::time::Duration;

use clap::Args;
use leased_actors::clock::Clock;
use tokio::time::sleep;

use self::line::Line;
use crate::app::{self, Exit, Refusal};
use crate::atproto::Did;
use crate::cli::nobody::nobody;
use crate::settings::Settings;
use crate::store::backfill::RunReport;
use crate::store::{Database, SqlLeases};

/// How long nobody may take it up: several looks of the worker, and a hand-over of its lease.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one that was taken up may stand still: longer than the largest repository is read for.
const STILLNESS: Duration = Duration::from_secs(15 * 60);

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What is to be read again. Every record of it is written anew, whatever the index knows.
#[derive(Debug, Args)]
pub struct Arguments {
    /// These repositories.
    #[arg(long, value_name = "DID", num_args = 1.., required_unless_present = "all", conflicts_with = "all")]
    did: Vec<Did>,
    /// Every repository that relays list and the index knows.
    #[arg(long)]
    all: bool,
    /// Ask, and do not wait.
    #[arg(long)]
    no_wait: bool,
}

/// Asks, and waits until it is done.
///
/// # Errors
/// If the database does not answer, or nobody takes it up.
pub async fn run(settings: &Settings, arguments: Arguments) -> Result<Exit, Refusal> {
    let database = app::open_ready(settings).await?;
    let leases = SqlLeases::new(database.clone());
    let wishes: Vec<Option<Did>> =
        if arguments.all { vec![None] } else { arguments.did.into_iter().map(Some).collect() };
    let mut asked = Vec::new();
    for did in wishes {
        leases.ask_backfill(did.as_ref()).await.map_err(Refusal::failed)?;
        asked.push(Asked { did, is_done: false });
    }
    let nobody = if settings.leases.enabled { nobody(&leases, "backfill").await? } else { None };
    if let Some(why) = &nobody
        && !arguments.no_wait
    {
        return Err(Refusal::failed(format!("{why}; the wish stands, and is carried out when one runs it")));
    }
    if arguments.no_wait {
        let more = nobody.map_or_else(String::new, |why| format!("; it waits: {why}"));
        return Ok(crate::cli::print(|out| writeln!(out, "asked for{more}")));
    }
    Wait { database, leases: settings.leases.enabled.then_some(leases), asked, clock: Clock::boottime() }
        .until_done()
        .await
}

struct Asked {
    did: Option<Did>,
    is_done: bool,
}

struct Wait {
    database: Database,
    leases: Option<SqlLeases>,
    asked: Vec<Asked>,
    clock: Clock,
}

/// What is seen of the work; if it changes, somebody is at it.
#[derive(Clone, Copy, PartialEq)]
struct Seen {
    is_taken_up: bool,
    left: usize,
    run: Option<RunReport>,
}

impl Wait {
    async fn until_done(mut self) -> Result<Exit, Refusal> {
        let (mut line, mut moved, mut last) = (Line::new(self.clock.clone()), self.clock.now(), None);
        loop {
            let seen = self.look().await?;
            if last != Some(seen) {
                (last, moved) = (Some(seen), self.clock.now());
            }
            line.show(self.asked.len(), seen.left, seen.run.as_ref().filter(|_| seen.is_taken_up));
            if seen.left == 0 {
                line.end();
                return self.outcome(seen.run).await;
            }
            let patience = if seen.is_taken_up { STILLNESS } else { PATIENCE };
            if self.clock.now().since(moved) > patience {
                line.end();
                let why = match &self.leases {
                    Some(leases) => nobody(leases, "backfill")
                        .await?
                        .unwrap_or("its worker does not get on: see its log".to_owned()),
                    None => "does an instance run it?".to_owned(),
                };
                return Err(Refusal::failed(format!(
                    "nothing happened in {patience:?} ({why}); the wish stands, and `atcr-workers status` shows it"
                )));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&mut self) -> Result<Seen, Refusal> {
        let database = &self.database;
        let mut is_taken_up = false;
        let run = database.backfill_report().await.map_err(Refusal::failed)?;
        for asked in self.asked.iter_mut().filter(|asked| !asked.is_done) {
            let stands = database.backfill_asked_at(asked.did.as_ref()).await.map_err(Refusal::failed)?;
            asked.is_done = stands.is_none();
            is_taken_up |= match &asked.did {
                // Before it begins, an earlier run may have to end.
                None => run.is_some_and(|run| !run.is_ended),
                Some(did) => {
                    let repo = database.backfill_repo(did).await.map_err(Refusal::failed)?;
                    repo.is_some_and(|repo| repo.is_taken_up)
                }
            };
        }
        let left = self.asked.iter().filter(|asked| !asked.is_done).count();
        Ok(Seen { is_taken_up, left, run: run.filter(|_| self.asked[0].did.is_none()) })
    }

    async fn outcome(self, run: Option<RunReport>) -> Result<Exit, Refusal> {
        let (mut lines, mut exit) = (Vec::new(), Exit::Stopped);
        if let Some(run) = run {
            let RunReport { found, failed, totals, .. } = run;
            let (records, changed) = (totals.records, totals.changed);
            lines.push(format!(
                "{found} repositories read, {records} records, of which {changed} had changed"
            ));
            if failed > 0 {
                lines.push(format!("{failed} of the repositories could not be read; they are tried again"));
            }
        }
        for did in self.asked.iter().filter_map(|asked| asked.did.as_ref()) {
            let repo = self.database.backfill_repo(did).await.map_err(Refusal::failed)?;
            let (how, error) = repo.map_or(("gone".to_owned(), None), |repo| (repo.state, repo.error));
            lines.push(match error {
                None => format!("{did} {how}"),
                Some(error) => {
                    exit = Exit::Failed;
                    format!("{did} {how}: {error}; it is tried again")
                }
            });
        }
        match crate::cli::print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}"))) {
            Exit::Stopped => Ok(exit),
            failed => Ok(failed),
        }
    }
}

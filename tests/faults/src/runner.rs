//! The fault runner: starts contenders on a database, does to them what a seed says, and has the history checked.

mod machine;
mod nemesis;
mod network;
mod place;
mod pooler;
mod postgres;
mod process;
mod report;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::check::check;
use crate::history::parse;
use machine::Machine;
use nemesis::{NEMESES, Nemesis};
use place::Kind;
use stage::{Stage, Times};

/// Does faults to real processes, and checks what they did.
#[derive(Parser)]
#[command(name = "faults")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run nemeses in the order that the seed says, then check the history. Exit code 1: violations.
    Run(Run),
    /// The nemeses, and what this machine cannot do.
    List,
    /// Check a history that was kept.
    Check {
        /// Its file.
        history: PathBuf,
    },
}

#[derive(Args)]
struct Run {
    /// What decides order and victims; random if not given, and always printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Where the leases are.
    #[arg(long, value_enum, default_value_t = Kind::Sqlite)]
    database: Kind,
    /// These only, in an order that the seed says; all that the database has, if not given.
    #[arg(long, value_delimiter = ',')]
    nemesis: Vec<String>,
    /// Go on, round after round, for so many seconds (`60` or `60s`); one round if not given.
    #[arg(long = "for", value_parser = seconds)]
    lasting: Option<Duration>,
    /// Contenders.
    #[arg(long, default_value_t = 3)]
    instances: usize,
    /// The product's default times, long faults and many rounds, instead of short ones.
    #[arg(long)]
    long: bool,
    /// Keep the history (and the logs beside it) here; a temporary folder, kept on violations, if not given.
    #[arg(long)]
    keep: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.trim_end_matches('s').parse().map(Duration::from_secs)
}

/// The program `faults`.
pub fn main() -> ExitCode {
    // Whoever started this one is gone: then everything that it started goes, too.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match Arguments::parse().command {
        Command::List => list(),
        Command::Check { history } => match std::fs::read_to_string(&history) {
            Ok(text) => report::conclude(&check(&parse(&text)), &[], &history),
            Err(error) => report::refuse(&format!("{}: {error}", history.display())),
        },
        Command::Run(run) => match play(&run) {
            Ok(code) => code,
            Err(reason) => report::refuse(&reason),
        },
    }
}

fn list() -> ExitCode {
    let machine = Machine::look();
    for nemesis in NEMESES {
        let note =
            machine.lacks(nemesis.needs).map(|lack| format!("  NOT RUN here: {lack}")).unwrap_or_default();
        println!("{:<14} {:<18} {}{note}", nemesis.name, nemesis.databases(), nemesis.what);
    }
    ExitCode::SUCCESS
}

fn play(run: &Run) -> Result<ExitCode, String> {
    let seed = run.seed.unwrap_or_else(rand::random);
    let machine = Machine::look();
    let chosen = choose(run)?;
    let (able, unable): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|n| machine.lacks(n.needs).is_none());
    let times = if run.long { Times::long(run.database) } else { Times::short(run.database) };
    println!("faults: seed {seed}, {}, {} instances", run.database, run.instances);
    let mut stage = Stage::set(run.database, run.instances, times, &machine, run.keep.as_deref())?;
    let outcome = act(run, seed, &able, &mut stage);
    let left_out = std::mem::take(&mut stage.left_out);
    let (history, events) = stage.end();
    let found = check(&events);
    report::table(&events, &found);
    for nemesis in &unable {
        println!("NOT RUN: {} ({})", nemesis.name, machine.lacks(nemesis.needs).unwrap_or_default());
    }
    left_out.iter().for_each(|what| println!("NOT RUN: {what}"));
    let failures: Vec<String> = outcome.err().into_iter().collect();
    let code = report::conclude(&found, &failures, &history);
    if code != ExitCode::SUCCESS {
        println!("again: faults run --seed {seed} --database {} --instances {}", run.database, run.instances);
    } else if run.keep.is_none() {
        stage::sweep(&history);
    }
    Ok(code)
}

fn choose(run: &Run) -> Result<Vec<&'static Nemesis>, String> {
    let on = |nemesis: &&Nemesis| nemesis.on.contains(&run.database);
    if run.nemesis.is_empty() {
        return Ok(NEMESES.iter().filter(on).collect());
    }
    let find = |name: &String| {
        let found = NEMESES.iter().find(|nemesis| nemesis.name == name).filter(on);
        found.ok_or_else(|| format!("no nemesis {name} on {}; see `faults list`", run.database))
    };
    run.nemesis.iter().map(find).collect()
}

/// Round after round in an order that the seed says; each nemesis waits until all is well before and after it.
fn act(run: &Run, seed: u64, nemeses: &[&Nemesis], stage: &mut Stage) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let begun = Instant::now();
    stage.start_all()?;
    stage.until_well("the beginning")?;
    loop {
        let mut order = nemeses.to_vec();
        order.shuffle(&mut random);
        for nemesis in order {
            println!("{:>7.1} s  {}", begun.elapsed().as_secs_f64(), nemesis.name);
            (nemesis.act)(stage, &mut random).map_err(|reason| format!("{}: {reason}", nemesis.name))?;
            stage.until_well(nemesis.name)?;
        }
        if run.lasting.is_none_or(|lasting| begun.elapsed() >= lasting) {
            break;
        }
    }
    stage.leave_alone()?;
    println!("{:>7.1} s  all well", begun.elapsed().as_secs_f64());
    Ok(())
}

//! Every command that a document or the help shows is run. One that this table does not know fails the test.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::documents::{
    help::{Help, helps},
    shown::{documents, lines, root},
    world::{LEASES, World},
};
use crate::style::none;
use crate::support::http;

/// How a shown command is run.
enum How {
    /// As it stands, by a shell, and it ends with 0.
    Shell,
    /// This instead.
    As(&'static str),
    /// As an instance: until it is ready, then it is stopped and ends with 0.
    Instance,
    /// A statement for PostgreSQL's `postgres` database.
    Psql,
    /// A statement for SQLite's file.
    Sqlite,
    /// An address that is got.
    Get,
    /// By a shell, where this program is installed.
    Where(&'static str),
    /// Not here, and why; `true`: what can be said without is true.
    Not(&'static str, fn() -> bool),
}

/// The table: what stands at the beginning, and how it is run. The first that fits counts.
const TABLE: &[(&str, How)] = &[
    ("cargo run --release", How::As("atcr-workers run")),
    (
        "cargo run -p localnet -- demo",
        How::Not("run by tests/localnet/tests/wire/program.rs", || has("tests/localnet/src/main.rs", "demo")),
    ),
    (
        "cargo run -p leased-actors --example two_instances",
        How::Not("run by actors/tests/example.rs", || has("actors/tests/example.rs", "two_instances")),
    ),
    (
        "cargo build --release",
        How::Not("what is tested was built so, but for the profile", || {
            has("Cargo.toml", "[profile.release]")
        }),
    ),
    (
        "cargo test -p faults",
        How::Not("one of the workspace's tests", || has("tests/faults/tests/short.rs", "#[")),
    ),
    (
        "cargo build -p faults",
        How::Not("one of the workspace's programs", || has("Cargo.toml", "\"tests/faults\"")),
    ),
    (
        "target/debug/faults ",
        How::Not("takes minutes; run by tests/faults/tests", || {
            has("tests/faults/src/runner.rs", "long: bool")
        }),
    ),
    ("tests/run", How::As("tests/run --help")),
    ("tests/guards/run", How::As("tests/guards/run --help")),
    ("cp ", How::Shell),
    (
        "systemctl ",
        How::Not("needs systemd as the first process", || {
            has("settings/deploy/atcr-workers.service", "WantedBy=")
        }),
    ),
    ("psql -c ", How::Psql),
    ("sqlite3 atcr.db ", How::Sqlite),
    ("pg_dump ", How::Where("pg_dump")),
    ("promtool ", How::Where("promtool")),
    ("curl -s ", How::Get),
    ("curl --fail-with-body ", How::Where("curl")),
];

fn has(file: &str, text: &str) -> bool {
    std::fs::read_to_string(root().join(file)).unwrap().contains(text)
}

/// None: it is not known.
fn how(command: &str) -> Option<&'static How> {
    let words = command.split(' ').skip_while(|word| word.starts_with("ATCR__") && word.contains('='));
    match words.collect::<Vec<_>>().as_slice() {
        ["atcr-workers"] => Some(&How::Instance),
        ["atcr-workers", "run", rest @ ..] if !rest.contains(&"--help") => Some(&How::Instance),
        ["atcr-workers", ..] => Some(&How::Shell),
        _ => TABLE.iter().find(|(begin, _)| command.starts_with(begin)).map(|(_, how)| how),
    }
}

/// Whether code within a line is a command to be run, and not the form of one.
fn is_command(span: &str) -> bool {
    let begins = ["atcr-workers ", "ATCR__", "cargo run", "cargo build", "tests/run --", "psql ", "curl "];
    begins.iter().any(|begin| span.starts_with(begin)) && span.contains(' ') && !is_form(span)
}

/// `atcr-workers backfill --did DID…`: words in capitals and brackets stand for something.
fn is_form(span: &str) -> bool {
    let stands_for = |word: &str| {
        word.contains(['[', '…', '<']) || (word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase()))
    };
    span.starts_with("atcr-workers ") && span.split(' ').any(stands_for)
}

/// Every command of the documents and of the help, once, with where it first stands.
fn all() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for document in documents() {
        for block in document.blocks().iter().filter(|block| ["sh", "console"].contains(&&*block.language)) {
            found.extend(lines(&block.text).into_iter().map(|line| (line, document.path.clone())));
        }
        let spans = document.spans().into_iter().filter(|span| is_command(span));
        found.extend(spans.map(|span| (span, document.path.clone())));
    }
    for help in helps() {
        let of = |help: &Help| format!("help of {:?}", help.words.join(" "));
        found.extend(help.examples().into_iter().map(|example| (example, of(&help))));
    }
    let mut seen = BTreeSet::new();
    found.retain(|(command, _)| seen.insert(command.clone()));
    found
}

#[test]
fn the_table_knows_every_command_that_is_shown() {
    assert!(how("frobnicate the database").is_none());
    assert!(matches!(how("ATCR__A__B=c atcr-workers"), Some(How::Instance)));
    let unknown = all().into_iter().filter(|(command, _)| how(command).is_none());
    none(
        unknown.map(|(command, place)| format!("{place}: {command}")),
        "commands that the table does not know",
    );
    let shown = all();
    let is_shown = |begin: &str| shown.iter().any(|(command, _)| command.starts_with(begin));
    let unused = TABLE.iter().map(|(begin, _)| *begin).filter(|begin| !is_shown(begin));
    none(unused.map(str::to_owned), "entries for commands that nobody shows");
}

#[test]
fn every_form_of_a_command_is_of_one_that_there_is() {
    let helps = helps();
    let mut wrong = Vec::new();
    for document in documents() {
        for span in document.spans().into_iter().filter(|span| is_form(span)) {
            let plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
            let mut words: Vec<&str> = span.split(' ').skip(1).take_while(plain).collect();
            let mut help = None;
            while help.is_none() && !words.is_empty() {
                help = helps.iter().find(|help| help.words == words);
                words.pop();
            }
            let flags = span.split([' ', '[', ']', '|']).filter(|word| word.starts_with("--"));
            let lacks = |help: &Help| flags.clone().any(|flag| !help.text.contains(flag));
            if help.is_none_or(lacks) {
                wrong.push(format!("{}: {span}", document.path));
            }
        }
    }
    none(wrong.into_iter(), "forms of commands that there are not");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_that_is_shown_runs() {
    let world = World::new().await;
    let mut failed = Vec::new();
    for (command, place) in all() {
        prepare(&world, &command).await;
        let outcome = run(&world, &command).await;
        if let Err(why) = outcome {
            failed.push(format!("{place}: {command}\n    {}", why.replace('\n', "\n    ")));
        }
        put_back(&world, &command).await;
    }
    none(failed.into_iter(), "commands that do not do what is shown");
}

async fn run(world: &World, command: &str) -> Result<(), String> {
    let here = world.put_in(command);
    match how(command).ok_or("nobody knows how to run it")? {
        How::Shell => world.shell(&with_what_is_there(world, &here).await).map(drop),
        How::As(other) if other.starts_with("atcr-workers") => world.instance(other),
        How::As(other) => world.shell(other).map(drop),
        How::Instance => world.instance(&here),
        How::Psql => {
            world.postgres.execute(quoted(command)?).await;
            Ok(())
        }
        How::Sqlite => {
            let copy = world.folder.path().join("backup.db").display().to_string();
            world.stage.place.execute(&quoted(command)?.replace("backup.db", &copy)).await;
            Ok(())
        }
        How::Get => {
            let address = here.rsplit(' ').next().unwrap().trim_matches('\'');
            let answer = http::get(address).map_err(|error| error.to_string())?;
            if answer.status == 200 { Ok(()) } else { Err(format!("{}: {}", answer.status, answer.body)) }
        }
        How::Where(program) => {
            let there = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            if there.is_ok() { world.shell(&here).map(drop) } else { Ok(()) }
        }
        How::Not(why, check) => {
            if check() {
                Ok(())
            } else {
                Err(format!("not run: {why}; and that is not so"))
            }
        }
    }
}

/// What stands between double quotes.
fn quoted(command: &str) -> Result<&str, String> {
    command.split('"').nth(1).ok_or_else(|| format!("no statement in {command}"))
}

/// A webhook is there when something is to be done with it, and none when one is added: without tiers a user has one.
async fn prepare(world: &World, command: &str) {
    if !command.contains("atcr-workers webhooks") {
        return;
    }
    world.stage.place.execute("DELETE FROM webhook_deliveries; DELETE FROM webhooks").await;
    if !command.contains("webhooks add") {
        let (did, url) = (&world.user.0, world.stage.net.webhooks().url());
        let insert = format!(
            "INSERT INTO webhooks (id, user_did, url, triggers, created_at, updated_at) VALUES (1, '{did}', '{url}/hook', 8, 1, 1)"
        );
        world.stage.place.execute(&insert).await;
    }
}

/// The id of a delivery is known only once it was made.
async fn with_what_is_there(world: &World, command: &str) -> String {
    const SHOWN: &str = "whd_mfrggzdfmztwq2lknnwg23tpoa";
    if !command.contains(SHOWN) {
        return command.to_owned();
    }
    world.shell("atcr-workers webhooks test 1").unwrap();
    let id = world.stage.place.lines("SELECT id AS line FROM webhook_deliveries").await.remove(0);
    command.replace(SHOWN, &id)
}

/// What was drained takes leases again, what was paused runs.
async fn put_back(world: &World, command: &str) {
    for (done, undo) in
        [("leases drain web1", "leases undrain web1"), ("leases pause backfill", "leases resume backfill")]
    {
        if command.contains(done) {
            let standing: Vec<Value> = world.stage.leases();
            assert_eq!(standing.len(), LEASES, "{standing:?}");
            world.shell(&format!("atcr-workers {undo}")).unwrap();
            world.until_all_run();
        }
    }
    if command.contains("/actions") {
        world.until_all_run();
    }
}

/// The last word of the guide's chapter on upgrades, and one that operators meet at the worst time.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_goes_on_beside_a_newer_schema_and_a_new_one_is_refused() {
    let world = World::new().await;
    let newer = "INSERT INTO __diesel_schema_migrations (version) VALUES ('20990101000000')";
    world.stage.place.execute(newer).await;
    for command in ["atcr-workers run", "atcr-workers migrate", "atcr-workers leases"] {
        let refused = world.shell(command).unwrap_err();
        assert!(refused.contains("exit status: 78") && refused.contains("of a newer version"), "{refused}");
    }
    let renewed = || {
        world
            .web
            .iter()
            .map(|web| web.metric("lease_renewals_total", &[("outcome", "ok")]).unwrap())
            .sum::<f64>()
    };
    let before = renewed();
    crate::support::eventually::eventually(
        "they go on to renew",
        crate::support::stage::PATIENCE,
        async || {
            if renewed() > before + 4.0 { Ok(()) } else { Err(before) }
        },
    )
    .await;
}

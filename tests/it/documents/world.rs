//! Where what is shown is run: two instances with every worker that needs no account elsewhere, a network in small around
//! them, a PostgreSQL of its own, and a folder that looks like the project's with a built program.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    documents::shown::root,
    support::{
        eventually::eventually_blocking,
        http,
        place::Kind,
        postgres::Postgres,
        process::{Instance, field},
        stage::{PATIENCE, Stage, until_ready},
    },
};

/// A wish that nobody fulfils takes 30 s to say so; what is run here is fulfilled.
const COMMAND_WITHIN: Duration = Duration::from_secs(90);

/// Who has it may act.
const TOKEN: &str = "only-for-the-tests-of-documents";

/// Of the stage's two instances.
pub(super) const LEASES: usize = 5;

pub(super) struct World {
    pub(super) stage: Stage,
    pub(super) postgres: &'static Postgres,
    pub(super) folder: TempDir,
    pub(super) web: [Instance; 2],
    /// An account of the index: its DID and its handle.
    pub(super) user: (String, String),
    database: String,
}

impl World {
    pub(super) async fn new() -> World {
        let stage = Stage::new(Kind::Sqlite).await;
        let (relays, labeler) = (stage.net.relay_urls().join(","), stage.net.labeler().did());
        let settings = [
            ("ATCR__NETWORK__ALLOW_LOOPBACK", "true"),
            ("ATCR__ADMIN__LISTEN", "127.0.0.1:0"),
            ("ATCR__ADMIN__TOKEN", TOKEN),
            ("ATCR__TELEMETRY__FORMAT", "json"),
            ("ATCR__BACKFILL__ENABLED", "true"),
            ("ATCR__BACKFILL__RELAY_URLS", relays.as_str()),
            ("ATCR__LABELER__DID", labeler.as_str()),
            ("ATCR__WEBHOOKS__ENABLED", "true"),
            ("ATCR__CLEANUP__ENABLED", "true"),
            ("ATCR__HOLD_HEALTH__ENABLED", "true"),
        ];
        let stage = settings.iter().fold(stage, |stage, (variable, value)| stage.with(variable, value));
        let did = stage.net.records("io.atcr.tag").keys().next().unwrap().0.clone();
        let handle = stage.net.account(&did).unwrap().handle;
        let web = ["web1", "web2"].map(|label| stage.start(label));
        web.iter().for_each(until_ready);
        let postgres = Postgres::shared();
        let database = postgres.fresh_database().await;
        let folder = project();
        let world = World { stage, postgres, folder, web, user: (did, handle), database };
        world.until_all_run();
        // Not by revisions: the backfill knows one of a whole repository.
        world.stage.says_what_the_source_says().await;
        // Its identity is looked up beside the stream.
        let known = format!("SELECT did AS line FROM users WHERE handle = '{}'", world.user.1);
        crate::support::eventually::eventually("the user's handle is known", PATIENCE, async || {
            let found = world.stage.place.lines(&known).await;
            if found.len() == 1 { Ok(()) } else { Err(found) }
        })
        .await;
        world
    }

    /// Waits until each worker runs somewhere.
    pub(super) fn until_all_run(&self) {
        eventually_blocking("every worker runs", PATIENCE, || {
            let leases = self.stage.leases();
            let all = leases.len() == LEASES && leases.iter().all(|lease| lease["state"] == "running");
            if all { Ok(()) } else { Err(leases) }
        });
    }

    /// What a document names, by what there is here.
    pub(super) fn put_in(&self, command: &str) -> String {
        let home = self.folder.path().display();
        let server = self.postgres.url("atcr");
        let server = server.split(['@', '/']).nth_back(1).unwrap();
        let own = format!("postgres://atcr:choose-one@{server}/atcr");
        [
            ("postgres://user:password@host/database", self.database.clone()),
            ("postgres://atcr:choose-one@host/atcr", own.clone()),
            ("postgres://atcr@db.example.com/atcr", own),
            ("did:plc:ewvi7nxzyoun6zhxrhs64oiz", self.user.0.clone()),
            ("alice.test", self.user.1.clone()),
            ("https://ci.example/hook", format!("{}/hook", self.stage.net.webhooks().url())),
            ("$TOKEN", TOKEN.to_owned()),
            ("127.0.0.1:9464", self.web[0].admin_address()),
            (" /usr/local/bin/", format!(" {home}/bin/")),
            (" /etc/systemd/system/", format!(" {home}/units/")),
            (" /etc/bash_completion.d/", format!(" {home}/units/")),
        ]
        .iter()
        .fold(command.to_owned(), |text, (shown, here)| text.replace(shown, here))
    }

    /// Runs it in a shell; Err with what it said if it does not end with 0.
    pub(super) fn shell(&self, command: &str) -> Result<String, String> {
        let (mut child, output) = self.spawn(command);
        let status = eventually_blocking(command, COMMAND_WITHIN, || {
            child.try_wait().unwrap().ok_or_else(|| fs::read_to_string(&output).unwrap())
        });
        let said = fs::read_to_string(&output).unwrap();
        if status.success() { Ok(said) } else { Err(format!("{command}: {status}\n{said}")) }
    }

    /// Starts an instance, waits until it is ready, and stops it in order.
    pub(super) fn instance(&self, command: &str) -> Result<(), String> {
        let (mut child, output) = self.spawn(&command.replacen("atcr-workers", "exec atcr-workers", 1));
        let said = || fs::read_to_string(&output).unwrap();
        let ready = eventually_blocking(command, COMMAND_WITHIN, || {
            if let Some(status) = child.try_wait().unwrap() {
                return Ok(Err(format!("{command}: {status}\n{}", said())));
            }
            let text = said();
            let address = text.lines().find_map(|line| field(line, "admin.address"));
            let Some(Value::String(address)) = address else { return Err(text) };
            let ready =
                http::get(&format!("http://{address}/readyz")).is_ok_and(|answer| answer.status == 200);
            if ready { Ok(Ok(())) } else { Err(text) }
        });
        ready?;
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status =
            eventually_blocking(command, COMMAND_WITHIN, || child.try_wait().unwrap().ok_or_else(said));
        if status.success() { Ok(()) } else { Err(format!("{command}: {status}\n{}", said())) }
    }

    /// Into a file, so that nobody has to read while it runs.
    fn spawn(&self, command: &str) -> (Child, PathBuf) {
        let output = self.folder.path().join("output");
        let file = File::create(&output).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_atcr-workers")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let child = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.folder.path())
            .env_clear()
            .envs(self.stage.environment("command"))
            .env("PATH", path)
            .env("HOME", self.folder.path())
            .env("HOOK_SECRET", "correct-horse")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn();
        (child.unwrap(), output)
    }
}

/// A folder with what the project's root has, and where the documents have something put.
fn project() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["settings", "tests", "actors", "benches"] {
        symlink(root().join(name), folder.path().join(name)).unwrap();
    }
    for name in ["target/release", "bin", "units", ".zfunc", ".config/fish/completions"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    symlink(env!("CARGO_BIN_EXE_atcr-workers"), folder.path().join("target/release/atcr-workers")).unwrap();
    folder
}

//! The least that a hand-over can take on this machine: bare clients, without the worker, its runtime or its tables.
//!
//! A lock handed over by unlocking it or by the end of who has it, a notification between two sessions, and as many
//! durable commits as the leases need, each measured from here as the worker is: from the signal to a line on stderr.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Instant;

use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::process::{Group, ms};

/// The hidden argument of [`client`].
pub(crate) const BARE: &str = "bare";

const KEY: i64 = 7;

/// Two bare clients of which one has the lock, two of which one listens, and a session that commits.
#[allow(clippy::large_enum_variant, reason = "there are two in a run")]
pub(crate) enum Floors {
    Sqlite { lock: Pair, commits: SqliteConnection },
    Postgres { lock: Pair, news: Group, commits: (Runtime, Client) },
}

/// Clients of one lock.
pub(crate) struct Pair {
    group: Group,
    client: String,
    what: &'static str,
    on: String,
    holder: usize,
}

impl Floors {
    /// In this directory.
    pub(crate) fn sqlite(directory: &Path) -> Floors {
        let lock = Pair::start("flock", directory.join("bare.lock").to_str().unwrap());
        let path = directory.join("bare.db");
        let mut commits = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
        let set_up = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE IF NOT EXISTS bare (n INTEGER NOT NULL); DELETE FROM bare; INSERT INTO bare VALUES (0)";
        commits.batch_execute(set_up).unwrap();
        Floors::Sqlite { lock, commits }
    }

    /// On the database of this address.
    pub(crate) fn postgres(url: &str) -> Floors {
        let mut news = Group::new();
        for what in ["listen", "notify"] {
            news.start(&myself(), &[BARE, what, url], &[]);
            news.line("there");
        }
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(connect(url));
        let set_up = "CREATE TABLE bare (n BIGINT NOT NULL); INSERT INTO bare VALUES (0)";
        runtime.block_on(client.batch_execute(set_up)).unwrap();
        Floors::Postgres { lock: Pair::start("lock", url), news, commits: (runtime, client) }
    }

    /// The milliseconds that a hand-over after this signal takes at least: SIGTERM means a release and a claim, SIGKILL
    /// a claim.
    pub(crate) fn sample(&mut self, signal: Signal) -> f64 {
        match self {
            Floors::Sqlite { lock, .. } if signal == Signal::KILL => lock.crash() + self.commit(),
            Floors::Postgres { lock, .. } if signal == Signal::KILL => lock.crash() + self.commit(),
            Floors::Sqlite { lock, .. } => lock.unlock() + self.commit() + self.commit(),
            Floors::Postgres { news, .. } => {
                let told = news.tell(1, "tell");
                ms(news.line("heard").at - told) + self.commit() + self.commit()
            }
        }
    }

    /// One durable commit.
    pub(crate) fn commit(&mut self) -> f64 {
        let begun = Instant::now();
        match self {
            Floors::Sqlite { commits, .. } => {
                commits.batch_execute("BEGIN IMMEDIATE; UPDATE bare SET n = n + 1; COMMIT").unwrap();
            }
            Floors::Postgres { commits: (runtime, client), .. } => {
                runtime.block_on(client.batch_execute("UPDATE bare SET n = n + 1")).unwrap();
            }
        }
        ms(begun.elapsed())
    }
}

impl Pair {
    fn start(what: &'static str, on: &str) -> Pair {
        let mut pair = Pair { group: Group::new(), client: myself(), what, on: on.to_owned(), holder: 0 };
        pair.group.start(&pair.client, &[BARE, what, on], &[]);
        pair.group.line("have");
        pair.group.start(&pair.client, &[BARE, what, on], &[]);
        pair.group.line("ask");
        pair
    }

    /// By unlocking; the old holder then waits again.
    fn unlock(&mut self) -> f64 {
        let told = self.group.tell(self.holder, "unlock");
        let have = self.group.line("have");
        self.group.tell(self.holder, "ask");
        self.holder = have.from;
        ms(have.at - told)
    }

    /// By a SIGKILL; another then waits in the old holder's place.
    fn crash(&mut self) -> f64 {
        let sent = self.group.signal(self.holder, Signal::KILL);
        let have = self.group.line("have");
        self.group.replace(self.holder, &self.client, &[BARE, self.what, &self.on], &[]);
        self.group.line("ask");
        self.holder = have.from;
        ms(have.at - sent)
    }
}

/// The client's side: says when it has the lock, or has heard. It ends with its input, or by a signal.
pub(crate) fn client(what: &str, on: &str) {
    match what {
        "flock" => with_file(on),
        "lock" => Builder::new_current_thread().enable_all().build().unwrap().block_on(with_lock(on)),
        "listen" => Builder::new_current_thread().enable_all().build().unwrap().block_on(listen(on)),
        "notify" => Builder::new_current_thread().enable_all().build().unwrap().block_on(notify(on)),
        other => panic!("no such client: {other}"),
    }
}

fn with_file(path: &str) {
    let file = File::options().create(true).append(true).open(path).unwrap();
    loop {
        say("ask");
        flock(&file, FlockOperation::LockExclusive).unwrap();
        say("have");
        if !told() {
            return;
        }
        flock(&file, FlockOperation::Unlock).unwrap();
        // Not before the other has it: the kernel does not queue.
        if !told() {
            return;
        }
    }
}

async fn with_lock(url: &str) {
    let client = connect(url).await;
    say("ask");
    client.execute("SELECT pg_advisory_lock($1)", &[&KEY]).await.unwrap();
    say("have");
    told();
}

async fn listen(url: &str) {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let listening = tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message, Ok(AsyncMessage::Notification(_))) {
                say("heard");
            }
        }
    });
    client.batch_execute("LISTEN bare").await.unwrap();
    say("there");
    listening.await.unwrap();
}

async fn notify(url: &str) {
    let client = connect(url).await;
    say("there");
    while told() {
        client.batch_execute("NOTIFY bare").await.unwrap();
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn myself() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

fn say(word: &str) {
    io::stderr().write_all(format!("{word}\n").as_bytes()).unwrap();
}

/// Waits for the next line. False: there is nobody any more.
fn told() -> bool {
    io::stdin().lock().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0)
}

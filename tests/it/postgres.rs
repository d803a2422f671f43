//! The private PostgreSQL is what other tests rely on: empty databases, a real restart, and nothing left behind.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use tokio_postgres::{Client, NoTls};

use crate::support::{
    eventually::eventually_blocking,
    postgres::{Postgres, Stop},
};

/// A crash stop takes well under a second; a loaded machine may take some more.
const GONE_WITHIN: Duration = Duration::from_secs(20);
/// Set for the process that [`a_killed_test_process_leaves_no_server_behind`] starts and kills.
const TO_BE_KILLED: &str = "ATCR_TEST_TO_BE_KILLED";

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn each_fresh_database_is_empty_and_its_own() {
    let server = Postgres::shared();
    for _ in 0..2 {
        let client = connect(&server.fresh_database().await).await;
        client.batch_execute("CREATE TABLE mine (id BIGINT)").await.unwrap();
    }
}

#[tokio::test]
async fn a_private_server_keeps_address_and_data_over_a_crash() {
    let server = Postgres::private_with(&[("max_connections", "20")]);
    let url = server.fresh_database().await;
    let client = connect(&url).await;
    client.batch_execute("CREATE TABLE kept (id BIGINT)").await.unwrap();

    server.stop(Stop::Immediate);
    assert!(tokio_postgres::connect(&url, NoTls).await.is_err());
    server.start();
    server.restart();

    let client = connect(&url).await;
    assert_eq!(client.query("SELECT * FROM kept", &[]).await.unwrap().len(), 0);
    let settings = client.query_one("SHOW max_connections", &[]).await.unwrap();
    assert_eq!(settings.get::<_, &str>(0), "20");
}

/// The test binary runs this same test again in a process of its own, which starts a server and is killed.
#[test]
fn a_killed_test_process_leaves_no_server_behind() {
    if std::env::var_os(TO_BE_KILLED).is_some() {
        let server = Postgres::private();
        println!("\nserver {} {}", server.pid(), server.directory().display());
        // Until it is killed, or whoever should kill it is gone.
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "postgres::a_killed_test_process_leaves_no_server_behind", "--nocapture"])
        .env(TO_BE_KILLED, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let server = lines.find_map(|line| line.strip_prefix("server ").map(str::to_owned)).unwrap();
    let (pid, directory) = server.split_once(' ').unwrap();
    let running = Path::new("/proc").join(pid);
    assert!(running.exists());

    process.kill().unwrap();
    process.wait().unwrap();

    eventually_blocking("server and directory are gone", GONE_WITHIN, || {
        match (running.exists(), Path::new(directory).exists()) {
            (false, false) => Ok(()),
            seen => Err(seen),
        }
    });
}

//! Life beside others: the service manager that is told, the parent that dies, the browser that looks, and the files of
//! `settings/deploy` that name our metrics.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::Signal;

use crate::support::{
    eventually::eventually_blocking,
    http,
    place::Kind,
    process::Exit,
    stage::{PATIENCE, SETTINGS, Stage, until_in},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_service_manager_is_told_ready_alive_and_stopping() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let stage = Stage::new(Kind::Sqlite).await;
    let stage = stage.with("NOTIFY_SOCKET", path.to_str().unwrap()).with("WATCHDOG_USEC", "300000");
    let mut instance = stage.start("told");
    let mut told = String::new();
    let mut until = |wanted: &[&str]| {
        while !wanted.iter().all(|wanted| told.contains(wanted)) {
            let mut some = [0; 512];
            let len = socket.recv(&mut some).expect("something is told");
            told.push_str(&String::from_utf8_lossy(&some[..len]));
            told.push('\n');
        }
        assert!(told.starts_with("READY=1"), "{told}");
        told.clear();
        told.push_str("READY=1");
    };
    until(&["STATUS=running here: jetstream"]);
    until(&["WATCHDOG=1"]);
    until(&["WATCHDOG=1"]);
    instance.signal(Signal::TERM);
    until(&["STOPPING=1"]);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_in_order_when_its_parent_is_killed() {
    let stage = Stage::new(Kind::Sqlite).await;
    let mut parent = Command::new("sh")
        .args(["-c", r#""$0" --settings "$1" run --exit-with-parent >&2 & echo $!; wait"#])
        .args([env!("CARGO_BIN_EXE_atcr-workers"), SETTINGS])
        .env_clear()
        .envs(stage.environment("child"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let process = format!("/proc/{}", pid.trim());
    eventually_blocking("the child has the lease", PATIENCE, || {
        let leases = stage.leases();
        if leases.iter().any(|lease| lease["state"] == "running") {
            Ok(())
        } else {
            Err(format!("{leases:?}"))
        }
    });
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually_blocking("the child is gone", PATIENCE, || {
        if Path::new(&process).exists() { Err(process.clone()) } else { Ok(()) }
    });
    let last = stage.history().await.pop().expect("a history");
    assert_eq!(last.3, "released", "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_with_all_that_it_needs_and_nothing_more() {
    let stage = Stage::new(Kind::Sqlite).await;
    let instance = stage.start("looked at");
    until_in(&instance, "running");
    let address = instance.admin_address();
    let get = |path: &str| http::get(&format!("http://{address}{path}")).unwrap();
    assert!(get("/").body.contains("<main"));
    assert!(get("/page.js").body.contains("EventSource"));
    assert_eq!(get("/../Cargo.toml").status, 404);
    assert_eq!(get("/nothing").status, 404);
    let state: serde_json::Value = serde_json::from_str(&get("/status.json").body).unwrap();
    assert_eq!(state["report"]["leases"][0]["name"], "jetstream", "{state}");
    assert_eq!(state["events"][0]["what"], "acquired", "{state}");
    let ready: serde_json::Value = serde_json::from_str(&get("/readyz").body).unwrap();
    assert_eq!((&ready["running"][0], &ready["standing_by"]), (&"jetstream".into(), &false.into()));

    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    let mut some = [0; 4096];
    while !text.contains("event: state") {
        let len = stream.read(&mut some).unwrap();
        assert_ne!(len, 0, "the events ended: {text}");
        text.push_str(&String::from_utf8_lossy(&some[..len]));
    }
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "x-frame-options: DENY",
    ] {
        assert!(text.contains(header), "{header} is not in {text}");
    }
    // An open page does not hold the end up.
    let mut instance = instance;
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(Duration::from_secs(10)), Exit::Code(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_need_neither_settings_nor_a_database() {
    let stage = Stage::new(Kind::Sqlite).await.with("ATCR__NO__SUCH", "setting");
    for shell in ["bash", "zsh", "fish"] {
        let (exit, text) = stage.command(&["completions", shell]);
        assert!(exit == Exit::Code(0) && text.contains("backfill"), "{shell}: {text}");
    }
}

/// What alert rules and the dashboard ask for and nobody measures would never show anything.
#[test]
fn every_metric_in_the_files_for_operators_is_one_of_ours() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut source = String::new();
    for folder in ["src", "actors/src"] {
        read_all(&root.join(folder), &mut source);
    }
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = fs::read_to_string(root.join("settings/deploy").join(file)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_metric =
            |word: &&str| ["atcr_", "lease_", "actor_"].iter().any(|start| word.starts_with(start));
        let asked: BTreeSet<&str> =
            words.filter(is_metric).map(|word| word.trim_end_matches("_bucket")).collect();
        assert!(asked.len() > 10, "{file}: {asked:?}");
        let unknown: Vec<_> = asked.iter().filter(|name| !source.contains(&format!("\"{name}\""))).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}");
    }
}

fn read_all(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

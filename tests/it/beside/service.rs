//! The service manager that is told, and the parent that dies.

use std::{
    io::{BufRead, BufReader},
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::Signal;

use crate::support::{
    eventually::eventually_blocking,
    place::Kind,
    process::Exit,
    stage::{PATIENCE, SETTINGS, Stage},
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

//! Where the database's file is: read-only, full, not a place for it, or on another machine.

use std::fs;

use rustix::process::Signal;

use super::{Started, says};
use crate::support::{
    eventually::eventually_blocking,
    machine::{
        SmallDisk, among_own_mounts, as_nobody, binary_for_all, give_to_nobody, open_folder, set_mode,
    },
    place::Place,
    process::Exit,
    stage::{PATIENCE, SETTINGS, Stage, until_in},
};

#[test]
fn a_directory_that_may_not_be_written_ends_with_1_and_is_named_with_the_user() {
    let Some(through) = as_nobody("a directory that may not be written") else { return };
    let folder = open_folder();
    let binary = binary_for_all(folder.path());
    let settings = folder.path().join("settings.toml");
    fs::copy(SETTINGS, &settings).unwrap();
    let place = folder.path().join("place");
    fs::create_dir(&place).unwrap();
    give_to_nobody(&place);
    let url = format!("sqlite://{}/atcr.db", place.display());
    let path = place.to_str().unwrap();
    let settings = settings.to_str().unwrap();
    let run = |command: &str| {
        let mut started = Started::with_files(&through, &binary, settings, &[command], &url);
        // Where the tests run may be out of that user's reach.
        started.command.current_dir("/");
        started.end()
    };
    set_mode(&place, 0o555);
    for command in ["run", "migrate"] {
        says(run(command), 1, &["open the database", "may not write to the directory", path, "65534"]);
    }
    // Who only looks makes no file.
    says(run("leases"), 1, &["there is no database at", path]);
    // With a database in it.
    set_mode(&place, 0o755);
    let (exit, said) = run("migrate");
    assert_eq!(exit, Exit::Code(0), "{said}");
    set_mode(&place, 0o555);
    for command in ["run", "leases"] {
        says(run(command), 1, &["open the database", "may not write to the directory", path]);
    }
    // And one that can be read only.
    set_mode(&place, 0o755);
    set_mode(&place.join("atcr.db"), 0o444);
    says(run("run"), 1, &["open the database", "may not read and write", "atcr.db"]);
}

#[test]
fn a_file_system_that_is_mounted_read_only_ends_with_1() {
    let folder = open_folder();
    let path = folder.path().to_str().unwrap();
    let script = format!("mount -t tmpfs -o ro atcr-it {path}");
    let Some(through) = among_own_mounts("a file system that is mounted read-only", &script) else { return };
    let url = format!("sqlite://{path}/atcr.db");
    for command in ["run", "migrate"] {
        let end = Started::new(&through, &[command], &url).end();
        says(end, 1, &["open the database", "mounted read-only", path]);
    }
}

/// What a lock of the kernel's proves on NFS, FUSE and the like is not what we need; `ramfs` stands for any file system
/// that is not known to be good. The numbers of those that are known to be bad are tested in `store/beacon`.
#[test]
fn a_file_system_whose_locks_are_not_known_ends_with_78_unless_leases_are_off() {
    let folder = open_folder();
    let path = folder.path().to_str().unwrap();
    let script = format!("mount -t ramfs atcr-it {path}");
    let Some(through) = among_own_mounts("an unknown file system", &script) else { return };
    let url = format!("sqlite://{path}/atcr.db");
    let end = Started::new(&through, &["run"], &url).end();
    says(end, 78, &["database.url", path, "unknown file system", "PostgreSQL", "leases.enabled = false"]);
    let alone = Started::new(&through, &["run"], &url).with([("ATCR__LEASES__ENABLED", "false")]);
    let mut alone = alone.start();
    alone.admin_address();
    alone.signal(Signal::TERM);
    assert_eq!(alone.wait_exit(PATIENCE), Exit::Code(0));
}

#[test]
fn a_place_that_is_none_is_named() {
    let folder = open_folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("text"), "hardly a database, but long enough to have been one").unwrap();
    fs::create_dir(at("directory")).unwrap();
    let cases = [
        ("missing/atcr.db", 1, "there is no directory"),
        ("text/atcr.db", 1, "text"),
        ("text", 78, "is not a SQLite database"),
        ("directory", 78, "is not a file"),
    ];
    for (name, code, text) in cases {
        let url = format!("sqlite://{}", at(name).display());
        let parent = at(name).parent().unwrap().to_str().unwrap().to_owned();
        says(Started::new(&[], &["run"], &url).end(), code, &["database", text, &parent]);
        let text = if name.starts_with("missing") { "there is no database at" } else { text };
        says(Started::new(&[], &["status"], &url).end(), code, &["database", text, &parent]);
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_ends_with_1() {
    let Some(disk) = SmallDisk::mount("a disk that is full at the start", 256) else { return };
    let path = disk.path().to_str().unwrap();
    let url = format!("sqlite://{path}/atcr.db");
    says(
        Started::new(&[], &["run"], &url).end(),
        1,
        &["migrate the database", "the file system of", path, "is full", "make room"],
    );
    disk.fill();
    says(Started::new(&[], &["run"], &url).end(), 1, &["database", path, "is full"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_up_costs_no_event_and_no_worker() {
    let Some(disk) = SmallDisk::mount("a disk that fills up", 8 * 1024) else { return };
    let stage = Stage::on(Place::in_folder(disk.path())).await;
    let mut instance = stage.start("full");
    until_in(&instance, "running");
    stage.changes(1, 20);
    stage.caught_up().await;
    let select = "SELECT CAST(time_us AS TEXT) AS line FROM stream_cursor";

    disk.fill();
    stage.changes(2, 200);
    instance.wait_for_line("it says that the disk is full", PATIENCE, |line| {
        line.contains("batch not written") && line.contains("full")
    });
    let stood = stage.place.lines(select).await;
    let refused = |least: f64| {
        eventually_blocking("batches are refused", PATIENCE, || {
            let count = instance.metric("atcr_index_writes_refused_total", &[]).unwrap_or_default();
            if count >= least { Ok(count) } else { Err(count) }
        })
    };
    let before = refused(1.0);
    refused(before + 2.0);
    assert_eq!(stage.place.lines(select).await, stood, "a position moved without its rows");

    disk.make_room();
    stage.caught_up().await;
    assert_eq!(instance.metric("actor_failures_total", &[]), None, "a full disk is no failure of the worker");
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(0));
}

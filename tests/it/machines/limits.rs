//! What a process is given, or is not: descriptors, standard streams, a home, a working directory.

use std::fs;

use rustix::process::Signal;

use super::{Started, says};
use crate::support::{
    eventually::eventually_blocking,
    http,
    machine::{Through, open_folder},
    ports,
    process::{Exit, Instance},
    stage::PATIENCE,
};

/// A shell that does this first.
fn after(script: &str) -> Through {
    let script = format!("{script}\nexec \"$@\"");
    vec!["/bin/sh".into(), "-ec".into(), script, "sh".into()]
}

#[test]
fn too_few_descriptors_end_with_1_and_some_are_enough() {
    let folder = open_folder();
    let url = format!("sqlite://{}/atcr.db", folder.path().display());
    for (limit, part) in [(5, "start:"), (12, "files open"), (16, "files open")] {
        let end = Started::new(&after(&format!("ulimit -n {limit}")), &["run"], &url).end();
        says(end, 1, &["ulimit -n", part]);
    }
    let mut enough = Started::new(&after("ulimit -n 64"), &["run"], &url).start();
    enough.admin_address();
    enough.wait_for_line("it is registered", PATIENCE, |line| line.contains("registered"));
    enough.signal(Signal::TERM);
    assert_eq!(enough.wait_exit(PATIENCE), Exit::Code(0));
}

#[test]
fn without_standard_streams_home_or_working_directory_it_runs() {
    let folder = open_folder();
    let url = format!("sqlite://{}/atcr.db", folder.path().display());
    let port = ports::free_block(1);
    let gone = folder.path().join("gone");
    let leave = format!("mkdir {0}; cd {0}; rmdir {0}", gone.display());
    for script in ["exec <&- >&- 2>&-", "unset HOME", &leave] {
        let listen = [("ATCR__ADMIN__LISTEN", format!("127.0.0.1:{port}"))];
        let mut instance = Started::new(&after(script), &["run"], &url).with(listen).start();
        eventually_blocking("it is ready", PATIENCE, || {
            match http::get(&format!("http://127.0.0.1:{port}/readyz")) {
                Ok(answer) if answer.status == 200 => Ok(()),
                other => Err(other.map(|answer| answer.body)),
            }
        });
        instance.signal(Signal::TERM);
        assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(0), "{script}");
    }
}

#[test]
fn a_relative_path_in_a_working_directory_that_is_gone_is_told() {
    let folder = open_folder();
    let gone = folder.path().join("gone");
    let through = after(&format!("mkdir {0}; cd {0}; rmdir {0}", gone.display()));
    let end = Started::new(&through, &["run"], "sqlite://atcr.db").end();
    says(end, 1, &["open the database", "atcr.db", "working directory is gone"]);
}

#[test]
fn an_answer_that_cannot_be_printed_ends_with_1() {
    let folder = open_folder();
    let url = format!("sqlite://{}/atcr.db", folder.path().display());
    let (exit, said) = Started::new(&[], &["migrate"], &url).end();
    assert_eq!(exit, Exit::Code(0), "{said}");
    let end = Started::new(&after("exec >/dev/full"), &["leases"], &url).end();
    says(end, 1, &["No space left"]);
}

#[test]
fn settings_that_cannot_be_read_end_with_78_and_name_the_file() {
    let folder = open_folder();
    let loops = folder.path().join("loop.toml");
    std::os::unix::fs::symlink(&loops, &loops).unwrap();
    let binary_file = folder.path().join("binary.toml");
    fs::write(&binary_file, [0xff, 0xfe, 0x00]).unwrap();
    for (path, part) in [(folder.path(), "directory"), (&loops, "symbolic links"), (&binary_file, "UTF-8")] {
        let mut refused = Instance::spawn(&["--settings", path.to_str().unwrap(), "run"], &[]);
        assert_eq!(refused.wait_exit(PATIENCE), Exit::Code(78), "{path:?}");
        let said = refused.lines().join("\n");
        assert!(said.contains(path.to_str().unwrap()) && said.contains(part), "{said}");
    }
}

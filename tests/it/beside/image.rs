//! The container image: its file linted, its steps performed here without an engine, and the result run as an engine runs
//! it: a root file system of its own that is read-only, a volume, a user without a name, a network of its own.
//!
//! The program in it is the one of these tests, beside this machine's C library. `ATCR_TEST_IMAGE=release` builds it as the
//! file says, with the C library linked in, as musl is in the image.

mod parse;
mod perform;

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

pub(super) use self::parse::Containerfile;
use super::deployed;
use crate::support::{
    eventually::eventually_blocking,
    machine::{in_own_network, open_folder},
    process::{Exit, Instance},
    programs::{Judge, on_path, run},
    stage::PATIENCE,
};

/// Of the image as it is shipped: what a machine downloads before the first start.
const SHIPPED_BYTES_MAX: u64 = 40 << 20;

#[test]
fn hadolint_has_nothing_to_say_about_the_container_file() {
    let file = deployed("Containerfile");
    let Some(verdict) = Judge::Hadolint.ask(&["--failure-threshold", "style", file.to_str().unwrap()], "")
    else {
        return;
    };
    assert!(verdict.passed && verdict.said.trim().is_empty(), "{}", verdict.said);
}

#[test]
fn the_image_runs_read_only_as_nobody_and_keeps_its_database_in_the_volume() {
    let file = Containerfile::read();
    let Some(image) = perform::image(&file) else { return };
    let folder = open_folder();
    let (root, volume) = (folder.path().join("root"), folder.path().join("volume"));
    fs::create_dir_all(&volume).unwrap();
    assert!(run(Command::new("cp").arg("-a").arg(&image).arg(&root), "").passed);
    let size = size_of(&root);
    if perform::is_shipped() {
        println!("the image has {} KiB", size >> 10);
        assert!(size < SHIPPED_BYTES_MAX, "{size} bytes");
    }
    let Some(mut started) = start(&file, &root, &volume, "run the image") else { return };
    let pid = inner(&started);
    let ready = eventually_blocking("it is ready", PATIENCE, || {
        let answer = get(pid, "/readyz");
        if answer.contains("200 OK") { Ok(answer) } else { Err((answer, started.lines())) }
    });
    assert!(ready.contains("\"ready\":true"), "{ready}");
    let said = started.lines().join("\n");
    assert!(!said.contains("certificate authorities"), "{said}");
    assert!(said.contains("0.0.0.0:9464"), "{said}");
    assert!(volume.join("atcr.db").exists(), "the database is in the volume");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
    assert_eq!(of("Uid:").split_whitespace().next(), Some("65532"));
    assert_eq!((of("CapEff:").as_str(), of("NoNewPrivs:").as_str()), ("0000000000000000", "1"));

    // As `compose exec one /atcr-workers leases` does.
    let since = Instant::now();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    assert_eq!(started.wait_exit(PATIENCE), Exit::Code(0));
    assert!(since.elapsed() < Duration::from_secs(20), "an engine's grace");
}

/// Runs the image's program as an engine does. None: said.
fn start(file: &Containerfile, root: &Path, volume: &Path, what: &str) -> Option<Instance> {
    let (user, group) = file.user();
    if !rustix::process::geteuid().is_root() {
        crate::support::programs::not_run(what, "needs root");
        return None;
    }
    // The mounts that each engine adds; all else is the image's, and read-only.
    let script = format!(
        "ip link set lo up
         cd {root}
         mount --bind . .
         cd {root}
         mkdir -p proc dev sys etc
         touch etc/resolv.conf etc/hosts dev/null dev/zero dev/full dev/random dev/urandom
         mount --bind {volume} data
         chown {user}:{group} data
         for file in etc/resolv.conf etc/hosts dev/null dev/zero dev/full dev/random dev/urandom; do mount --bind /$file $file; done
         mount -t proc proc proc
         mount -o remount,bind,ro .",
        root = root.display(),
        volume = volume.display()
    );
    in_own_network(what, "true")?;
    let unshare = on_path("unshare")?;
    let program = &file.entrypoint()[0];
    let inner = format!(
        "{script}
         exec {setpriv} --no-new-privs {unshare} --root={root} --wd=/data --setgid={group} --setuid={user} {program} run",
        setpriv = on_path("setpriv")?.display(),
        unshare = unshare.display(),
        root = root.display(),
    );
    let mut command = Command::new(unshare);
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "/bin/sh", "-ec", &inner]);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").envs(file.environment());
    // Nothing outside is asked, even if there were a way.
    command
        .env("ATCR__JETSTREAM__URLS", "ws://127.0.0.1:1/subscribe")
        .env("ATCR__NETWORK__ALLOW_LOOPBACK", "true");
    command.env("ATCR__BACKFILL__ENABLED", "false");
    Some(Instance::spawn_as(&mut command))
}

/// The program itself, by its number out here: the child of what started it.
fn inner(started: &Instance) -> i32 {
    let children = format!("/proc/{0}/task/{0}/children", started.pid());
    eventually_blocking("it is started", PATIENCE, || {
        let child = fs::read_to_string(&children).unwrap_or_default();
        let child: i32 =
            child.split_whitespace().next().and_then(|pid| pid.parse().ok()).ok_or("no child")?;
        let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        if name.trim() == "atcr-workers" { Ok(child) } else { Err("not yet") }
    })
}

/// Asks within its network.
fn get(pid: i32, path: &str) -> String {
    let ask = format!(
        "exec 3<>/dev/tcp/127.0.0.1/9464 && printf 'GET {path} HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && cat <&3"
    );
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target", &pid.to_string(), "bash", "-c", &ask]);
    run(&mut command, "").said
}

fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let metadata = entry.path().symlink_metadata().unwrap();
            if metadata.is_dir() { size_of(&entry.path()) } else { metadata.len() }
        })
        .sum()
}

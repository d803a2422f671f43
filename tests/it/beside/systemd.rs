//! The unit under a systemd of its own, which is the first process of a container made of this machine's files: the program
//! is started, told of, killed, frozen and misled, and what the manager then does is what the unit and the documentation say.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use super::deployed;
use crate::support::{
    eventually::eventually_blocking,
    machine::open_folder,
    programs::{Judge, Verdict, not_run, on_path, run},
    stage::{PATIENCE, SETTINGS},
};

const WHAT: &str = "the unit under a systemd of its own";

/// Each takes some milliseconds, and the kernel some more to end the last process.
const RMDIRS_MAX: usize = 1000;

/// As short as a loaded machine allows; the unit's own is thirty seconds.
const WATCHDOG: Duration = Duration::from_secs(3);

/// Makes a container of this machine's files ($1, a folder for what differs) and starts systemd in it. Of what a machine
/// does at boot nothing is left but the journal.
const BOOT: &str = r#"
mount --make-rprivate /
mount -t tmpfs -o mode=755 atcr-it "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" overlay "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount --rbind /dev dev
rm -rf etc/systemd/system/*
find lib/systemd/system/*.wants/ -type l ! -name '*journald*' -delete
mkdir -p etc/systemd/system/atcr-workers.service.d etc/atcr-workers usr/local/bin tmp/old
install -m 755 "$2" usr/local/bin/atcr-workers
cp "$3" etc/systemd/system/atcr-workers.service
cp "$4" etc/atcr-workers/settings.toml
printf '[Service]\nWatchdogSec=%s\n' "$5" >etc/systemd/system/atcr-workers.service.d/short.conf
: >etc/machine-id
pivot_root . tmp/old
umount -l /tmp/old
exec /lib/systemd/systemd --system --unit=atcr-workers.service
"#;

#[test]
fn the_manager_starts_the_program_again_unless_its_settings_are_wrong() {
    let Some(manager) = Manager::boot() else { return };
    manager.until("it is active", |of| of("ActiveState") == "active");
    manager.until("it says what runs here", |of| of("StatusText") == "running here: cleanup");
    let private = manager.sh("stat -c '%a' /var/lib/private/atcr-workers; ls /var/lib/private/atcr-workers");
    assert!(private.said.starts_with("700\n") && private.said.contains("atcr.db"), "{private:?}");

    // A crash: again after a second.
    manager.sh("systemctl kill --kill-whom=main --signal=KILL atcr-workers");
    manager.until("it is started again", |of| of("NRestarts") == "1" && of("ActiveState") == "active");
    manager.until("it works again", |of| of("StatusText") == "running here: cleanup");

    // A process that lives and does nothing: the watchdog ends it.
    manager.sh("systemctl kill --kill-whom=main --signal=STOP atcr-workers");
    manager.until("it is started again", |of| of("NRestarts") == "2" && of("ActiveState") == "active");
    assert!(manager.journal().contains("Watchdog timeout"), "{}", manager.journal());
    manager.until("it works again", |of| of("StatusText") == "running here: cleanup");

    // A stop in order.
    let stopped = manager.sh("systemctl stop atcr-workers");
    assert!(stopped.passed, "{stopped:?}");
    manager.until("it has stopped", |of| {
        of("ActiveState") == "inactive" && of("Result") == "success" && of("ExecMainStatus") == "0"
    });

    // Wrong settings: once, and not again.
    manager.sh("echo 'no = settings' >/etc/atcr-workers/settings.toml; systemctl start atcr-workers");
    manager.until("it has failed", |of| of("ActiveState") == "failed" && of("ExecMainStatus") == "78");
    assert!(manager.journal().contains("settings refused"), "{}", manager.journal());
}

/// A running systemd. Dropping it ends everything in its container.
struct Manager {
    child: Child,
    cgroup: PathBuf,
    _folder: TempDir,
}

impl Manager {
    /// None: said.
    fn boot() -> Option<Self> {
        Judge::SystemdAnalyze.find()?;
        if !rustix::process::geteuid().is_root() {
            not_run(WHAT, "needs root");
            return None;
        }
        let unshare = on_path("unshare").or_else(|| {
            not_run(WHAT, "no unshare: install util-linux");
            None
        })?;
        let cgroup = own_cgroup()?;
        let folder = open_folder();
        let settings = folder.path().join("settings.toml");
        let cleanup = "\n[cleanup]\nenabled = true\n";
        let text = fs::read_to_string(SETTINGS).unwrap().replace("\n[cleanup]\nenabled = false\n", cleanup);
        assert!(text.contains(cleanup));
        fs::write(&settings, text).unwrap();
        let (container, log) = (folder.path().join("container"), folder.path().join("log"));
        fs::create_dir(&container).unwrap();
        let enter = r#"echo $$ >"$0/cgroup.procs"; exec "$@""#;
        let child = Command::new("/bin/sh")
            .args(["-ec", enter])
            .arg(&cgroup)
            .arg(unshare)
            .args(["--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child"])
            .args(["/bin/sh", "-ec", BOOT, "sh"])
            .args([container.as_path(), Path::new(env!("CARGO_BIN_EXE_atcr-workers"))])
            .args([&deployed("atcr-workers.service"), &settings])
            .arg(WATCHDOG.as_secs().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut manager = Self { child, cgroup, _folder: folder };
        let booted = eventually_blocking("systemd answers, or has ended", PATIENCE, || {
            match manager.child.try_wait().unwrap() {
                Some(_) => Ok(false),
                None => manager.answers().then_some(true).ok_or("it does not answer yet"),
            }
        });
        if !booted {
            not_run(WHAT, fs::read_to_string(&log).unwrap_or_default().trim());
        }
        booted.then_some(manager)
    }

    fn answers(&self) -> bool {
        self.pid().is_some() && self.sh("systemctl show --property=Version").said.contains("Version=")
    }

    /// The number of its first process, out here.
    fn pid(&self) -> Option<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = fs::read_to_string(children).ok()?;
        let pid = children.split_whitespace().next()?.parse().ok()?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (name.trim() == "systemd").then_some(pid)
    }

    /// Runs a script within.
    fn sh(&self, script: &str) -> Verdict {
        let Some(pid) = self.pid() else {
            return Verdict { passed: false, said: "systemd is not there".to_owned() };
        };
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid.to_string(), "--all", "--root", "--wd", "/bin/sh", "-c", script]);
        run(&mut command, "")
    }

    /// Waits until the unit's properties are so.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&dyn Fn(&str) -> String) -> bool) {
        let names = "ActiveState,Result,StatusText,NRestarts,ExecMainStatus";
        eventually_blocking(what, PATIENCE * 2, || {
            let shown = self.sh(&format!("systemctl show atcr-workers --property={names}")).said;
            let of = |name: &str| -> String {
                let line = shown.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
                line.unwrap_or_default().to_owned()
            };
            if is_so(&of) { Ok(()) } else { Err(format!("{shown}\n{}", self.journal())) }
        });
    }

    fn journal(&self) -> String {
        self.sh("journalctl --no-pager --unit=atcr-workers --lines=30").said
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The last of its processes leave it a moment later. No panic here: a test may be failing.
        for _ in 0..RMDIRS_MAX {
            let mut remove = Command::new("find");
            remove.arg(&self.cgroup).args(["-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
            run(&mut remove, "");
            if !self.cgroup.exists() {
                return;
            }
        }
    }
}

/// A control group for it alone: it takes what it finds for its own. None: said.
fn own_cgroup() -> Option<PathBuf> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let Some(root) = roots
        .into_iter()
        .find(|root| root.join("cgroup.procs").exists() && root.join("cgroup.controllers").exists())
    else {
        not_run(WHAT, "no control groups of the second version");
        return None;
    };
    let cgroup = root.join(format!("atcr-it-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&cgroup) {
        not_run(WHAT, &format!("{}: {error}", cgroup.display()));
        return None;
    }
    Some(cgroup)
}

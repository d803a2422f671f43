//! A machine that is not as it should be: other users, other mounts, small disks and wrong clocks. What this one does not
//! permit is said, and the test that wants it is left out.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::programs::{not_run, on_path, run};

/// `nobody`, where no distribution gives it another number.
const NOBODY: u32 = 65_534;

/// What a program is started by: words that come before it.
pub(crate) type Through = Vec<String>;

/// Starts a program as a user who owns nothing; we ourselves, unless we are root. None: said.
pub(crate) fn as_nobody(what: &str) -> Option<Through> {
    if !rustix::process::geteuid().is_root() {
        return Some(Vec::new());
    }
    let words = format!("--reuid={NOBODY} --regid={NOBODY} --clear-groups --no-new-privs");
    let through: Through = words.split(' ').map(str::to_owned).collect();
    possible(what, [vec![program("setpriv", what)?], through].concat())
}

/// Starts a program after this script, among mounts of its own. None: said.
pub(crate) fn among_own_mounts(what: &str, script: &str) -> Option<Through> {
    let script = format!("{script}\nexec \"$@\"");
    let unshare = program("unshare", what)?;
    possible(what, vec![unshare, "--mount".into(), "/bin/sh".into(), "-ec".into(), script, "sh".into()])
}

/// Starts a program in a network that has nothing but loopback, after this script. None: said.
pub(crate) fn in_own_network(what: &str, script: &str) -> Option<Through> {
    let script = format!("{script}\nexec \"$@\"");
    let unshare = program("unshare", what)?;
    let words =
        vec![unshare, "--mount".into(), "--net".into(), "/bin/sh".into(), "-ec".into(), script, "sh".into()];
    possible(what, words)
}

/// The variables of a process whose wall clock says this: `@2100-01-01 00:00:00`, or `-10d`. None: said.
pub(crate) fn at_time(what: &str, time: &str) -> Option<Vec<(&'static str, String)>> {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let library =
        folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|path| path.is_file());
    let Some(library) = library else {
        not_run(what, "no libfaketime: install libfaketime");
        return None;
    };
    Some(vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", time.to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("FAKETIME_DONT_RESET", "1".to_owned()),
        ("TZ", "UTC".to_owned()),
    ])
}

/// A folder that is nobody's to be found, and everybody's to enter.
pub(crate) fn open_folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("atcr-machine-").tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    folder
}

/// Our program where any user may start it.
pub(crate) fn binary_for_all(folder: &Path) -> PathBuf {
    let binary = folder.join("atcr-workers");
    fs::copy(env!("CARGO_BIN_EXE_atcr-workers"), &binary).unwrap();
    set_mode(&binary, 0o755);
    binary
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives it to the user of [`as_nobody`].
pub(crate) fn give_to_nobody(path: &Path) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// A disk of its own, as small as this. Dropping it unmounts it.
pub(crate) struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// None: said.
    pub(crate) fn mount(what: &str, kilobytes: u32) -> Option<Self> {
        let mount = program("mount", what)?;
        let folder = open_folder();
        let mut command = Command::new(mount);
        command
            .args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k,mode=777"), "atcr-it"])
            .arg(folder.path());
        let verdict = run(&mut command, "");
        if !verdict.passed {
            not_run(what, verdict.said.trim());
            return None;
        }
        Some(Self { folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&self) {
        let mut file = fs::File::create(self.folder.path().join("full")).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    }

    /// Gives it back.
    pub(crate) fn make_room(&self) {
        fs::remove_file(self.folder.path().join("full")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("-l").arg(self.folder.path()), "");
    }
}

fn program(name: &str, what: &str) -> Option<String> {
    let found = on_path(name);
    if found.is_none() {
        not_run(what, &format!("no {name}: install util-linux"));
    }
    found.map(|path| path.to_str().unwrap().to_owned())
}

/// Tries it with a program that does nothing.
fn possible(what: &str, through: Through) -> Option<Through> {
    let Some((first, rest)) = through.split_first() else { return Some(through) };
    let verdict = run(Command::new(first).args(rest).arg("/bin/true"), "");
    if !verdict.passed {
        not_run(what, verdict.said.trim());
        return None;
    }
    Some(through)
}

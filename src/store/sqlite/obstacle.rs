//! What stands in the way of a database file, for whoever has to remove it: SQLite says only that it cannot open it, or
//! that the disk is full, and not which.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};

/// What each SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Less than this is full: a transaction of ours, and what SQLite keeps beside the file. At half of it one might still
/// fail that we do not explain; at double, a small disk is called full which is not.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// A process that has fewer descriptors left cannot open a database: the file, its log, its index and the beacon.
const DESCRIPTORS_MIN: u64 = 6;

/// What is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Obstacle {
    /// It is no database: a restart cannot help.
    NotADatabase(String),
    /// Of the machine.
    Machine(String),
}

/// What stands in the way, as far as the file system tells. Only where the database did not open: whoever opens SQLite's
/// files beside SQLite, and closes them, drops its locks.
pub(in crate::store) fn of_opening(path: &Path) -> Option<Obstacle> {
    let machine = |text: Option<String>| text.map(Obstacle::Machine);
    machine(no_descriptors())
        .or_else(|| not_a_file(path))
        .or_else(|| machine(no_directory(path)))
        .or_else(|| machine(unwritable(path)))
        .or_else(|| not_ours(path))
        .or_else(|| machine(full(path)))
}

/// Why it could not be written, as far as the machine tells; it may be open.
pub(in crate::store) fn of_writing(path: &Path) -> Option<String> {
    of_working(path).or_else(|| full(path))
}

/// Why nothing can be done with it although it is open. A disk that is full now is not among it: room may be made.
pub(in crate::store) fn of_working(path: &Path) -> Option<String> {
    no_descriptors().or_else(|| unwritable(path))
}

fn unwritable(path: &Path) -> Option<String> {
    let beside = "SQLite keeps files beside the database";
    let directory = directory(path);
    let of_directory = access(&directory, Access::WRITE_OK | Access::EXEC_OK);
    let of_file = if path.exists() { access(path, Access::READ_OK | Access::WRITE_OK) } else { Ok(()) };
    let user = geteuid().as_raw();
    match (of_directory, of_file) {
        (Err(Errno::ROFS), _) | (_, Err(Errno::ROFS)) => Some(format!(
            "{} is on a file system that is mounted read-only: mount it writable, or choose another place",
            path.display()
        )),
        (Err(Errno::ACCESS), _) => Some(format!(
            "user {user} may not write to the directory {}, and {beside}: give it to that user, or choose another place",
            directory.display()
        )),
        (_, Err(Errno::ACCESS)) => Some(format!(
            "user {user} may not read and write {}: give it to that user, or run as its owner",
            path.display()
        )),
        _ => None,
    }
}

fn no_descriptors() -> Option<String> {
    let limit = getrlimit(Resource::Nofile).current?;
    // It takes one to count; where none is left, that is the answer.
    let used = fs::read_dir("/proc/self/fd").map_or(limit, |entries| entries.count() as u64);
    (used + DESCRIPTORS_MIN > limit).then(|| {
        format!("this process may have {limit} files open, and has {used}: raise the limit (ulimit -n, LimitNOFILE)")
    })
}

fn not_a_file(path: &Path) -> Option<Obstacle> {
    let kind = path.metadata().ok()?.file_type();
    let text = format!("{} is not a file: name the file itself", path.display());
    (!kind.is_file()).then_some(Obstacle::NotADatabase(text))
}

fn no_directory(path: &Path) -> Option<String> {
    let directory = directory(path);
    if path.is_relative() && std::env::current_dir().is_err() {
        let text =
            "is relative, and the working directory is gone: start in one that exists, or name it absolutely";
        return Some(format!("{} {text}", path.display()));
    }
    match directory.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("there is no directory {}: make it, or correct the path", directory.display()))
        }
        Err(error) => Some(format!("the directory {}: {error}", directory.display())),
        Ok(found) if !found.is_dir() => Some(format!("{} is not a directory", directory.display())),
        Ok(_) => None,
    }
}

fn not_ours(path: &Path) -> Option<Obstacle> {
    let mut start = [0; MAGIC.len()];
    let len = File::open(path).and_then(|mut file| file.read(&mut start)).ok()?;
    let text = format!("{} is not a SQLite database: name another file", path.display());
    (len > 0 && start[..len] != MAGIC[..len]).then_some(Obstacle::NotADatabase(text))
}

fn full(path: &Path) -> Option<String> {
    let system = statvfs(directory(path)).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    (free < FREE_BYTES_MIN)
        .then(|| format!("the file system of {} is full, with {free} bytes left: make room", path.display()))
}

fn directory(path: &Path) -> PathBuf {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_is_named_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("text"), "not a database, whatever its name").unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::write(at("good"), [MAGIC.as_slice(), &[0; 84]].concat()).unwrap();
        let machine = |path: PathBuf| match of_opening(&path) {
            Some(Obstacle::Machine(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(machine(at("missing/a.db")).contains(&format!("no directory {}", at("missing").display())));
        assert!(machine(at("text/a.db")).contains("text"));
        for (path, text) in [(at("text"), "not a SQLite database"), (folder.path().to_owned(), "not a file")]
        {
            let Some(Obstacle::NotADatabase(said)) = of_opening(&path) else { panic!("{path:?}") };
            assert!(said.contains(text) && said.contains(path.to_str().unwrap()), "{said}");
        }
        for name in ["empty", "good", "new"] {
            assert_eq!(of_opening(&at(name)), None, "{name}");
        }
        assert_eq!(of_writing(&at("good")), None);
    }
}

//! A beacon: a file that its process keeps locked for as long as it lives. The kernel unlocks it at the process's end,
//! however that comes.
//!
//! `flock`, not `fcntl`, whose locks vanish when any descriptor of the file is closed. Rust opens files close-on-exec,
//! so that a child does not keep its parent's lock (tox-dev/filelock#634).

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use leased_actors::lease::Incarnation;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::place::{FileId, Place};

/// Our own beacon. Dropping it frees the lock: others take that for the proof that the process has ended.
#[derive(Debug)]
pub(super) struct Beacon {
    _locked: File,
    pub(super) id: FileId,
    path: PathBuf,
}

impl Beacon {
    /// Makes and locks the beacon of a new incarnation. It must not be known to anybody before.
    pub(super) fn light(place: &Place, me: Incarnation) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(place.beacons())?;
        let path = place.beacon(me);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let beacon = Self { id: FileId::of(&file)?, _locked: file, path };
        // Between its making and its locking, a sweep may have taken it for a dead one's.
        if beacon.is_in_place()? { Ok(beacon) } else { Err(io::Error::other("swept away; try again")) }
    }

    /// Whether its path still leads to it: if not, nobody can see that this process lives.
    pub(super) fn is_in_place(&self) -> io::Result<bool> {
        Ok(FileId::at(&self.path)? == Some(self.id))
    }
}

/// Opens a beacon to try its lock. Without waiting, whatever somebody put there.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Whether the lock of *that* file is free, which proves that its process has ended, for good. A missing or another file
/// proves nothing.
pub(super) fn proves_death(place: &Place, who: Incarnation, id: FileId) -> bool {
    open(&place.beacon(who)).is_ok_and(|file| {
        FileId::of(&file).is_ok_and(|found| found == id)
            && flock(&file, FlockOperation::NonBlockingLockShared).is_ok()
    })
}

/// Removes the beacon of an incarnation whose row is dead: the name never comes again. What cannot be removed is left to
/// the next sweep.
pub(super) fn remove(place: &Place, who: Incarnation) {
    let _ = fs::remove_file(place.beacon(who));
}

/// Locks every beacon that nobody has locked, so that none of them can become a living one's any more, and names it.
/// What of it has no living row may be removed.
pub(super) fn orphans(place: &Place) -> Vec<(Incarnation, File)> {
    let entries = fs::read_dir(place.beacons()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let locked = names.filter_map(|who| {
        let file = open(&place.beacon(who)).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| (who, file))
    });
    locked.take(ORPHANS_MAX).collect()
}

/// Beacons that one sweep looks at: each is an open file for a moment. The next registration sweeps the rest.
const ORPHANS_MAX: usize = 64;

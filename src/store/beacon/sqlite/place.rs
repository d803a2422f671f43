//! Where the database file is, which file it was when it was opened, and what lies beside it.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use leased_actors::lease::Incarnation;

/// A file, whatever its path. A number is used again only when nobody has the file open any more. With a sign, as
/// databases keep numbers; the bits are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct FileId {
    pub(in crate::store) device: i64,
    pub(in crate::store) inode: i64,
}

impl FileId {
    /// Which file this is.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(Self::from)
    }

    /// Which file the path leads to; none = to no file.
    pub(super) fn at(path: &Path) -> io::Result<Option<Self>> {
        match path.metadata() {
            Ok(metadata) => Ok(Some(metadata.into())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl From<Metadata> for FileId {
    fn from(metadata: Metadata) -> Self {
        Self { device: metadata.dev().cast_signed(), inode: metadata.ino().cast_signed() }
    }
}

/// The database's place.
#[derive(Debug)]
pub(in crate::store) struct Place {
    path: PathBuf,
    opened: OnceLock<Opened>,
}

#[derive(Debug)]
struct Opened {
    id: FileId,
    /// The path without symbolic links, so that all who use the file by whatever path look beside the same one.
    real: PathBuf,
}

impl Place {
    /// The place that the settings name.
    pub(in crate::store) fn new(path: PathBuf) -> Self {
        Self { path, opened: OnceLock::new() }
    }

    /// The path as the settings name it.
    pub(in crate::store) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes which file was opened; fails if it is not the file that was opened first.
    pub(in crate::store) fn opened(&self) -> io::Result<()> {
        if self.opened.get().is_none() {
            let id = self.path.metadata()?.into();
            let _ = self.opened.set(Opened { id, real: self.path.canonicalize()? });
        }
        if self.is_mine()? { Ok(()) } else { Err(self.replaced()) }
    }

    /// Whether the path still leads to the file that was opened.
    pub(super) fn is_mine(&self) -> io::Result<bool> {
        Ok(FileId::at(&self.path)? == self.opened.get().map(|opened| opened.id))
    }

    /// What to say when it does not.
    pub(super) fn replaced(&self) -> io::Error {
        io::Error::other(format!(
            "{} is no longer the file that was opened: put that one back, or start again to use this one",
            self.path.display()
        ))
    }

    /// The directory of the beacons.
    pub(super) fn beacons(&self) -> PathBuf {
        self.beside(".beacons")
    }

    /// The beacon of an incarnation.
    pub(super) fn beacon(&self, who: Incarnation) -> PathBuf {
        self.beacons().join(who.to_string())
    }

    /// The file that is touched when leases came free or the living have changed.
    pub(super) fn notify(&self) -> PathBuf {
        self.beside(".notify")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.opened.get().map_or(&self.path, |opened| &opened.real).as_os_str().to_owned();
        path.push(suffix);
        path.into()
    }
}

//! Beacons: what proves to others that a process lives, better than its renewals do.

pub(super) mod postgres;
pub(super) mod sqlite;

/// What an instance's row says of its beacon.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// The key of an advisory lock.
    pub(super) key: Option<i64>,
    /// The device and the inode of a locked file.
    pub(super) file: Option<(i64, i64)>,
    /// The server's timeline; 0 where there is none, or it does not say. A server that is promoted, or restored from a
    /// snapshot, begins a new one: with it in front, epochs rise whatever was lost.
    pub(super) timeline: i64,
}

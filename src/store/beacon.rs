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
}

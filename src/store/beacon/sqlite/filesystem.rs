//! Which file systems a file lock can be trusted on: those where it is the kernel's own, seen by all who see the file,
//! and gone with its process.

use std::path::Path;

/// Local file systems, by the number that the kernel gives them (`statfs(2)`).
///
/// On overlayfs a lock belongs to the file as the mount shows it, so it works for all who use the same mount in one
/// kernel; containers with a mount each would not share the database's file either.
const ACCEPTED: [(u32, &str); 7] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlayfs"),
];

/// Where locks are another machine's or a program's affair: only to name them.
const REFUSED: [(u32, &str); 8] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x786f_4256, "a VirtualBox shared folder"),
    (0x4d44, "FAT"),
];

/// The name of the file system of the directory that `database` is in, if it is one to refuse. None also where it
/// cannot be told: opening the database will tell why.
pub(in crate::store) fn refused(database: &Path) -> Option<String> {
    let real = database.canonicalize().unwrap_or_else(|_| database.to_owned());
    let directory = real.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let kind = rustix::fs::statfs(directory).ok()?.f_type;
    // All of the kernel's numbers have 32 bits; the field is wider, or signed, on some machines.
    judge(kind as u32).err()
}

fn judge(kind: u32) -> Result<&'static str, String> {
    let named = |list: &[(u32, &'static str)]| list.iter().find(|(k, _)| *k == kind).map(|(_, name)| *name);
    named(&ACCEPTED)
        .ok_or_else(|| named(&REFUSED).map_or(format!("an unknown file system ({kind:#x})"), str::to_owned))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// From the kernel's `include/uapi/linux/magic.h`, and OpenZFS.
    #[test]
    fn only_file_systems_with_the_kernels_own_locks_are_accepted() {
        let table = [
            (0xEF53, Ok("ext4")),
            (0x5846_5342, Ok("xfs")),
            (0x9123_683E, Ok("btrfs")),
            (0x2FC1_2FC1, Ok("zfs")),
            (0xF2F5_2010, Ok("f2fs")),
            (0x0102_1994, Ok("tmpfs")),
            (0x794C_7630, Ok("overlayfs")),
            (0x6969, Err("NFS")),
            (0xFF53_4D42, Err("CIFS")),
            (0xFE53_4D42, Err("SMB")),
            (0x6573_5546, Err("FUSE")),
            (0x0102_1997, Err("9P")),
            (0x00C3_6400, Err("Ceph")),
            (0x786F_4256, Err("a VirtualBox shared folder")),
            (0x4D44, Err("FAT")),
            (0x1234, Err("an unknown file system (0x1234)")),
        ];
        for (kind, expected) in table {
            assert_eq!(
                judge(kind).as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|e| *e),
                "{kind:#x}"
            );
        }
    }

    #[test]
    fn a_file_system_that_is_not_for_files_is_refused_by_its_number() {
        assert!(refused(Path::new("/proc/atcr.db")).unwrap().contains("0x9fa0"));
        assert_eq!(refused(Path::new("/no/such/directory/atcr.db")), None);
    }
}

//! The process that started us, for `--exit-with-parent`: a registry that starts us as a child and dies without a word must
//! not leave us behind.

use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{PidfdFlags, getppid, pidfd_open};
use tokio_util::sync::CancellationToken;

/// The parent, by a descriptor that no later process of the same number can be taken for. Unlike the parent-death signal,
/// it does not tell of the end of a mere thread that started us.
pub struct Parent {
    ended: CancellationToken,
}

impl Parent {
    /// Whoever is our parent now. A thread of its own waits for the descriptor, since the runtime's way to do it is unsafe
    /// code; it sleeps until the parent ends, and ends with the process.
    ///
    /// # Errors
    /// If the kernel refuses (before Linux 5.3), or the parent is outside of this process's namespace.
    pub fn watch() -> std::io::Result<Self> {
        let none = || std::io::Error::other("the parent is outside of this process's namespace");
        let descriptor = pidfd_open(getppid().ok_or_else(none)?, PidfdFlags::empty())?;
        let ended = CancellationToken::new();
        let tell = ended.clone();
        thread::Builder::new().name("parent".to_owned()).spawn(move || {
            let mut waited_for = [PollFd::new(&descriptor, PollFlags::IN)];
            match retry_on_intr(|| poll(&mut waited_for, None)) {
                Ok(_) => tell.cancel(),
                Err(error) => tracing::error!(%error, "the parent's end will not be noticed"),
            }
        })?;
        Ok(Self { ended })
    }

    /// Waits for its end. Cancel-safe.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

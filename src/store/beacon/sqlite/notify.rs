//! The notify file: touched after a commit that freed a lease or changed who lives, and watched by every instance.
//!
//! Without a payload: a touch is an opening for writing, which costs no disk write and works on a full disk. Who is woken
//! reads the rows. A touch may be lost; the renewals and the poll find what it would have told.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// Bytes read at once: some sixty events. Equal ones that follow each other are one, so more hardly wait.
const EVENT_BYTES: usize = 1024;

/// Wakes all who watch.
pub(super) fn touch(path: &Path) -> io::Result<()> {
    File::options().create(true).append(true).mode(0o600).open(path).map(drop)
}

/// A watch over the file.
#[derive(Debug)]
pub(super) struct Watch {
    inotify: AsyncFd<OwnedFd>,
    path: PathBuf,
}

impl Watch {
    /// Watches the file, which is made if it is missing. Fails where the system's limit on watches is reached.
    #[allow(
        deprecated,
        reason = "`new` is wrong for types that change their descriptor, which an OwnedFd does not"
    )]
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let watch = Self { inotify: AsyncFd::new(inotify)?, path };
        watch.add()?;
        Ok(watch)
    }

    fn add(&self) -> io::Result<()> {
        touch(&self.path)?;
        let what = WatchFlags::CLOSE_WRITE | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        inotify::add_watch(self.inotify.get_ref(), &self.path, what)?;
        Ok(())
    }

    /// Waits for a touch, or for the end of the file, after which it watches a new one. Cancel-safe.
    pub(super) async fn touched(&self) -> io::Result<()> {
        let mut ready = self.inotify.readable().await?;
        let is_gone = drain(ready.get_inner())?;
        ready.clear_ready();
        if is_gone { self.add() } else { Ok(()) }
    }
}

/// Takes all events; true if the file itself went away.
fn drain(inotify: &OwnedFd) -> io::Result<bool> {
    let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
    let mut events = Reader::new(inotify, &mut buffer);
    let mut is_gone = false;
    loop {
        match events.next() {
            Ok(event) => {
                is_gone |= event.events().intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF);
            }
            Err(Errno::WOULDBLOCK) => return Ok(is_gone),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

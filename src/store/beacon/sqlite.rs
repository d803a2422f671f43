//! Beacons and wake-ups on SQLite: a locked file per incarnation, a ring of watchers over them, and a notify file.
//!
//! The order of an incarnation's life: its beacon is lit, then its row is inserted; its row is dead, then its beacon is
//! removed. The lock is kept for as long as anything of the incarnation may run, also after it is lost to its own
//! process: a free lock is the proof that there is nothing left to wait for.

mod ears;
mod file;
mod filesystem;
mod notify;
mod place;
mod ring;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leased_actors::lease::{Incarnation, Peer};

use ears::Ears;
use file::Beacon;
use notify::Watch;
use ring::Ring;

pub(in crate::store) use filesystem::refused;
pub(in crate::store) use place::{FileId, Place};

/// The beacons of this process, and its ears. One incarnation at a time, except in tests and after a loss.
#[derive(Debug)]
pub(in crate::store) struct Beacons {
    place: Arc<Place>,
    own: Mutex<BTreeMap<Incarnation, Own>>,
    unwatched_told: AtomicBool,
}

/// What belongs to an incarnation of ours.
#[derive(Debug)]
struct Own {
    beacon: Beacon,
    is_lost: bool,
    ring: Ring,
    ears: Arc<tokio::sync::Mutex<Ears>>,
}

impl Beacons {
    pub(in crate::store) fn new(place: Arc<Place>) -> Self {
        Self { place, own: Mutex::default(), unwatched_told: AtomicBool::new(false) }
    }

    /// Lights the beacon of a new incarnation, before its row is inserted. Refused while the database's path leads
    /// elsewhere: what is registered in a file that nobody else opens any more is seen by nobody.
    pub(in crate::store) fn light(&self, me: Incarnation) -> io::Result<FileId> {
        if !self.place.is_mine()? {
            return Err(self.place.replaced());
        }
        let watch = Watch::new(self.place.notify()).map_err(|error| self.tell_unwatched(&error)).ok();
        let beacon = Beacon::light(&self.place, me)?;
        let (id, (ring, told)) = (beacon.id, Ring::new());
        let ears = Arc::new(tokio::sync::Mutex::new(Ears::new(told, watch)));
        self.own().insert(me, Own { beacon, is_lost: false, ring, ears });
        Ok(id)
    }

    /// Puts out the beacon of an incarnation of ours whose row is dead or was never inserted, and of which nothing runs.
    pub(in crate::store) fn put_out(&self, me: Incarnation) {
        if let Some(own) = self.own().remove(&me) {
            file::remove(&self.place, me);
            own.ring.leave();
        }
    }

    /// Removes the beacons of others whose rows are dead.
    pub(in crate::store) fn remove<'a>(&self, dead: impl IntoIterator<Item = &'a Incarnation>) {
        dead.into_iter().for_each(|who| file::remove(&self.place, *who));
    }

    /// Wakes every instance: leases came free, or the living have changed.
    pub(in crate::store) fn touch(&self) {
        if let Err(error) = notify::touch(&self.place.notify()) {
            tracing::debug!(%error, "the notify file was not touched; the others find out by their polls");
        }
    }

    /// Whether the paths of the database and of my beacon still lead to my own files. If not, it stays so: others may
    /// act without seeing this process.
    pub(in crate::store) fn is_intact(&self, me: Incarnation) -> io::Result<bool> {
        let database = self.place.is_mine()?;
        let mut own = self.own();
        let Some(own) = own.get_mut(&me) else { return Ok(database) };
        let intact = database && own.beacon.is_in_place()?;
        if !intact && !own.is_lost {
            own.is_lost = true;
            own.ring.leave();
            let what = if database { "beacon" } else { "database" };
            tracing::error!(
                path = %if database { self.place.beacon(me) } else { self.place.path().to_owned() }.display(),
                "the {what}'s path leads to another file, or to none: everything is lost"
            );
        }
        Ok(!own.is_lost)
    }

    /// Takes the living of a renewal: closes the ring over them.
    pub(in crate::store) fn see(&self, me: Incarnation, peers: &[Peer]) {
        let living: BTreeSet<_> = peers.iter().map(|peer| peer.incarnation).collect();
        if let Some(own) = self.own().get(&me) {
            own.ring.turn(me, &living, |who| file::open(&self.place.beacon(who)));
        }
    }

    /// Whether the file proves that the incarnation's process has ended, for good.
    pub(in crate::store) fn proves_death(&self, who: Incarnation, id: FileId) -> bool {
        file::proves_death(&self.place, who, id)
    }

    /// The beacons that nobody has locked. They are locked for as long as the answer is kept, so that nobody registers
    /// under one of them: what of them no living row names may be removed until then.
    pub(in crate::store) fn orphans(&self) -> Vec<(Incarnation, File)> {
        file::orphans(&self.place)
    }

    /// What an incarnation of ours hears.
    pub(in crate::store) fn ears(&self, me: Incarnation) -> Option<Arc<tokio::sync::Mutex<Ears>>> {
        self.own().get(&me).map(|own| Arc::clone(&own.ears))
    }

    /// Says once what is missed then.
    pub(in crate::store) fn tell_unwatched(&self, error: &io::Error) {
        if !self.unwatched_told.swap(true, Ordering::Relaxed) {
            let path = self.place.notify();
            tracing::warn!(path = %path.display(), %error, "cannot be watched (see fs.inotify.max_user_instances): free leases are found by renewals and the poll only");
        }
    }

    fn own(&self) -> MutexGuard<'_, BTreeMap<Incarnation, Own>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

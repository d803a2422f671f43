//! How hosts are asked without being pressed: few requests at once to each, and none before the time that it named. What an
//! answer means for a host is decided in `state`; here is who waits. One host's limits never delay another's requests.

mod state;

pub use state::{Heard, Limits};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use state::State;

/// Hosts that are remembered at once, at some 200 bytes each. Only as many strangers' hosts that all refuse at the same time
/// fill it; then the one with the longest pause is forgotten, which costs that host a request too early.
const HOSTS_MAX: usize = 10_000;

/// Fewer hosts than this are not looked through for what may be forgotten.
const SWEEP_FROM: usize = 64;

/// Asks hosts in turn. Clones share what is known.
#[derive(Clone)]
pub struct Pace(Arc<Shared>);

struct Shared {
    limits: Limits,
    hosts: Mutex<Hosts>,
}

struct Hosts {
    known: HashMap<Box<str>, Host>,
    /// How many there may be before the next look through all: twice what the last one left, so that it costs little.
    sweep_at: usize,
}

struct Host {
    state: State,
    places: Arc<Semaphore>,
}

/// A host wants to be left alone for longer than a request waits here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{host} takes no requests for another {}s", .retry_at.saturating_duration_since(Instant::now()).as_secs())]
pub struct Paused {
    /// With its port, if that is not the scheme's own.
    pub host: String,
    /// From when on it may be asked.
    pub retry_at: Instant,
}

/// A place at a host: permission for one request. Given back on drop.
pub struct Place {
    pace: Pace,
    host: Box<str>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Pace {
    /// Knows no host yet.
    pub fn new(limits: Limits) -> Self {
        let hosts = Hosts { known: HashMap::new(), sweep_at: SWEEP_FROM };
        Self(Arc::new(Shared { limits, hosts: Mutex::new(hosts) }))
    }

    /// Waits for a place at `host`, and for the end of its pause. Fails at once if the pause is longer than a request may
    /// wait, so that nobody sleeps beside work at other hosts. Cancel-safe.
    ///
    /// The wait for a place has no bound of its own: whoever holds one has a deadline, and a host that does not answer is
    /// paused before long, upon which all that wait for it fail.
    pub async fn enter(&self, host: &str) -> Result<Place, Paused> {
        let latest = Instant::now() + self.0.limits.wait_max;
        self.refuse_beyond(latest, host)?;
        // Made before the wait, so that a wait that is given up leaves nothing behind.
        let (mut place, places) = self.place(host);
        place.permit = places.acquire_owned().await.ok();
        self.wait_until(latest, host).await?;
        Ok(place)
    }

    /// Waits for the end of the host's pause alone, for a host whose requests are counted elsewhere. Fails as `enter` does.
    /// Cancel-safe.
    pub async fn wait(&self, host: &str) -> Result<(), Paused> {
        self.wait_until(Instant::now() + self.0.limits.wait_max, host).await
    }

    /// Takes note of what came of a request to `host`.
    pub fn heard(&self, host: &str, heard: Heard) {
        let (now, limits) = (Instant::now(), &self.0.limits);
        let mut hosts = self.lock();
        match hosts.known.get_mut(host) {
            Some(known) => known.state = known.state.after(heard, limits, now),
            None => {
                let state = State::new(now).after(heard, limits, now);
                if !state.is_forgettable(limits, now) {
                    hosts.make_room(limits, now);
                    hosts.known.insert(
                        host.into(),
                        Host { state, places: Arc::new(Semaphore::new(limits.per_host)) },
                    );
                }
            }
        }
    }

    /// The end of the host's pause, if there is one.
    pub fn paused_until(&self, host: &str) -> Option<Instant> {
        self.lock().known.get(host).and_then(|known| known.state.paused_until(Instant::now()))
    }

    async fn wait_until(&self, latest: Instant, host: &str) -> Result<(), Paused> {
        // Whoever still waits for an answer may hear of a longer pause meanwhile.
        while let Some(until) = self.refuse_beyond(latest, host)? {
            sleep_until(until).await;
        }
        Ok(())
    }

    fn refuse_beyond(&self, latest: Instant, host: &str) -> Result<Option<Instant>, Paused> {
        match self.paused_until(host) {
            Some(retry_at) if retry_at > latest => Err(Paused { host: host.to_owned(), retry_at }),
            until => Ok(until),
        }
    }

    fn place(&self, host: &str) -> (Place, Arc<Semaphore>) {
        let (now, limits) = (Instant::now(), &self.0.limits);
        let mut hosts = self.lock();
        if !hosts.known.contains_key(host) {
            hosts.make_room(limits, now);
        }
        let fresh = || Host { state: State::new(now), places: Arc::new(Semaphore::new(limits.per_host)) };
        let places = Arc::clone(&hosts.known.entry(host.into()).or_insert_with(fresh).places);
        (Place { pace: self.clone(), host: host.into(), permit: None }, places)
    }

    fn lock(&self) -> MutexGuard<'_, Hosts> {
        // Nothing in the map can be half done.
        self.0.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Takes note of what came of the request, and gives the place back.
    pub fn done(self, heard: Heard) {
        self.pace.heard(&self.host, heard);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut hosts = self.pace.lock();
        let (now, limits) = (Instant::now(), &self.pace.0.limits);
        if hosts.known.get(&self.host).is_some_and(|host| host.is_forgettable(limits, now)) {
            hosts.known.remove(&self.host);
        }
    }
}

impl Hosts {
    /// Forgets what need not be remembered, and if that is not enough, the host that is paused for longest.
    fn make_room(&mut self, limits: &Limits, now: Instant) {
        if self.known.len() < self.sweep_at {
            return;
        }
        self.known.retain(|_, host| !host.is_forgettable(limits, now));
        if self.known.len() >= HOSTS_MAX {
            let idle = self.known.iter().filter(|(_, host)| host.is_idle());
            let longest =
                idle.max_by_key(|(_, host)| host.state.paused_until(now)).map(|(name, _)| name.clone());
            longest.map(|name| self.known.remove(&name));
        }
        self.sweep_at = (self.known.len() * 2).clamp(SWEEP_FROM, HOSTS_MAX);
    }
}

impl Host {
    /// Whoever asks or waits holds the places too, and takes hold of them only under the lock.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.places) == 1
    }

    fn is_forgettable(&self, limits: &Limits, now: Instant) -> bool {
        self.is_idle() && self.state.is_forgettable(limits, now)
    }
}

#[cfg(test)]
mod tests;

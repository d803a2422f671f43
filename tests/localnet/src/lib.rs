//! The network in small: Jetstream servers, relays, a PLC directory, PDSes, accounts, a labeler and a receiver of
//! webhooks on 127.0.0.1, with faults and limits on command. Tests, benches and the demonstration stand on it.
//!
//! It knows the wires and the shapes of the registry's records, never the product: what it serves is written
//! from the protocol's documents, so that a misreading in the product is not repeated here.
//!
//! HTTP and WebSocket are spoken by hand (`http`, `jetstream::frame`): a server that has to stop in the middle
//! of a frame, or never to finish a handshake, cannot be built on a library that keeps the rules.

pub mod control;
pub mod events;
mod http;
pub mod ids;
pub mod jetstream;
pub mod labeler;
pub mod network;
pub mod records;
pub mod seed;
pub mod traffic;
pub mod webhooks;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

pub use jetstream::Jetstream;
pub use labeler::Labeler;
pub use network::{Net, NetOptions};

/// How often [`until`] looks: short against what tests wait for, long against the cost of looking.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Polls `condition` until it holds; false if it does not within `limit`. Cancel-safe.
pub async fn until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A test that panics must not hide its message behind poisoned locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

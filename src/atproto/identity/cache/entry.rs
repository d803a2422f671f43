//! What is remembered of one account, and for how long. No clock and no network: both come in.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Known;
use crate::atproto::handle::Handle;
use crate::atproto::identity::{HandleCheck, Identity, IdentityError};

/// An answer is given without asking for so long. Identity events make most of them shorter; at double, a missed one
/// misleads for two hours, at half, directories are asked twice as often for accounts that hardly ever change.
const FRESH_FOR: Duration = Duration::from_secs(3_600);
/// The same for one whose handle is not proven: its owner is probably just setting it up.
const UNPROVEN_FOR: Duration = Duration::from_secs(300);
/// The oldest answer that is given while the source is out of order. The protocol's reference implementations take the same.
const USABLE_FOR: Duration = Duration::from_secs(24 * 3_600);
/// A source in trouble is left alone for so long, whoever asks.
const TROUBLE_FOR: Duration = Duration::from_secs(30);
/// A certain failure is believed for so long: a replica of the directory may not have heard of a new account yet.
const ABSENT_FOR: Duration = Duration::from_secs(300);

/// One account.
pub(super) struct Entry {
    answer: Option<(Arc<Identity>, Instant)>,
    failure: Option<IdentityError>,
    /// The last handle that was proven, and when.
    proven: Option<(Handle, Instant)>,
    /// Until then nobody asks.
    settled_until: Instant,
    used_at: Instant,
    /// Counts what might have changed the account.
    edition: u64,
    asking: Arc<Mutex<()>>,
}

impl Entry {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            answer: None,
            failure: None,
            proven: None,
            settled_until: now,
            used_at: now,
            edition: 0,
            asking: Arc::default(),
        }
    }

    /// What can be said without asking.
    pub(super) fn at_hand(&mut self, now: Instant) -> Option<Result<Known, IdentityError>> {
        self.used_at = now;
        (now < self.settled_until).then(|| self.said(now)).flatten()
    }

    /// Takes what was found, and says what to make of it. `edition` is that from before the asking: if it is not the present
    /// one, the account may have changed since, and the next one asks again.
    pub(super) fn found(
        &mut self,
        found: Result<Identity, IdentityError>,
        edition: Option<u64>,
        now: Instant,
    ) -> Result<Known, IdentityError> {
        let settled_for = match found {
            Ok(identity) => {
                let settled_for =
                    if matches!(identity.handle, HandleCheck::Valid(_)) { FRESH_FOR } else { UNPROVEN_FOR };
                let identity = self.with_proven_handle(identity, now);
                (self.answer, self.failure) = (Some((Arc::new(identity), now)), None);
                settled_for
            }
            Err(error) if error.is_temporary() => {
                self.failure = Some(error);
                TROUBLE_FOR
            }
            Err(error) => {
                (self.answer, self.failure, self.proven) = (None, Some(error), None);
                ABSENT_FOR
            }
        };
        self.settled_until = if edition == Some(self.edition) { now + settled_for } else { now };
        self.said(now).unwrap_or_else(|| Err(IdentityError::Temporary("nothing is known".to_owned())))
    }

    pub(super) fn expire(&mut self) {
        self.edition += 1;
        self.settled_until = self.used_at;
    }

    pub(super) fn edition(&self) -> u64 {
        self.edition
    }

    pub(super) fn used_at(&self) -> Instant {
        self.used_at
    }

    /// Whoever holds it waits for its turn to ask, or asks.
    pub(super) fn asking(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.asking)
    }

    pub(super) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.asking) == 1
    }

    fn said(&self, now: Instant) -> Option<Result<Known, IdentityError>> {
        let usable =
            self.answer.as_ref().map(|(identity, at)| (identity, now.saturating_duration_since(*at)));
        match usable.filter(|(_, age)| *age <= USABLE_FOR) {
            Some((identity, age)) => Some(Ok(Known { identity: Arc::clone(identity), age })),
            None => self.failure.clone().map(Err),
        }
    }

    /// A handle that could not be checked now is the one that was proven not too long ago.
    fn with_proven_handle(&mut self, mut identity: Identity, now: Instant) -> Identity {
        match (&identity.handle, &self.proven) {
            (HandleCheck::Valid(handle), _) => self.proven = Some((handle.clone(), now)),
            (HandleCheck::Invalid, _) => self.proven = None,
            (HandleCheck::Unknown(_), Some((handle, at)))
                if now.saturating_duration_since(*at) <= USABLE_FOR =>
            {
                identity.handle = HandleCheck::Valid(handle.clone());
            }
            (HandleCheck::Unknown(_), _) => {}
        }
        identity
    }
}

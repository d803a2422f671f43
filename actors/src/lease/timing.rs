//! The numbers of a lease and the inequality between them. Pure: no clock is read here.
//!
//! A holder that can no longer renew stops trusting its term F after the send of its last acknowledged renewal, and
//! its workers have ended S after that. A rival may act only when F + S has passed: hence TTL and G are at least that.

use std::fmt;
use std::time::Duration;

/// Taken off S for the worker: late timers and drifting clock rates live in it, and after it a plain thread ends the
/// process. At half of it a loaded machine's late wake-ups end processes whose workers did stop; at double, workers
/// lose half a second of the default budget of one.
pub const STOP_MARGIN: Duration = Duration::from_millis(250);

/// Allowed for the reply of a renewal beside its own limit. At half of it a distant database breaks F in practice
/// while the settings look right; at double, nothing breaks but F has to grow.
pub const ROUND_TRIP: Duration = Duration::from_millis(100);

/// The timing of one instance's leases.
///
/// ```
/// use std::time::Duration;
///
/// use leased_actors::lease::timing::Timing;
///
/// assert!(Timing::POSTGRES.check(true).is_ok());
/// // A rival that waits for two seconds may meet a holder that stops only after three.
/// let hasty = Timing { ttl: Duration::from_secs(2), ..Timing::POSTGRES };
/// assert_eq!(
///     hasty.check(true).unwrap_err().to_string(),
///     "leases.ttl (2s) must be at least leases.trust_for (2s) + leases.stop_within (1s) = 3s"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// R: from the send of one renewal to the send of the next.
    pub renew_every: Duration,
    /// T: the client's limit on one renewal, from its send.
    pub renew_timeout: Duration,
    /// F: trust ends this long after the send of the last acknowledged renewal.
    pub trust_for: Duration,
    /// S: the hard budget for a worker to stop; see [`Timing::worker_stop_within`].
    pub stop_within: Duration,
    /// D: the server drops a session that has been silent for so long; zero where the kernel tells at once.
    pub server_drop: Duration,
    /// G: an external worker's successor waits this long after a lost session before it starts.
    pub grace: Duration,
    /// TTL: an instance whose renewals stand still for so long is declared dead, whatever its beacon says.
    pub ttl: Duration,
    /// The slow poll beside every notification.
    pub poll_every: Duration,
}

impl Timing {
    /// The default on PostgreSQL. The grace is for external workers; fenced ones never wait it.
    pub const POSTGRES: Timing = Timing {
        renew_every: Duration::from_millis(500),
        renew_timeout: Duration::from_secs(1),
        trust_for: Duration::from_secs(2),
        stop_within: Duration::from_secs(1),
        server_drop: Duration::from_secs(3),
        grace: Duration::from_secs(3),
        ttl: Duration::from_secs(5),
        poll_every: Duration::from_secs(1),
    };

    /// The default on SQLite. T and F are long because a renewal waits for other processes' write transactions.
    pub const SQLITE: Timing = Timing {
        renew_every: Duration::from_secs(1),
        renew_timeout: Duration::from_secs(2),
        trust_for: Duration::from_secs(7),
        stop_within: Duration::from_secs(1),
        server_drop: Duration::ZERO,
        grace: Duration::ZERO,
        ttl: Duration::from_secs(10),
        poll_every: Duration::from_secs(1),
    };

    /// F + S: so long after its last acknowledged renewal was sent, an instance has certainly stopped.
    pub fn stop_bound(&self) -> Duration {
        self.trust_for.saturating_add(self.stop_within)
    }

    /// What a worker gets of S; the rest is [`STOP_MARGIN`].
    pub fn worker_stop_within(&self) -> Duration {
        self.stop_within.saturating_sub(STOP_MARGIN)
    }

    /// Whether every relation holds. `beacon_can_vanish_early`: the beacon may be gone while its process still works
    /// (a session lost, a process alive), which is so on PostgreSQL and matters to external workers.
    ///
    /// # Errors
    /// The first of [`Timing::broken`].
    pub fn check(&self, beacon_can_vanish_early: bool) -> Result<(), BrokenRelation> {
        self.broken(beacon_can_vanish_early).into_iter().next().map_or(Ok(()), Err)
    }

    /// Every relation that does not hold; see [`Timing::check`].
    pub fn broken(&self, beacon_can_vanish_early: bool) -> Vec<BrokenRelation> {
        let trust_for = ("leases.trust_for", self.trust_for);
        let stop_within = ("leases.stop_within", self.stop_within);
        let renew_every = ("leases.renew_every", self.renew_every);
        let renew_timeout = ("leases.renew_timeout", self.renew_timeout);
        let ttl = ("leases.ttl", self.ttl);
        let poll_every = ("leases.poll_every", self.poll_every);

        let margin = ("the margin for late timers", STOP_MARGIN);
        let mut relations = vec![
            (renew_every, Must::Exceed, vec![]),
            (renew_timeout, Must::Exceed, vec![]),
            (poll_every, Must::Exceed, vec![]),
            (stop_within, Must::Exceed, vec![margin]),
            // These two put F and TTL above zero as well.
            (trust_for, Must::Exceed, vec![renew_every, renew_timeout, ("a round trip", ROUND_TRIP)]),
            (ttl, Must::Reach, vec![trust_for, stop_within]),
        ];
        if beacon_can_vanish_early {
            relations.push((("leases.grace", self.grace), Must::Reach, vec![trust_for, stop_within]));
        }
        let broken = relations.into_iter().map(|(value, must, bound)| BrokenRelation { value, must, bound });
        broken.filter(|relation| !relation.holds()).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Must {
    /// Be at least the bound.
    Reach,
    /// Be longer than the bound.
    Exceed,
}

/// A relation that does not hold, with its names and its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRelation {
    value: (&'static str, Duration),
    must: Must,
    bound: Vec<(&'static str, Duration)>,
}

impl BrokenRelation {
    /// The settings key at fault, e.g. `leases.ttl`.
    pub fn key(&self) -> &'static str {
        self.value.0
    }

    fn sum(&self) -> Duration {
        self.bound.iter().fold(Duration::ZERO, |sum, (_, part)| sum.saturating_add(*part))
    }

    fn holds(&self) -> bool {
        match self.must {
            Must::Reach => self.value.1 >= self.sum(),
            Must::Exceed => self.value.1 > self.sum(),
        }
    }
}

impl fmt::Display for BrokenRelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = self.value;
        let must = match self.must {
            Must::Reach => "at least",
            Must::Exceed => "longer than",
        };
        let parts: Vec<_> =
            self.bound.iter().map(|(name, part)| format!("{name} ({})", text(*part))).collect();
        write!(f, "{key} ({}) must be {must} ", text(value))?;
        match parts.as_slice() {
            [] => f.write_str("0s"),
            [only] => f.write_str(only),
            several => write!(f, "{} = {}", several.join(" + "), text(self.sum())),
        }
    }
}

impl std::error::Error for BrokenRelation {}

/// `2s`, `500ms`; zero as a person writes it in a settings file, not as `0ns`.
fn text(duration: Duration) -> String {
    if duration.is_zero() { "0s".to_owned() } else { format!("{duration:?}") }
}

#[cfg(test)]
mod tests;

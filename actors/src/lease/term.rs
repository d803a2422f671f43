//! A term in a worker's hand, and the trust that it lives by.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::TermId;
use crate::clock::{Clock, Moment};

/// The trust deadline of one incarnation: until when its acknowledged renewals let it act.
#[derive(Clone, Debug)]
pub struct Trust {
    clock: Clock,
    deadline: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Trust {
    /// No trust yet.
    pub fn none(clock: Clock) -> Self {
        Self { clock, deadline: Arc::default(), ended: Arc::default() }
    }

    /// Moves the deadline to `until` unless it is already later: each reply counts for its own send only.
    pub fn extend(&self, until: Moment) {
        self.deadline.fetch_max(until.as_nanos(), Ordering::SeqCst);
    }

    /// Ends all trust, for good: a dead incarnation stays dead.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// The latest deadline that there was.
    pub fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::SeqCst))
    }

    /// Whether the deadline lies ahead. No I/O, well under a microsecond; false after any suspend until renewed.
    pub fn lies_ahead(&self) -> bool {
        !self.ended.load(Ordering::SeqCst) && self.clock.now() < self.deadline()
    }
}

/// A term in a worker's hand: what it shows to the database with every write.
///
/// ```
/// use std::time::Duration;
///
/// use leased_actors::clock::Clock;
/// use leased_actors::lease::{Epoch, Incarnation, Term, TermId, Trust};
///
/// let clock = Clock::boottime();
/// let trust = Trust::none(clock.clone());
/// let name = "sweep".parse().unwrap();
/// let term = Term::new(TermId { name, holder: Incarnation::new(), epoch: Epoch(7) }, trust.clone());
/// assert_eq!(term.id().to_string(), "sweep at epoch 7");
///
/// assert!(!term.is_trusted(), "no renewal was acknowledged yet");
/// let sent = clock.now();
/// // ... the renewal is acknowledged, and counts from when it was sent.
/// trust.extend(sent + Duration::from_secs(2));
/// assert!(term.is_trusted());
/// trust.end();
/// assert!(!term.is_trusted(), "declared dead: for good");
/// ```
#[derive(Clone, Debug)]
pub struct Term {
    id: TermId,
    trust: Trust,
    ended: Arc<AtomicBool>,
}

impl Term {
    /// A term that lives by `trust`.
    pub fn new(id: TermId, trust: Trust) -> Self {
        Self { id, trust, ended: Arc::new(AtomicBool::new(false)) }
    }

    /// Its name, holder and epoch.
    pub fn id(&self) -> &TermId {
        &self.id
    }

    /// Whether its holder may act now: an atomic deadline check, no I/O. The fence has the last word on writes.
    pub fn is_trusted(&self) -> bool {
        !self.has_ended() && self.trust.lies_ahead()
    }

    /// Whether the supervisor has ended it; it never begins again.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Ends the term in this process: no write is sent under it any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    /// Set in the process whose boot-time clock is ahead of its monotonic one, as after a suspend.
    const INSIDE: &str = "LEASED_ACTORS_TEST_INSIDE";
    const SUSPENDED: Duration = Duration::from_secs(120);

    fn monotonic() -> Moment {
        let t = clock_gettime(ClockId::Monotonic);
        Moment::from_nanos(t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs())
    }

    /// The two clocks differ by the time of suspends. No test suspends the machine, but a time namespace sets one of
    /// them forward for one process.
    // L27: rust-lang/rust#87906, #79462; n0-computer/net-tools#205
    #[test]
    fn a_deadline_passes_during_a_suspend_which_the_monotonic_clock_does_not_count() {
        if std::env::var_os(INSIDE).is_none() {
            let mut inside = Command::new("unshare");
            inside.args(["--user", "--map-root-user", "--time", "--fork", "--boottime"]);
            inside.arg(SUSPENDED.as_secs().to_string()).arg(std::env::current_exe().expect("this program"));
            let name = "a_deadline_passes_during_a_suspend_which_the_monotonic_clock_does_not_count";
            inside.args(["--exact", &format!("lease::term::tests::{name}"), "--nocapture"]).env(INSIDE, "1");
            let output = inside.output().expect("unshare (util-linux) runs");
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.contains("1 passed"), "{inside:?}:\n{said}");
            return;
        }
        let (clock, before) = (Clock::boottime(), monotonic());
        assert!(clock.now().since(before) >= SUSPENDED, "{:?} and {before:?}", clock.now());
        // A deadline of a minute, set just before the machine slept for two.
        let trust = Trust::none(clock);
        trust.extend(before + SUSPENDED / 2);
        assert!(!trust.lies_ahead());
        assert!(monotonic() < trust.deadline(), "by the other clock it lies ahead");
    }
}

//! Time that counts suspend: `CLOCK_BOOTTIME`, because a laptop that slept an hour must not trust a term from before.
//! `std::time::Instant` stops during suspend on Linux (rust-lang/rust#87906), so nothing in this crate decides by it.

use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An instant of `CLOCK_BOOTTIME`, in nanoseconds since the machine started. Never compared between machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment `nanos` nanoseconds after boot.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, wait: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Where moments come from: the kernel, a test's hand, or both.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    Boottime,
    Manual(Arc<AtomicU64>),
    Ahead(Arc<AtomicU64>),
}

impl Clock {
    /// The kernel's `CLOCK_BOOTTIME`.
    pub fn boottime() -> Self {
        Self(Source::Boottime)
    }

    /// A clock that moves only by [`Clock::advance`]; starts one hour after boot.
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::new(AtomicU64::new(3_600_000_000_000))))
    }

    /// The kernel's clock, and ahead of it by what it is advanced. That is what a suspend looks like: this clock has
    /// moved, and the timers of the runtime, which stand still meanwhile, have not.
    pub fn boottime_ahead() -> Self {
        Self(Source::Ahead(Arc::default()))
    }

    /// Moves a clock of a test forward.
    ///
    /// # Panics
    /// On the kernel's clock, which nobody moves.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Boottime => panic!("nobody moves the kernel's clock"),
            Source::Manual(nanos) | Source::Ahead(nanos) => {
                nanos.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst)
            }
        };
    }

    /// The present moment: one vDSO call, about 50 ns, no system call on current kernels.
    pub fn now(&self) -> Moment {
        match &self.0 {
            Source::Boottime => kernel(),
            Source::Manual(nanos) => Moment(nanos.load(Ordering::SeqCst)),
            Source::Ahead(by) => kernel() + Duration::from_nanos(by.load(Ordering::SeqCst)),
        }
    }
}

fn kernel() -> Moment {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Moment(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_never_goes_below_zero_or_above_its_end() {
        let early = Moment::from_nanos(5);
        assert_eq!(early.since(Moment::from_nanos(9)), Duration::ZERO);
        assert_eq!((early + Duration::MAX).as_nanos(), u64::MAX);
    }

    #[test]
    fn the_kernels_clock_runs_and_a_manual_one_waits_for_its_hand() {
        let kernel = Clock::boottime();
        let first = kernel.now();
        while kernel.now() == first {}
        let manual = Clock::manual();
        let start = manual.now();
        assert_eq!(manual.now(), start);
        manual.advance(Duration::from_secs(2));
        assert_eq!(manual.now().since(start), Duration::from_secs(2));
    }

    #[test]
    fn a_clock_that_runs_ahead_shows_a_suspend() {
        let (kernel, ahead) = (Clock::boottime(), Clock::boottime_ahead());
        ahead.advance(Duration::from_secs(120));
        let now = kernel.now();
        let gap = ahead.now().since(now);
        assert!(gap >= Duration::from_secs(120) && gap < Duration::from_secs(180), "{gap:?}");
    }
}

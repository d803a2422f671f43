//! Restart intensity: how often a worker may fail before its lease goes to another instance. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Moment;

/// How many failures within which time are met by a restart here, and how long each restart waits.
///
/// The defaults are an Erlang supervisor's habit, scaled to workers that talk to a network: three failures in a minute
/// are a fault of the work or the machine, not of the moment. At half of `within`, a worker that fails every 25 s would
/// restart here for ever; at double, an outage of a few seconds would already move it.
#[derive(Clone, Copy, Debug)]
pub struct Intensity {
    /// Failures that are answered by a restart.
    pub restarts: usize,
    /// The time they are counted in.
    pub within: Duration,
    /// The first wait; doubles with each failure in `within`.
    pub backoff_min: Duration,
    /// The longest wait.
    pub backoff_max: Duration,
    /// How long this instance stays away after giving the lease up; doubles with each time in a row.
    pub cool_down_min: Duration,
    /// The longest such time.
    pub cool_down_max: Duration,
}

impl Default for Intensity {
    fn default() -> Self {
        Self {
            restarts: 3,
            within: Duration::from_secs(60),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            cool_down_min: Duration::from_secs(5),
            cool_down_max: Duration::from_secs(300),
        }
    }
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start again here, after this wait.
    Restart {
        /// The wait.
        after: Duration,
    },
    /// Too many: give the lease up and stay away for so long.
    GiveUp {
        /// The cool-down.
        cool_down: Duration,
    },
}

/// The failures of one worker that still count.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    recent: VecDeque<Moment>,
}

impl Failures {
    /// Counts a failure at `now`. `given_up` is how often in a row this instance already gave the lease up;
    /// `jitter`, in `0.0..1.0`, takes up to a quarter off each wait, so that instances do not move in step.
    pub fn count(&mut self, intensity: &Intensity, given_up: u32, jitter: f64, now: Moment) -> Verdict {
        self.recent.retain(|at| now.since(*at) < intensity.within);
        if self.recent.len() >= intensity.restarts {
            self.recent.clear();
            let cool_down = doubled(intensity.cool_down_min, given_up, intensity.cool_down_max);
            return Verdict::GiveUp { cool_down: shortened(cool_down, jitter) };
        }
        let earlier = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        self.recent.push_back(now);
        Verdict::Restart {
            after: shortened(doubled(intensity.backoff_min, earlier, intensity.backoff_max), jitter),
        }
    }

    /// How many failures count at present.
    pub fn recent(&self) -> usize {
        self.recent.len()
    }
}

fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(most)
}

fn shortened(wait: Duration, jitter: f64) -> Duration {
    wait.mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment::from_nanos(1_000_000_000_000);

    #[test]
    fn the_fourth_failure_within_a_minute_gives_the_lease_up() {
        let (intensity, mut failures) = (Intensity::default(), Failures::default());
        let waits: Vec<_> =
            (0..4).map(|i| failures.count(&intensity, 0, 0.0, START + Duration::from_secs(i))).collect();
        let restart = |ms| Verdict::Restart { after: Duration::from_millis(ms) };
        let given_up = Verdict::GiveUp { cool_down: Duration::from_secs(5) };
        assert_eq!(waits, [restart(100), restart(200), restart(400), given_up]);
    }

    #[test]
    fn failures_further_apart_than_the_window_never_give_up() {
        let (intensity, mut failures) = (Intensity::default(), Failures::default());
        for i in 0..100 {
            let verdict = failures.count(&intensity, 0, 0.0, START + Duration::from_secs(21 * i));
            assert!(matches!(verdict, Verdict::Restart { .. }), "failure {i}: {verdict:?}");
        }
    }

    #[test]
    fn cool_downs_double_up_to_their_limit_whatever_the_count() {
        let intensity = Intensity { restarts: 0, ..Intensity::default() };
        let cool = |given_up| Failures::default().count(&intensity, given_up, 0.0, START);
        let seconds = |s| Verdict::GiveUp { cool_down: Duration::from_secs(s) };
        assert_eq!([cool(0), cool(1), cool(5), cool(6), cool(u32::MAX)], [5, 10, 160, 300, 300].map(seconds));
    }

    #[test]
    fn jitter_takes_at_most_a_quarter_off() {
        let once = |jitter| Failures::default().count(&Intensity::default(), 0, jitter, START);
        assert_eq!(once(1.0), Verdict::Restart { after: Duration::from_millis(75) });
        assert_eq!(once(7.0), once(1.0));
    }
}

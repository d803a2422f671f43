//! When to try again. Pure: the caller brings the time and the chance.

use std::time::Duration;

use tokio::time::Instant;

/// The waits between attempts, and what it takes to hear a labeler from its beginning again.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// After the first failure; each further one doubles it. Half: a restart of the labeler costs a dozen attempts; double:
    /// every short break costs two seconds.
    pub first: Duration,
    /// The longest of these. Half: a labeler that is away is asked twice as often; double: its return is noticed later.
    pub last: Duration,
    /// The first where there is no stream at the address (S34): somebody has to repair it.
    pub slow_first: Duration,
    /// The longest of those. Half: a wrong address is asked twice as often; double: its repair is noticed half an hour late.
    pub slow_last: Duration,
    /// A connection that stood for so long ends all waiting.
    pub healthy_after: Duration,
    /// So often has the labeler to refuse our position, ...
    pub refusals_min: u32,
    /// ... and for so long, before it is heard from its beginning: it may be a backup that is being brought up to date.
    pub refused_for: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            first: seconds(1),
            last: seconds(60),
            slow_first: seconds(30),
            slow_last: seconds(900),
            healthy_after: seconds(60),
            refusals_min: 5,
            refused_for: seconds(600),
        }
    }
}

/// How an attempt, or a connection, went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::labels) enum Outcome {
    /// It failed, or ended soon.
    Failed,
    /// There is no stream there.
    NoStream,
    /// It stood for long.
    Healthy,
    /// It ended by our own wish.
    Wanted,
}

/// Counts failures.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::labels) struct Turn {
    failures: u32,
    was_slow: bool,
}

impl Turn {
    /// The wait after an end. `draw` in 0..1 makes it 50 to 100 % of the full step.
    pub(in crate::labels) fn ended(&mut self, outcome: Outcome, waits: &Waits, draw: f64) -> Duration {
        let is_slow = outcome == Outcome::NoStream;
        match outcome {
            Outcome::Wanted => return Duration::ZERO,
            Outcome::Healthy => self.failures = 1,
            _ if is_slow == self.was_slow => self.failures += 1,
            _ => self.failures = 1,
        }
        self.was_slow = is_slow;
        let (first, last) =
            if is_slow { (waits.slow_first, waits.slow_last) } else { (waits.first, waits.last) };
        let doubled = first.saturating_mul(1_u32 << (self.failures - 1).min(30));
        doubled.min(last).mul_f64(0.5 + draw.clamp(0.0, 1.0) / 2.0)
    }
}

/// Counts how often, and since when, the labeler refuses our position.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::labels) struct Refusals {
    count: u32,
    since: Option<Instant>,
}

impl Refusals {
    /// It was refused. True: it is time to begin anew.
    pub(in crate::labels) fn refused(&mut self, now: Instant, waits: &Waits) -> bool {
        self.count += 1;
        let since = *self.since.get_or_insert(now);
        self.count >= waits.refusals_min && now.saturating_duration_since(since) >= waits.refused_for
    }

    /// How often in a row.
    pub(in crate::labels) fn count(&self) -> u32 {
        self.count
    }

    /// It was accepted, or given up.
    pub(in crate::labels) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_double_the_wait_up_to_the_longest() {
        let (mut turn, waits) = (Turn::default(), Waits::default());
        let seconds: Vec<_> = (0..8).map(|_| turn.ended(Outcome::Failed, &waits, 1.0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(turn.ended(Outcome::Healthy, &waits, 1.0).as_secs(), 1);
        assert_eq!(turn.ended(Outcome::Failed, &waits, 0.0).as_secs(), 1, "half of two");
        assert_eq!(turn.ended(Outcome::Wanted, &waits, 1.0), Duration::ZERO);
    }

    // S34: aliceisjustplaying/labeler-starter-kit-bsky#1
    #[test]
    fn an_address_without_a_stream_is_asked_slowly() {
        let (mut turn, waits) = (Turn::default(), Waits::default());
        let seconds: Vec<_> = (0..7).map(|_| turn.ended(Outcome::NoStream, &waits, 1.0).as_secs()).collect();
        assert_eq!(seconds, [30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(turn.ended(Outcome::Failed, &waits, 1.0).as_secs(), 1, "it is there again");
    }

    // S28: bluesky-social/pds#341
    #[test]
    fn a_position_is_given_up_after_five_refusals_over_ten_minutes() {
        let (mut refusals, waits, start) = (Refusals::default(), Waits::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!(0..20).any(|second| refusals.refused(at(second), &waits)), "too soon");
        assert!(refusals.refused(at(600), &waits));
        refusals.clear();
        assert!(
            ![0, 200, 400, 700].into_iter().any(|second| refusals.refused(at(second), &waits)),
            "too few"
        );
        assert!(refusals.refused(at(701), &waits));
    }
}

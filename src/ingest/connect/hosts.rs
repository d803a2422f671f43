//! Which host next, and when. Pure: no clock, no randomness of its own.

use std::time::Duration;

/// How long to wait between rounds of failures.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// After the first round in which every host failed. Half: a restart of the only host costs a dozen attempts;
    /// double: every short break of a single host costs two seconds.
    pub first: Duration,
    /// The longest. Half: a dead network is asked twice as often; double: its return is noticed two minutes late.
    pub last: Duration,
    /// A connection that delivered for so long ends all waiting.
    pub healthy_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { first: seconds(1), last: seconds(60), healthy_after: seconds(60) }
    }
}

impl Backoff {
    /// The wait after `rounds` failures in a row, counted from 1. `draw` in 0..1 makes it 50 to 100 % of the full step,
    /// so that many instances do not come back together.
    pub(super) fn wait(&self, rounds: u32, draw: f64) -> Duration {
        let doubled = self.first.saturating_mul(1_u32 << rounds.saturating_sub(1).min(30));
        doubled.min(self.last).mul_f64(0.5 + draw.clamp(0.0, 1.0) / 2.0)
    }
}

/// How a connection, or an attempt, went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No event came.
    Failed,
    /// Events came, for less than `healthy_after`.
    Delivered,
    /// Events came for `healthy_after` or longer.
    Healthy,
}

/// The hosts in the operator's order, and where we are among them.
#[derive(Debug)]
pub(super) struct Rotation {
    hosts: usize,
    current: usize,
    /// Ends since the last healthy connection, in this round.
    ended: usize,
    /// Whole rounds without a single event.
    rounds: u32,
    /// Whether this round has seen an event.
    delivered: bool,
    backoff: Backoff,
}

impl Rotation {
    pub(super) fn new(hosts: usize, backoff: Backoff) -> Self {
        assert!(hosts > 0, "a stream without hosts is refused when its settings are read");
        Self { hosts, current: 0, ended: 0, rounds: 0, delivered: false, backoff }
    }

    /// The host to connect to.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Moves to the next host, and says how long to wait before connecting to it: not at all until each has failed.
    ///
    /// A host that cuts its clients after seconds, but delivers (jetstream-legacy#27), keeps the wait at its first
    /// step: with growing waits a catch-up would fall behind the live stream, without any it would be a tight loop.
    pub(super) fn ended(&mut self, outcome: Outcome, draw: f64) -> Duration {
        self.current = (self.current + 1) % self.hosts;
        if outcome == Outcome::Healthy {
            (self.ended, self.rounds, self.delivered) = (0, 0, true);
        }
        self.delivered |= outcome == Outcome::Delivered;
        self.ended += 1;
        if self.ended < self.hosts {
            return Duration::ZERO;
        }
        self.rounds = if self.delivered { 1 } else { self.rounds.saturating_add(1) };
        (self.ended, self.delivered) = (0, false);
        self.backoff.wait(self.rounds, draw)
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Delivered, Failed, Healthy};
    use super::*;

    fn waits(hosts: usize, outcomes: &[Outcome]) -> Vec<u64> {
        let mut rotation = Rotation::new(hosts, Backoff::default());
        outcomes.iter().map(|&o| rotation.ended(o, 1.0).as_secs()).collect()
    }

    #[test]
    fn the_next_host_is_tried_at_once_and_only_a_whole_failed_round_waits() {
        assert_eq!(waits(3, &[Failed; 9]), [0, 0, 1, 0, 0, 2, 0, 0, 4]);
        let mut rotation = Rotation::new(3, Backoff::default());
        let seen: Vec<_> = (0..5).map(|_| (rotation.current(), rotation.ended(Failed, 0.0)).0).collect();
        assert_eq!(seen, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn the_wait_doubles_to_its_cap_and_stays_there() {
        assert_eq!(waits(1, &[Failed; 9]), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(Backoff::default().wait(u32::MAX, 1.0), Duration::from_secs(60));
    }

    #[test]
    fn a_healthy_connection_ends_all_waiting() {
        assert_eq!(waits(1, &[Failed, Failed, Failed, Healthy, Failed]), [1, 2, 4, 1, 2]);
        assert_eq!(
            waits(2, &[Failed, Failed, Failed, Failed, Healthy, Failed, Failed, Failed])[4..],
            [0, 1, 0, 2]
        );
    }

    /// jetstream-legacy#27: closed every few seconds while catching up.
    #[test]
    fn a_host_that_delivers_and_cuts_neither_lengthens_the_wait_nor_escapes_it() {
        assert_eq!(waits(1, &[Delivered; 5]), [1; 5]);
        assert_eq!(waits(2, &[Failed, Delivered, Failed, Delivered]), [0, 1, 0, 1]);
        assert_eq!(waits(1, &[Failed, Failed, Delivered, Failed]), [1, 2, 1, 2]);
    }

    #[test]
    fn jitter_takes_at_most_half() {
        let backoff = Backoff::default();
        assert_eq!(backoff.wait(3, 0.0), Duration::from_secs(2));
        assert_eq!(backoff.wait(3, 0.5), Duration::from_secs(3));
        assert_eq!(backoff.wait(3, 1.0), Duration::from_secs(4));
    }
}

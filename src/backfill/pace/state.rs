//! What is known of one host, and what an answer changes in it. Pure: the time comes in.

use std::time::Duration;

use tokio::time::Instant;

use crate::atproto::guard::Allowance;

/// How hosts are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests at one host at once, at least 1.
    pub per_host: usize,
    /// The pause after a refusal that names none. 10 s is what the network's own readers do (`tap`); at half, a host behind
    /// a proxy that only counts is asked twice as often for nothing, at double, a short limit costs twice its time.
    pub first: Duration,
    /// What that pause doubles up to. The window of the reference PDS's limits is as long.
    pub last: Duration,
    /// The longest that a request waits. Limits of minutes are waited for elsewhere, without holding anything.
    pub wait_max: Duration,
}

impl Limits {
    /// The real ones.
    pub fn of(per_host: usize) -> Self {
        let (first, last, wait_max) =
            (Duration::from_secs(10), Duration::from_secs(300), Duration::from_secs(60));
        Self { per_host: per_host.max(1), first, last, wait_max }
    }

    /// The pause after the `n`th refusal in a row, from 1.
    fn pause(&self, n: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(n.saturating_sub(1))).min(self.last)
    }
}

/// Requests without an answer that count for nothing: connections break. Every further one in a row pauses the host, so that
/// a dead one with ten thousand accounts costs a handful of deadlines and not ten thousand.
const SILENCES_FREE: u32 = 2;

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// An answer, and what it says of the next request.
    Answer(Allowance),
    /// None: not reached, or not in time.
    Silence,
}

/// What is known of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// Nothing is sent before.
    until: Instant,
    /// Refusals in a row that named no time.
    refusals: u32,
    /// Requests in a row that had no answer.
    silences: u32,
    heard_at: Instant,
}

impl State {
    /// Nothing is known.
    pub(super) fn new(now: Instant) -> Self {
        Self { until: now, refusals: 0, silences: 0, heard_at: now }
    }

    /// The end of the pause, if there is one.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        (self.until > now).then_some(self.until)
    }

    /// A pause never becomes shorter: what a request said that was under way when it began is older news.
    pub(super) fn after(self, heard: Heard, limits: &Limits, now: Instant) -> Self {
        let is_paused = self.paused_until(now).is_some();
        let mut next = Self { heard_at: now, ..self };
        let pause = match heard {
            // Several that were under way together count as one.
            Heard::Answer(Allowance::Refused) | Heard::Silence if is_paused => Duration::ZERO,
            Heard::Answer(Allowance::Refused) => {
                next.refusals = self.refusals.saturating_add(1);
                limits.pause(next.refusals)
            }
            Heard::Silence => {
                next.silences = self.silences.saturating_add(1);
                next.silences
                    .checked_sub(SILENCES_FREE)
                    .filter(|n| *n > 0)
                    .map_or(Duration::ZERO, |n| limits.pause(n))
            }
            Heard::Answer(Allowance::RefusedFor(wait)) => {
                next.silences = 0;
                wait
            }
            Heard::Answer(Allowance::Unsaid | Allowance::Left { .. }) => {
                next.silences = 0;
                next.refusals = if is_paused { self.refusals } else { 0 };
                left(heard, limits)
            }
        };
        next.until = self.until.max(now + pause);
        next
    }

    /// Whether nothing is lost with it. A row of refusals is remembered for a while beyond its pause, or it would never be one.
    pub(super) fn is_forgettable(&self, limits: &Limits, now: Instant) -> bool {
        let is_blank = self.refusals == 0 && self.silences == 0;
        let is_old = now.saturating_duration_since(self.heard_at) > limits.last * 2;
        self.paused_until(now).is_none() && (is_blank || is_old)
    }
}

/// Fewer left than may be under way at once: one of those might already be one too many.
fn left(heard: Heard, limits: &Limits) -> Duration {
    match heard {
        Heard::Answer(Allowance::Left { requests, renewed_in })
            if usize::try_from(requests).is_ok_and(|left| left < limits.per_host) =>
        {
            renewed_in
        }
        _ => Duration::ZERO,
    }
}

//! Whether a connection is alive, and whether it is any use. Pure: the caller brings the time.
//!
//! An open socket proves nothing: hosts have gone silent without closing (jetstream-legacy#48), have shaken hands and
//! never sent a byte (simonw/tools#308), and have forgotten to close a subscriber that they dropped (indigo#974).

use std::time::Duration;

use tokio::time::Instant;

/// Stale connections are given up for another host at most once in so many idle limits (10 min with the default). Half
/// flaps twice as often on a network that is really quiet; double leaves a host that sends nothing for 20 min.
const ANOTHER_EVERY_LIMITS: u32 = 20;

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Keep,
    /// Ask the host for a sign of life.
    Ping,
    /// The connection is dead: leave it.
    NextHost(Dead),
    /// It lives, but has sent no event for long: see whether another host does better.
    TryAnother,
}

/// How a connection died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dead {
    /// Nothing at all since the handshake.
    NothingEver,
    /// A ping was sent and nothing came since.
    NoAnswer,
}

/// What is known of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Liveness {
    limit: Duration,
    /// From when on another host may be tried; `None` if there is no other.
    another_from: Option<Instant>,
    opened: Instant,
    heard: Option<Instant>,
    event: Instant,
    /// The last ping, answered or not.
    pinged: Instant,
    /// The oldest ping that nothing has answered.
    unanswered: Option<Instant>,
}

impl Liveness {
    /// Of a connection whose handshake is done `now`.
    pub(crate) fn new(limit: Duration, another_from: Option<Instant>, now: Instant) -> Self {
        Self { limit, another_from, opened: now, heard: None, event: now, pinged: now, unanswered: None }
    }

    /// A frame of any kind came. It answers a ping as well as a pong does: servers drop pongs while their own writes
    /// are stuck behind a slow reader, and a connection that delivers is not dead.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = Some(now);
        self.unanswered = None;
    }

    /// An event came.
    pub(crate) fn event(&mut self, now: Instant) {
        self.heard(now);
        self.event = now;
    }

    /// A ping went out.
    pub(crate) fn pinged(&mut self, now: Instant) {
        self.pinged = now;
        self.unanswered.get_or_insert(now);
    }

    /// The consumer kept us from reading for so long: none of the clocks ran.
    pub(crate) fn blocked(&mut self, span: Duration) {
        self.opened += span;
        self.event += span;
        self.pinged += span;
        self.heard = self.heard.map(|at| at + span);
        self.unanswered = self.unanswered.map(|at| at + span);
    }

    /// What to do at `now`.
    pub(crate) fn decide(&self, now: Instant) -> Verdict {
        let passed = |since: Instant| now.saturating_duration_since(since);
        if self.heard.is_none() && passed(self.opened) >= self.limit {
            return Verdict::NextHost(Dead::NothingEver);
        }
        // Half a limit to the ping and half for its answer: a silent host is left within the limit of its last frame.
        if self.unanswered.is_some_and(|at| passed(at) >= self.limit / 2) {
            return Verdict::NextHost(Dead::NoAnswer);
        }
        if passed(self.pinged) >= self.limit / 2 {
            return Verdict::Ping;
        }
        // Only a host that answers is stale; one that owes an answer may be dead, which the next half limit tells.
        let may_leave = self.unanswered.is_none() && self.another_from.is_some_and(|from| now >= from);
        if self.is_stale(now) && may_leave { Verdict::TryAnother } else { Verdict::Keep }
    }

    /// Whether no event came for the limit.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.event) >= self.limit
    }

    /// How often to decide: a sixteenth of the limit, so that no rule is late by more.
    pub(crate) fn decide_every(&self) -> Duration {
        self.limit / 16
    }

    /// From when on another host may be tried, after one was at `now`.
    pub(crate) fn another_after(limit: Duration, now: Instant) -> Instant {
        now + limit * ANOTHER_EVERY_LIMITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Fact {
        Heard(u64),
        Event(u64),
        Pinged(u64),
        Blocked(u64),
    }
    use Fact::{Blocked, Event, Heard, Pinged};

    /// Name, from when another host is allowed, what happened, the second now, the verdict.
    type Row<'a> = (&'a str, Option<u64>, &'a [Fact], u64, Verdict);

    fn verdict(another_from: Option<u64>, facts: &[Fact], now: u64) -> Verdict {
        let start = Instant::now();
        let at = |s: &u64| start + Duration::from_secs(*s);
        let mut live = Liveness::new(Duration::from_secs(30), another_from.as_ref().map(at), start);
        for fact in facts {
            match fact {
                Heard(s) => live.heard(at(s)),
                Event(s) => live.event(at(s)),
                Pinged(s) => live.pinged(at(s)),
                Blocked(s) => live.blocked(Duration::from_secs(*s)),
            }
        }
        live.decide(at(&now))
    }

    #[test]
    fn each_rule_decides_at_its_second_and_not_before() {
        use Verdict::{Keep, NextHost, Ping, TryAnother};
        let nothing = NextHost(Dead::NothingEver);
        let no_answer = NextHost(Dead::NoAnswer);
        let table: &[Row<'_>] = &[
            ("fresh", Some(0), &[], 14, Keep),
            ("a ping after half the limit", Some(0), &[], 15, Ping),
            ("nothing yet", Some(0), &[Pinged(16)], 29, Keep),
            ("nothing ever", Some(0), &[Pinged(16)], 30, nothing),
            ("events do not stop the pings", None, &[Event(1), Event(14)], 15, Ping),
            ("a pong is an answer", None, &[Event(1), Pinged(15), Heard(16)], 29, Keep),
            ("an event is an answer too", None, &[Pinged(15), Event(16), Pinged(30)], 44, Keep),
            ("no answer yet", Some(0), &[Event(1), Pinged(15)], 29, Keep),
            ("no answer", Some(0), &[Event(1), Pinged(15)], 30, no_answer),
            ("a second ping gives no more time", None, &[Event(1), Pinged(15), Pinged(29)], 30, no_answer),
            ("stale, alone", None, &[Event(1), Pinged(30), Heard(31)], 40, Keep),
            ("stale, another allowed", Some(0), &[Event(1), Pinged(30), Heard(31)], 40, TryAnother),
            ("stale, an answer owed", Some(0), &[Event(1), Pinged(30)], 40, Keep),
            ("stale, another not yet allowed", Some(41), &[Event(1), Pinged(30), Heard(31)], 40, Keep),
            ("stale, another allowed now", Some(41), &[Event(1), Pinged(30), Heard(31)], 41, TryAnother),
            ("not stale", Some(0), &[Event(11), Pinged(30), Heard(31)], 40, Keep),
            ("blocked since the handshake", Some(0), &[Blocked(100)], 114, Keep),
            ("blocked, then the clocks run on", Some(0), &[Blocked(100), Pinged(116)], 130, nothing),
            ("blocked with a ping out", None, &[Event(1), Pinged(15), Blocked(600)], 629, Keep),
            ("blocked, still no answer", None, &[Event(1), Pinged(15), Blocked(600)], 630, no_answer),
            ("blocked, not stale", Some(0), &[Event(1), Blocked(600), Pinged(625), Heard(626)], 630, Keep),
            (
                "blocked, then stale",
                Some(0),
                &[Event(1), Blocked(600), Pinged(625), Heard(626)],
                631,
                TryAnother,
            ),
        ];
        for (name, another, facts, now, expected) in table {
            assert_eq!(verdict(*another, facts, *now), *expected, "{name}");
        }
    }

    #[test]
    fn a_stale_host_is_left_at_most_once_in_twenty_limits() {
        let now = Instant::now();
        let limit = Duration::from_secs(30);
        assert_eq!(Liveness::another_after(limit, now) - now, Duration::from_secs(600));
    }
}

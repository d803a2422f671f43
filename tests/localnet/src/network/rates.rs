//! Limits on the requests of one client: so many in a window, counted for real.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::faults::{On, Site};
use crate::http::Answer;
use crate::{ids, lock};

/// So many requests of one client at one host within a window, which begins with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Requests.
    pub requests: u32,
    /// Milliseconds. Headers count in seconds, so whole seconds are what a client can keep to exactly.
    pub window_ms: u64,
    /// What a client is told.
    pub told: Told,
}

/// What a client is told of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// `RateLimit-*` on every answer, and no `Retry-After` on a refusal: the reference PDS.
    Headers,
    /// `Retry-After` in seconds, on refusals.
    RetryAfter,
    /// Nothing: a refusal is a page of HTML (atproto#5443).
    Html,
}

#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<Vec<Rule>>);

#[derive(Debug)]
struct Rule {
    on: On,
    rate: Rate,
    windows: HashMap<Client, Window>,
}

pub(super) type Client = (Site, String, IpAddr);

#[derive(Clone, Copy, Debug)]
struct Window {
    ends: Instant,
    taken: u32,
}

/// What a limit says of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    rate: Rate,
    left: u32,
    pub(super) ends_in: Duration,
    pub(super) refused: bool,
}

impl Rates {
    pub(super) fn set(&self, on: On, rate: Rate) {
        lock(&self.0).push(Rule { on, rate, windows: HashMap::new() });
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Counts a request; the latest limit that it meets decides.
    pub(super) fn count(&self, client: &Client, path: &str) -> Option<Counted> {
        let mut rules = lock(&self.0);
        let mut latest_first = rules.iter_mut().rev();
        let Rule { rate, windows, .. } =
            latest_first.find(|rule| rule.on.meets(client.0, &client.1, path))?;
        let now = Instant::now();
        let fresh = Window { ends: now + Duration::from_millis(rate.window_ms), taken: 0 };
        let window = windows.entry(client.clone()).or_insert(fresh);
        if window.ends <= now {
            *window = fresh;
        }
        window.taken = window.taken.saturating_add(1);
        Some(Counted {
            rate: *rate,
            left: rate.requests.saturating_sub(window.taken),
            ends_in: window.ends - now,
            refused: window.taken > rate.requests,
        })
    }
}

impl Counted {
    /// Refused, though every answer told how many requests were left.
    pub(super) fn is_over(&self) -> bool {
        self.refused && self.rate.told == Told::Headers
    }

    /// How long the client was told to wait, if it was.
    pub(super) fn told_wait(&self) -> Option<Duration> {
        (self.refused && self.rate.told != Told::Html).then_some(self.ends_in)
    }

    pub(super) fn refusal(&self) -> Answer {
        let answer = Answer::error(429, "RateLimitExceeded", "Rate Limit Exceeded");
        match self.rate.told {
            Told::Headers => self.tell(answer),
            Told::RetryAfter => {
                let seconds = self.ends_in.as_millis().div_ceil(1_000);
                answer.with_header("retry-after", seconds.to_string())
            }
            Told::Html => Answer::html(429),
        }
    }

    /// Adds the headers, where the limit tells.
    pub(super) fn tell(&self, answer: Answer) -> Answer {
        if self.rate.told != Told::Headers {
            return answer;
        }
        let ends_us = ids::now_us() + i64::try_from(self.ends_in.as_micros()).unwrap_or(i64::MAX >> 1);
        let seconds = self.rate.window_ms.div_ceil(1_000);
        answer
            .with_header("ratelimit-limit", self.rate.requests.to_string())
            .with_header("ratelimit-remaining", self.left.to_string())
            // Cut off, as the reference PDS does.
            .with_header("ratelimit-reset", (ends_us / 1_000_000).to_string())
            .with_header("ratelimit-policy", format!("{};w={seconds}", self.rate.requests))
    }
}

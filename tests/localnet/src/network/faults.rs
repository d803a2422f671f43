//! The front desk of the HTTP servers: counts every request, and decides which of them go wrong.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::stripe;
use crate::http::{Answer, Manner};
use crate::lock;

/// Paths counted apart; requests beyond that are counted under an empty path.
const PATHS_MAX: usize = 100_000;

/// One of the network's HTTP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Site {
    /// The PLC directory.
    Plc,
    /// The address of all `*.test` names.
    Hosts,
    /// A PDS by number, whichever way it was asked.
    Pds(usize),
    /// A relay by number.
    Relay(usize),
    /// Stripe.
    Stripe,
}

/// Which requests are meant. Empty parts mean all.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct On {
    site: Option<Site>,
    host: Option<String>,
    path: Option<String>,
    times: Option<usize>,
    after: Option<usize>,
}

impl On {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests to a server.
    pub fn site(site: Site) -> Self {
        Self { site: Some(site), ..Self::default() }
    }

    /// Only for this name in the `Host` header, port left out.
    pub fn host(self, host: &str) -> Self {
        Self { host: Some(host.to_owned()), ..self }
    }

    /// Only paths that start so.
    pub fn path(self, prefix: &str) -> Self {
        Self { path: Some(prefix.to_owned()), ..self }
    }

    /// Only the next so many (for faults).
    pub fn times(self, times: usize) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Only when so many have been let through (for faults).
    pub fn after(self, requests: usize) -> Self {
        Self { after: Some(requests), ..self }
    }

    pub(super) fn meets(&self, site: Site, host: &str, path: &str) -> bool {
        self.site.is_none_or(|s| s == site)
            && self.host.as_deref().is_none_or(|h| h == host)
            && self.path.as_deref().is_none_or(|p| path.starts_with(p))
    }
}

/// How a request goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Never answered; the connection stays open.
    Never,
    /// The right answer, a byte each 100 ms.
    SlowBody,
    /// The right answer, cut off in the middle of its body.
    CutBody,
    /// This status with an XRPC error.
    Status(u16),
    /// The right answer, so many milliseconds late.
    Late(u32),
    /// 429 with `Retry-After`, in seconds.
    RetryAfter(u32),
    /// This status with a page of HTML and no rate-limit headers (atproto#5443).
    Html(u16),
    /// This status and an empty body (indigo#621).
    Empty(u16),
    /// A redirect to the same path on this port of 127.0.0.1.
    Redirect(u16),
    /// 200 with so many bytes and no length.
    Overlong(usize),
}

impl Fault {
    /// The same in the words of the server that is asked.
    pub(super) fn answer_of(self, site: Site) -> Option<Answer> {
        match (self, site) {
            (Self::Status(status), Site::Stripe) => Some(stripe::refusal(status, None, "on command")),
            (Self::RetryAfter(seconds), Site::Stripe) => {
                let answer = stripe::refusal(429, Some("rate_limit"), "on command");
                Some(answer.with_header("retry-after", seconds.to_string()))
            }
            _ => self.answer(),
        }
    }

    /// What is answered instead; None where the right answer is only delivered badly.
    fn answer(self) -> Option<Answer> {
        match self {
            Self::Never | Self::SlowBody | Self::CutBody | Self::Late(_) => None,
            Self::Status(429) => Some(Answer::error(429, "RateLimitExceeded", "Rate Limit Exceeded")),
            Self::Status(status) => Some(Answer::error(status, "InternalServerError", "on command")),
            Self::RetryAfter(seconds) => {
                let answer = Answer::error(429, "RateLimitExceeded", "Rate Limit Exceeded");
                Some(answer.with_header("retry-after", seconds.to_string()))
            }
            Self::Html(status) => Some(Answer::html(status)),
            Self::Empty(status) => Some(Answer::text(status, "")),
            Self::Redirect(port) => {
                Some(Answer::text(302, "").with_header("location", format!("http://127.0.0.1:{port}/")))
            }
            Self::Overlong(bytes) => Some(Answer::text(200, "").in_manner(Manner::Overlong { bytes })),
        }
    }

    /// How long the client is told to wait, if it is.
    pub(super) fn told_wait(self) -> Option<Duration> {
        match self {
            Self::RetryAfter(seconds) => Some(Duration::from_secs(seconds.into())),
            _ => None,
        }
    }

    pub(super) fn manner(self) -> Manner {
        match self {
            Self::Never => Manner::Never,
            Self::SlowBody => Manner::Slow,
            Self::CutBody => Manner::CutInBody,
            Self::Late(millis) => Manner::Late { millis },
            _ => Manner::Plain,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Desk {
    counts: Mutex<BTreeMap<(Site, String, String), u64>>,
    faults: Mutex<Vec<(On, Fault)>>,
}

impl Desk {
    /// Counts a request and says what it meets.
    pub(super) fn receive(&self, site: Site, host: &str, path: &str) -> Option<Fault> {
        let mut counts = lock(&self.counts);
        let path_kept = if counts.len() < PATHS_MAX { path } else { "" };
        *counts.entry((site, host.to_owned(), path_kept.to_owned())).or_default() += 1;
        drop(counts);
        let mut faults = lock(&self.faults);
        faults.retain(|(on, _)| on.times != Some(0));
        for (on, fault) in faults.iter_mut().rev().filter(|(on, _)| on.meets(site, host, path)) {
            match on.after {
                Some(left @ 1..) => on.after = Some(left - 1),
                _ => {
                    on.times = on.times.map(|left| left - 1);
                    return Some(*fault);
                }
            }
        }
        None
    }

    pub(super) fn set_fault(&self, on: On, fault: Fault) {
        lock(&self.faults).push((on, fault));
    }

    pub(super) fn clear_faults(&self) {
        lock(&self.faults).clear();
    }

    pub(super) fn requests(&self, on: &On) -> u64 {
        let counts = lock(&self.counts);
        counts.iter().filter(|((site, host, path), _)| on.meets(*site, host, path)).map(|(_, n)| n).sum()
    }

    pub(super) fn counts(&self) -> BTreeMap<(Site, String, String), u64> {
        lock(&self.counts).clone()
    }
}

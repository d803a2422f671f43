//! What the headers of an answer say of how soon the host may be asked again. Pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::DateTime;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The longest wait that a host can ask for. Some limits are per day; more than a day would let one answer end a host's
/// part in everything that is done here.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// `RateLimit-Reset` below this many seconds (the year 2001) is no time, but a wait: some servers follow the draft of the
/// header in which it counts from now.
const RESET_IS_TIME_FROM: u64 = 1_000_000_000;

/// How soon a host may be asked again, by its own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// It says nothing of it.
    Unsaid,
    /// So many requests are left until the wait is over.
    Left {
        /// Requests.
        requests: u64,
        /// From the answer on.
        renewed_in: Duration,
    },
    /// It refuses to answer until the wait is over.
    RefusedFor(Duration),
    /// It refuses to answer and does not say for how long.
    Refused,
}

impl Allowance {
    /// Reads status and headers. A wait is told in seconds or as a date (`Retry-After`, RFC 9110 section 10.2.3), or as the
    /// Unix second in which the allowance is renewed (`RateLimit-Reset` of the reference PDS). Times are compared with the
    /// answer's own `Date`, so that a clock set wrong here or there does not matter; `now` stands in where there is none.
    pub(super) fn of(status: u16, headers: &HeaderMap, now: SystemTime) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let sent = text(DATE.as_str()).and_then(date).unwrap_or_else(|| unix(now));
        let retry =
            text(RETRY_AFTER.as_str()).and_then(|text| seconds(text).or_else(|| since(sent, date(text)?)));
        let reset = text("ratelimit-reset").and_then(seconds).and_then(|reset| match reset {
            RESET_IS_TIME_FROM.. => since(sent, reset),
            _ => Some(reset),
        });
        // Both times are whole seconds, cut off: without this one, the wait could end a second early.
        let reset = reset.map(|seconds| seconds + 1);
        let told = match status {
            // A full allowance says nothing about a server in trouble.
            503 => retry,
            _ => retry.max(reset),
        };
        let wait = |seconds| Duration::from_secs(seconds).min(WAIT_MAX);
        match (status, told) {
            (429 | 503, Some(seconds @ 1..)) => Self::RefusedFor(wait(seconds)),
            (429 | 503, _) => Self::Refused,
            _ => match (text("ratelimit-remaining").and_then(seconds), reset) {
                (Some(requests), Some(reset)) => Self::Left { requests, renewed_in: wait(reset) },
                _ => Self::Unsaid,
            },
        }
    }
}

fn seconds(text: &str) -> Option<u64> {
    // As `parse` would, but for the plus sign, and with any length.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::from(u32::MAX)).min(u64::from(u32::MAX)))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` as Unix seconds. Older forms of the date are no longer sent.
fn date(text: &str) -> Option<u64> {
    DateTime::parse_from_rfc2822(text).ok().and_then(|date| date.timestamp().try_into().ok())
}

fn since(sent: u64, until: u64) -> Option<u64> {
    until.checked_sub(sent)
}

fn unix(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    const NOW: u64 = 1_790_000_000;

    fn of(status: u16, headers: &[(&str, &str)]) -> Allowance {
        let header = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
        };
        Allowance::of(status, &headers.iter().map(header).collect(), UNIX_EPOCH + Duration::from_secs(NOW))
    }

    fn refused_for(seconds: u64) -> Allowance {
        Allowance::RefusedFor(Duration::from_secs(seconds))
    }

    #[test]
    fn a_wait_is_read_in_seconds_as_a_date_and_as_a_time_of_renewal() {
        let reset = (NOW + 30).to_string();
        for (headers, wait) in [
            (vec![("retry-after", "7")], 7),
            (vec![("retry-after", " 7 ")], 7),
            // 1,790,000,000 is Mon, 21 Sep 2026 14:13:20 GMT.
            (vec![("retry-after", "Mon, 21 Sep 2026 14:13:50 GMT")], 30),
            (vec![("ratelimit-reset", &*reset)], 31),
            (vec![("ratelimit-reset", "30")], 31),
            (vec![("retry-after", "7"), ("ratelimit-reset", &*reset)], 31),
            (vec![("retry-after", "70"), ("ratelimit-reset", &*reset)], 70),
            (vec![("retry-after", "99999999999999999999999")], 24 * 3600),
        ] {
            assert_eq!(of(429, &headers), refused_for(wait), "{headers:?}");
        }
    }

    #[test]
    fn the_hosts_own_clock_is_the_one_that_its_times_are_told_by() {
        let date = ("date", "Mon, 21 Sep 2026 15:13:20 GMT");
        assert_eq!(of(429, &[date, ("retry-after", "Mon, 21 Sep 2026 15:13:30 GMT")]), refused_for(10));
        assert_eq!(of(429, &[date, ("ratelimit-reset", &(NOW + 3_610).to_string())]), refused_for(11));
    }

    #[test]
    fn a_refusal_without_a_usable_time_has_none() {
        let past = (NOW - 30).to_string();
        for headers in [
            vec![],
            vec![("retry-after", "0")],
            vec![("retry-after", "-5")],
            vec![("retry-after", "soon")],
            vec![("retry-after", "Mon, 21 Sep 2020 14:13:50 GMT")],
            vec![("ratelimit-reset", &*past)],
        ] {
            assert_eq!(of(429, &headers), Allowance::Refused, "{headers:?}");
            assert_eq!(of(503, &headers), Allowance::Refused, "{headers:?}");
            assert_eq!(of(200, &headers), Allowance::Unsaid, "{headers:?}");
        }
    }

    #[test]
    fn an_answer_tells_what_is_left() {
        let reset = (NOW + 30).to_string();
        let headers =
            [("ratelimit-limit", "3000"), ("ratelimit-remaining", "2"), ("ratelimit-reset", &*reset)];
        let left = Allowance::Left { requests: 2, renewed_in: Duration::from_secs(31) };
        assert_eq!(of(200, &headers), left);
        assert_eq!(of(400, &headers), left);
        assert_eq!(of(503, &headers), Allowance::Refused);
        assert_eq!(of(429, &headers), refused_for(31));
    }
}

//! What the answer to a delivery means, and when it is tried again. Pure.

use std::time::Duration;

use crate::atproto::guard::{Allowance, GuardError};
use crate::outbox::Attempted;

/// The waits after the first, second and third attempt; the first is made at once. They bridge a restart, a deployment and
/// a short outage.
const WAITS: [Duration; 3] = [secs(30), secs(2 * 60), secs(8 * 60)];

/// The wait after each later one. At half, an endpoint that is down for a day is asked twice as often in vain; at double,
/// one that is back is told up to an hour late.
const LATER_WAIT: Duration = secs(30 * 60);

/// So many attempts follow an endpoint that wants to be asked sooner than the waits say; later ones never come sooner.
/// Without an end to it, one that says "in a second" would be asked 86,400 times a day.
const SOONER_ATTEMPTS: u32 = 10;

/// The least wait, whatever an endpoint asks for.
const WAIT_MIN: Duration = secs(1);

/// The most that a wait is lengthened by, in parts of it, so that what failed together does not come back together.
const JITTER_PARTS: u32 = 10;

/// Of an error's text. It may quote a stranger's server.
const ERROR_CHARS_MAX: usize = 200;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Heard {
    /// An answer with this status, and what it says of when to come again.
    Answer(u16, Allowance),
    /// None.
    Nothing(GuardError),
}

/// What it means for a delivery that was attempted so often before. `random` is from 0 up to 1.
pub(super) fn outcome(heard: &Heard, attempts_before: u32, random: f64) -> Attempted {
    let after = |asked: Option<Duration>| wait(attempts_before, asked, random);
    match heard {
        Heard::Answer(code @ 200..=299, _) => Attempted::Delivered { code: *code },
        Heard::Answer(code @ (408 | 429 | 500..), allowance) => Attempted::Retry {
            code: Some(*code),
            error: format!("answered {code}"),
            after: after(asked_wait(*allowance)),
        },
        Heard::Answer(code @ 300..=399, _) => Attempted::Failed {
            code: Some(*code),
            error: format!("answered {code}: redirects are not followed"),
        },
        Heard::Answer(code, _) => Attempted::Failed { code: Some(*code), error: format!("answered {code}") },
        Heard::Nothing(error) => match error {
            // Ours to mend, and nothing that the endpoint did.
            GuardError::NoRoots(_) | GuardError::Setup(_) => {
                Attempted::Retry { code: None, error: plain(error), after: after(None) }
            }
            error if error.is_temporary() => {
                Attempted::Retry { code: None, error: plain(error), after: after(None) }
            }
            error => Attempted::Failed { code: None, error: plain(error) },
        },
    }
}

/// How long the endpoint itself asked to be left alone, if it did: for all that goes to it.
pub(super) fn asked_wait(allowance: Allowance) -> Option<Duration> {
    match allowance {
        Allowance::RefusedFor(wait) => Some(wait),
        Allowance::Left { requests: 0, renewed_in } => Some(renewed_in),
        Allowance::Left { .. } | Allowance::Refused | Allowance::Unsaid => None,
    }
}

fn wait(attempts_before: u32, asked: Option<Duration>, random: f64) -> Duration {
    let ours = WAITS.get(attempts_before as usize).copied().unwrap_or(LATER_WAIT);
    let wait = match asked {
        None => ours,
        Some(asked) if attempts_before < SOONER_ATTEMPTS => asked.max(WAIT_MIN),
        Some(asked) => asked.max(ours),
    };
    wait + (wait / JITTER_PARTS).mul_f64(random.clamp(0.0, 1.0))
}

/// Without what a log, a terminal or PostgreSQL could choke on.
fn plain(error: &GuardError) -> String {
    let text = error.to_string();
    text.chars().filter(|c| !c.is_control()).take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn after(outcome: Attempted) -> Duration {
        match outcome {
            Attempted::Retry { after, .. } => after,
            other => panic!("not tried again: {other:?}"),
        }
    }

    fn failing() -> Heard {
        Heard::Answer(500, Allowance::Unsaid)
    }

    #[test]
    fn the_waits_are_those_that_users_are_told() {
        let waits = (0..6).map(|before| after(outcome(&failing(), before, 0.0)).as_secs());
        assert_eq!(waits.collect::<Vec<_>>(), [30, 120, 480, 1800, 1800, 1800]);
        // At random, and only later.
        assert_eq!(after(outcome(&failing(), 0, 1.0)), secs(33));
        assert_eq!(after(outcome(&failing(), 9, 1.0)), secs(1980));
    }

    #[test]
    fn each_answer_is_delivered_tried_again_or_final() {
        let of = |code| match outcome(&Heard::Answer(code, Allowance::Unsaid), 0, 0.5) {
            Attempted::Delivered { .. } => "delivered",
            Attempted::Retry { .. } => "again",
            Attempted::Failed { .. } => "final",
        };
        for (codes, expected) in [
            (&[200, 201, 202, 204, 299][..], "delivered"),
            (&[408, 429, 500, 502, 503, 504, 599, 999], "again"),
            (&[301, 302, 303, 307, 308, 304, 400, 401, 403, 404, 405, 410, 413, 422, 451, 100], "final"),
        ] {
            codes.iter().for_each(|code| assert_eq!(of(*code), expected, "{code}"));
        }
    }

    #[test]
    fn what_may_pass_is_tried_again_and_a_forbidden_address_is_not() {
        let host = || "example.com".to_owned();
        let again = [
            GuardError::TimedOut { host: host(), after: secs(10) },
            GuardError::Failed { host: host(), cause: "refused".to_owned() },
            GuardError::NoRoots(host()),
        ];
        for error in again {
            let outcome = outcome(&Heard::Nothing(error.clone()), 0, 0.0);
            assert!(matches!(outcome, Attempted::Retry { code: None, .. }), "{error}");
        }
        let last = [
            GuardError::Forbidden { host: host(), address: [127, 0, 0, 1].into() },
            GuardError::BadAddress("it is not https"),
        ];
        for error in last {
            let outcome = outcome(&Heard::Nothing(error.clone()), 0, 0.0);
            assert!(matches!(outcome, Attempted::Failed { code: None, .. }), "{error}");
        }
    }

    /// An endpoint's own time counts in both directions, but not for ever in the shorter one.
    #[test]
    fn an_endpoint_that_names_a_time_is_asked_then() {
        let told = |seconds| Heard::Answer(429, Allowance::RefusedFor(secs(seconds)));
        assert_eq!(after(outcome(&told(5), 0, 0.0)), secs(5));
        assert_eq!(after(outcome(&told(7200), 0, 0.0)), secs(7200));
        assert_eq!(after(outcome(&told(7200), 50, 0.0)), secs(7200));
        assert_eq!(after(outcome(&told(5), 50, 0.0)), LATER_WAIT);
        assert!(after(outcome(&told(5), 0, 1.0)) >= secs(5), "never sooner");
        let silent = Heard::Answer(429, Allowance::Refused);
        assert_eq!(after(outcome(&silent, 0, 0.0)), secs(30));
    }

    #[test]
    fn an_errors_text_is_bounded_and_one_line() {
        let error = GuardError::Failed { host: "a".into(), cause: format!("x\0y\nz{}", "ä".repeat(500)) };
        let Attempted::Retry { error, .. } = outcome(&Heard::Nothing(error), 0, 0.0) else { panic!() };
        assert!(error.starts_with("asking a failed: xyzä") && error.chars().count() == 200, "{error}");
    }
}

//! Every relation, at its border and against plain arithmetic.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

const NOTHING: Duration = Duration::ZERO;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn message(timing: Timing) -> String {
    timing.check(true).unwrap_err().to_string()
}

#[test]
fn both_default_rows_hold() {
    assert_eq!(Timing::POSTGRES.check(true), Ok(()));
    assert_eq!(Timing::SQLITE.check(false), Ok(()));
}

#[test]
fn a_broken_relation_names_keys_and_numbers() {
    let timing = Timing { ttl: 4 * SECOND, stop_within: 3 * SECOND, grace: 5 * SECOND, ..Timing::POSTGRES };
    assert_eq!(timing.check(true).unwrap_err().key(), "leases.ttl");
    assert_eq!(
        message(timing),
        "leases.ttl (4s) must be at least leases.trust_for (2s) + leases.stop_within (3s) = 5s"
    );
    assert_eq!(
        message(Timing { renew_timeout: 1500 * MS, ..Timing::POSTGRES }),
        "leases.trust_for (2s) must be longer than leases.renew_every (500ms) + leases.renew_timeout (1.5s) + a round \
         trip (100ms) = 2.1s"
    );
    assert_eq!(
        message(Timing { stop_within: 250 * MS, ..Timing::POSTGRES }),
        "leases.stop_within (250ms) must be longer than the margin for late timers (250ms)"
    );
    let no_poll = Timing { poll_every: NOTHING, ..Timing::POSTGRES };
    assert_eq!(message(no_poll), "leases.poll_every (0s) must be longer than 0s");
}

#[test]
fn every_relation_turns_exactly_at_its_border() {
    let p = Timing::POSTGRES;
    let borders = [
        ("leases.ttl", Timing { ttl: 3 * SECOND, ..p }, Timing { ttl: 3 * SECOND - MS, ..p }),
        ("leases.grace", Timing { grace: 3 * SECOND, ..p }, Timing { grace: 3 * SECOND - MS, ..p }),
        ("leases.trust_for", Timing { trust_for: 1601 * MS, ..p }, Timing { trust_for: 1600 * MS, ..p }),
        ("leases.stop_within", Timing { stop_within: 251 * MS, ..p }, Timing { stop_within: 250 * MS, ..p }),
        ("leases.renew_every", Timing { renew_every: MS, ..p }, Timing { renew_every: NOTHING, ..p }),
        ("leases.renew_timeout", Timing { renew_timeout: MS, ..p }, Timing { renew_timeout: NOTHING, ..p }),
        ("leases.poll_every", Timing { poll_every: MS, ..p }, Timing { poll_every: NOTHING, ..p }),
    ];
    for (key, inside, outside) in borders {
        assert_eq!(inside.check(true), Ok(()), "{key}");
        assert_eq!(outside.check(true).unwrap_err().key(), key);
    }
}

#[test]
fn the_grace_counts_only_where_a_beacon_can_vanish_early() {
    let timing = Timing { grace: Duration::ZERO, server_drop: Duration::ZERO, ..Timing::POSTGRES };
    assert_eq!(timing.check(false), Ok(()));
    assert_eq!(timing.check(true).unwrap_err().key(), "leases.grace");
}

#[test]
fn a_worker_gets_the_stop_budget_less_the_margin() {
    assert_eq!(Timing::POSTGRES.worker_stop_within(), 750 * MS);
    assert_eq!(Timing::POSTGRES.stop_bound(), 3 * SECOND);
    let tiny = Timing { stop_within: MS, ..Timing::POSTGRES };
    assert_eq!(tiny.worker_stop_within(), Duration::ZERO);
}

fn some_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0u64..8_000).prop_map(Duration::from_millis),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

proptest! {
    /// The relations written once more, as plain arithmetic that cannot overflow.
    #[test]
    fn the_check_is_the_inequality(v in proptest::array::uniform8(some_duration()), early: bool) {
        let [renew_every, renew_timeout, trust_for, stop_within, server_drop, grace, ttl, poll_every] = v;
        let timing =
            Timing { renew_every, renew_timeout, trust_for, stop_within, server_drop, grace, ttl, poll_every };
        let [r, t, f, s, _, g, ttl, poll] = v.map(|d| d.as_nanos().min(Duration::MAX.as_nanos()));
        let bound = (f + s).min(Duration::MAX.as_nanos());
        let good = r > 0 && t > 0 && poll > 0 && s > 250_000_000
            && f > r + t + 100_000_000
            && ttl >= bound
            && (!early || g >= bound);
        prop_assert_eq!(timing.check(early).is_ok(), good);
        prop_assert_eq!(timing.broken(early).is_empty(), good);
    }
}

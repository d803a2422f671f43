//! Where to resume. Pure.

use std::time::Duration;

/// A saved position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Host and port that it belongs to.
    pub host: String,
    /// The `time_us` of the last event whose transaction committed there.
    pub time_us: i64,
}

/// The least rewind on a host other than the one that gave the position: hosts stamp events by their own clock when
/// they see them, seconds apart. Half loses events between two hosts that lag differently; double replays a minute.
const OTHER_HOST_REWIND: Duration = Duration::from_secs(30);

/// The position to ask `host` for, in microseconds: the latest that certainly leaves nothing out. Its own saved
/// position less `rewind`, or another host's less three times that and at least 30 s, whichever is later: a host that
/// was left days ago must not replay those days. `None` without any saved position: start live, backfill does the rest.
pub fn resume_from(host: &str, saved: &[Saved], rewind: Duration) -> Option<i64> {
    let elsewhere = rewind.saturating_mul(3).max(OTHER_HOST_REWIND);
    let back = |from: &Saved| {
        let by = if from.host == host { rewind } else { elsewhere };
        from.time_us.saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)).max(0)
    };
    saved.iter().map(back).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000;

    /// Saved positions, the rewind in seconds, the position to resume from.
    type Row<'a> = (&'a [(&'a str, i64)], u64, Option<i64>);

    #[test]
    fn the_position_is_rewound_by_whose_it_is() {
        let cases: &[Row<'_>] = &[
            (&[], 10, None),
            (&[("a:443", 100 * S)], 10, Some(90 * S)),
            (&[("b:443", 100 * S)], 10, Some(70 * S)),
            (&[("b:443", 100 * S)], 1, Some(70 * S)),
            (&[("b:443", 100 * S)], 20, Some(40 * S)),
            (&[("a:443", 100 * S), ("b:443", 110 * S)], 10, Some(90 * S)),
            (&[("a:443", 100 * S), ("b:443", 9_000 * S), ("c:443", 5 * S)], 10, Some(8_970 * S)),
            (&[("a:443", 5 * S)], 10, Some(0)),
        ];
        for &(saved, rewind, expected) in cases {
            let saved: Vec<_> =
                saved.iter().map(|&(host, time_us)| Saved { host: host.into(), time_us }).collect();
            assert_eq!(resume_from("a:443", &saved, Duration::from_secs(rewind)), expected, "{saved:?}");
        }
    }

    #[test]
    fn no_number_overflows() {
        let saved = |time_us| [Saved { host: "a:443".into(), time_us }];
        assert_eq!(resume_from("a:443", &saved(i64::MIN), Duration::MAX), Some(0));
        assert_eq!(resume_from("a:443", &saved(i64::MAX), Duration::ZERO), Some(i64::MAX));
    }
}

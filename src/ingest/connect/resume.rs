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

/// The rewind of one task. A host that cuts its clients after so many events (jetstream-legacy#27) would send the same
/// ones for ever where the rewind holds more of them. So it halves with each connection that delivered and moved no
/// position, which skips nothing: what the longer one repeats was read. It grows back by as many steps as make progress.
#[derive(Debug)]
pub(super) struct Resume {
    rewind: Duration,
    halvings: u32,
    /// The newest position saved before the last connect.
    newest: Option<i64>,
    delivered: bool,
}

impl Resume {
    pub(super) fn new(rewind: Duration) -> Self {
        Self { rewind, halvings: 0, newest: None, delivered: false }
    }

    /// A connection has ended, and has brought events or not.
    pub(super) fn ended(&mut self, delivered: bool) {
        self.delivered |= delivered;
    }

    /// The position to ask `host` for.
    pub(super) fn from(&mut self, host: &str, saved: &[Saved]) -> Option<i64> {
        let newest = saved.iter().map(|saved| saved.time_us).max();
        if newest > self.newest {
            self.halvings = self.halvings.saturating_sub(1);
        } else if std::mem::take(&mut self.delivered) {
            self.halvings = (self.halvings + 1).min(u32::BITS - 1);
        }
        (self.newest, self.delivered) = (newest, false);
        resume_from(host, saved, self.rewind / (1 << self.halvings))
    }
}

/// The position to ask `host` for, in microseconds: the latest that certainly leaves nothing out. Its own saved
/// position less `rewind`, or another host's less three times that and at least 30 s, whichever is later: a host that
/// was left days ago must not replay those days. `None` without any saved position: start live, backfill does the rest.
fn resume_from(host: &str, saved: &[Saved], rewind: Duration) -> Option<i64> {
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
    fn the_rewind_shrinks_only_while_what_is_delivered_leads_nowhere() {
        let mut resume = Resume::new(Duration::from_secs(8));
        let mut from = |at: i64, delivered: bool| {
            let position = resume.from("a:443", &[Saved { host: "a:443".into(), time_us: at * S }]);
            resume.ended(delivered);
            at - position.unwrap() / S
        };
        let rewinds: Vec<_> = [
            (100, true),
            (100, true),
            (100, true),
            (101, true),
            (102, false),
            (102, false),
            (102, true),
            (102, true),
        ]
        .map(|(at, delivered)| from(at, delivered))
        .into();
        assert_eq!(rewinds, [8, 4, 2, 4, 8, 8, 8, 4]);
    }

    #[test]
    fn no_number_overflows() {
        let saved = |time_us| [Saved { host: "a:443".into(), time_us }];
        assert_eq!(resume_from("a:443", &saved(i64::MIN), Duration::MAX), Some(0));
        assert_eq!(resume_from("a:443", &saved(i64::MAX), Duration::ZERO), Some(i64::MAX));
    }
}

//! Where to resume, and what a host that refuses a position is asked for instead. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::address::Host;
use crate::ingest::wire::Wire;

/// A saved position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The wire that it was read by.
    pub wire: Wire,
    /// Host and port that it belongs to.
    pub host: String,
    /// The newest time of the events whose transactions committed there. On the first wire this is the position.
    pub time_us: i64,
    /// On the second wire, the number of the last event whose transaction committed.
    pub seq: Option<i64>,
}

/// How it is known that the stream has left something out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GapReason {
    /// The position is that of another wire: both tell times, but not the same ones.
    OtherWire,
    /// The position is that of another host of the second wire.
    OtherHost,
    /// The host does not keep events as old as the position (jetstream-legacy#58).
    OldCursor,
    /// The host has begun to count anew (pds#341).
    Recount,
}

impl GapReason {
    /// A word for a metric's label and the database.
    pub fn kind(self) -> &'static str {
        match self {
            Self::OtherWire => "other_wire",
            Self::OtherHost => "other_host",
            Self::OldCursor => "old_cursor",
            Self::Recount => "recount",
        }
    }
}

/// Where a host is asked to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cursor {
    /// With what comes now.
    Live,
    /// With what it saw at this time, in microseconds since the Unix epoch.
    Time(i64),
    /// With the event of this number, which is in the index.
    Seq(i64),
}

impl Cursor {
    /// The value of the query's parameter.
    pub(super) fn parameter(self) -> Option<i64> {
        match self {
            Self::Live => None,
            Self::Time(position) | Self::Seq(position) => Some(position),
        }
    }
}

/// How to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) cursor: Cursor,
    /// The newest time that is in the index, from any host.
    pub(super) newest_us: Option<i64>,
    /// Why this may leave something out.
    pub(super) gap: Option<GapReason>,
}

/// The least rewind on a host other than the one that gave the position: hosts stamp events by their own clock when
/// they see them, seconds apart. Half loses events between two hosts that lag differently; double replays a minute.
const OTHER_HOST_REWIND: Duration = Duration::from_secs(30);

/// Below it the second wire takes a position for a number. In microseconds it is the year 2001.
const TIME_MIN: i64 = 1_000_000_000_000_000;

/// So many refusals in a row, and a host is not asked for that number again. Half falls back for one backend of several
/// that is behind the others; double leaves the stream alone for another minute.
const REFUSALS_MAX: u32 = 3;

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
    refused: HashMap<Arc<str>, Refused>,
}

/// A number that a host refuses, and how often in a row.
#[derive(Debug)]
struct Refused {
    seq: i64,
    times: u32,
}

impl Resume {
    pub(super) fn new(rewind: Duration) -> Self {
        Self { rewind, halvings: 0, newest: None, delivered: false, refused: HashMap::new() }
    }

    /// A connection has ended, and has brought events or not.
    pub(super) fn ended(&mut self, delivered: bool) {
        self.delivered |= delivered;
    }

    /// How to resume at `host`.
    pub(super) fn from(&mut self, host: &Host, saved: &[Saved]) -> Plan {
        let newest = saved.iter().map(|saved| saved.time_us).max();
        if newest > self.newest {
            self.halvings = self.halvings.saturating_sub(1);
        } else if std::mem::take(&mut self.delivered) {
            self.halvings = (self.halvings + 1).min(u32::BITS - 1);
        }
        (self.newest, self.delivered) = (newest, false);
        let doubted = self.refused.get(host.key()).filter(|refused| refused.times >= REFUSALS_MAX);
        resume_from(host, saved, self.rewind / (1 << self.halvings), doubted.map(|refused| refused.seq))
    }

    /// The host refuses this number. True: just now so often that it is asked by time instead.
    pub(super) fn refused(&mut self, host: &Host, seq: i64, for_good: bool) -> bool {
        let refused = self.refused.entry(host.key().clone()).or_insert(Refused { seq, times: 0 });
        if refused.seq != seq {
            *refused = Refused { seq, times: 0 };
        }
        let before = refused.times;
        refused.times = if for_good { REFUSALS_MAX } else { before.saturating_add(1) };
        before < REFUSALS_MAX && refused.times >= REFUSALS_MAX
    }

    /// The host began where it was asked to.
    pub(super) fn accepted(&mut self, host: &Host) {
        self.refused.retain(|key, refused| key != host.key() || refused.times >= REFUSALS_MAX);
    }
}

/// How to resume at `host`, so that certainly nothing is left out and little is repeated.
///
/// First wire: the host's own position less `rewind`, or another one's less three times that and at least 30 s, whichever
/// is later: a host that was left days ago must not replay those days. Second wire: the host's own number, unless it is
/// `doubted`, or another position less that rewind is later; then that time. Without any saved position: live, backfill
/// does the rest.
fn resume_from(host: &Host, saved: &[Saved], rewind: Duration, doubted: Option<i64>) -> Plan {
    let elsewhere = rewind.saturating_mul(3).max(OTHER_HOST_REWIND);
    let is_own = |from: &Saved| from.wire == host.wire() && from.host == **host.key();
    let back = |from: &Saved| {
        let exact = host.wire() == Wire::V1 && is_own(from);
        let by = if exact { rewind } else { elsewhere };
        from.time_us.saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)).max(0)
    };
    let newest_us = saved.iter().map(|from| from.time_us).max();
    let latest = saved.iter().max_by_key(|from| back(from));
    let own = saved.iter().find(|from| is_own(from) && from.seq.is_some() && from.seq != doubted);
    let (cursor, gap) = match (host.wire(), latest, own) {
        (_, None, _) => (Cursor::Live, None),
        (Wire::V2, Some(latest), Some(own)) if own.time_us >= back(latest) => {
            (own.seq.map_or(Cursor::Live, Cursor::Seq), None)
        }
        (wire, Some(latest), _) => {
            let gap = match latest.wire {
                other if other != wire => Some(GapReason::OtherWire),
                Wire::V2 if !is_own(latest) => Some(GapReason::OtherHost),
                _ => None,
            };
            let time_us = back(latest);
            let live = wire == Wire::V2 && time_us < TIME_MIN;
            (if live { Cursor::Live } else { Cursor::Time(time_us) }, gap)
        }
    };
    Plan { cursor, newest_us, gap }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000;
    /// A second of 2026.
    const T: i64 = 1_783_175_888;

    fn v1() -> Host {
        Host::parse("wss://a/subscribe").unwrap()
    }

    fn v2() -> Host {
        Host::parse("wss://a/xrpc/network.bsky.jetstream.subscribeEvents").unwrap()
    }

    fn timed(host: &str, time_us: i64) -> Saved {
        Saved { wire: Wire::V1, host: host.into(), time_us, seq: None }
    }

    fn numbered(host: &str, seq: i64, time_us: i64) -> Saved {
        Saved { wire: Wire::V2, host: host.into(), time_us, seq: Some(seq) }
    }

    fn seconds(rewind: u64) -> Duration {
        Duration::from_secs(rewind)
    }

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
            let saved: Vec<_> = saved.iter().map(|&(host, time_us)| timed(host, time_us)).collect();
            let plan = resume_from(&v1(), &saved, seconds(rewind), None);
            assert_eq!((plan.cursor.parameter(), plan.gap), (expected, None), "{saved:?}");
        }
    }

    #[test]
    fn a_number_is_for_its_host_and_wire_alone() {
        let of = |host: &Host, saved: &[Saved]| {
            let plan = resume_from(host, saved, seconds(10), None);
            (plan.cursor, plan.gap)
        };
        let own = numbered("a:443", 7, T * S);
        assert_eq!(of(&v2(), &[]), (Cursor::Live, None));
        assert_eq!(of(&v2(), std::slice::from_ref(&own)), (Cursor::Seq(7), None));
        let by_time = Cursor::Time((T - 30) * S);
        assert_eq!(of(&v2(), &[numbered("b:443", 7, T * S)]), (by_time, Some(GapReason::OtherHost)));
        assert_eq!(of(&v2(), &[timed("a:443", T * S)]), (by_time, Some(GapReason::OtherWire)));
        assert_eq!(of(&v1(), std::slice::from_ref(&own)), (by_time, Some(GapReason::OtherWire)));
        assert_eq!(of(&v2(), &[timed("a:443", 5)]), (Cursor::Live, Some(GapReason::OtherWire)));
        // What was read elsewhere since the host was left is not read again, unless it is only a little.
        let (near, far) = (numbered("b:443", 1, (T + 29) * S), numbered("b:443", 1, (T + 100) * S));
        assert_eq!(of(&v2(), &[own.clone(), near]), (Cursor::Seq(7), None));
        assert_eq!(of(&v2(), &[own, far]), (Cursor::Time((T + 70) * S), Some(GapReason::OtherHost)));
    }

    #[test]
    fn a_number_that_is_refused_three_times_in_a_row_gives_way_to_its_time() {
        let (host, saved) = (v2(), [numbered("a:443", 7, T * S)]);
        let mut resume = Resume::new(seconds(10));
        assert!(!resume.refused(&host, 7, false) && !resume.refused(&host, 7, false));
        resume.accepted(&host);
        assert!(!resume.refused(&host, 7, false) && !resume.refused(&host, 7, false));
        assert_eq!(resume.from(&host, &saved).cursor, Cursor::Seq(7));
        assert!(resume.refused(&host, 7, false));
        assert!(!resume.refused(&host, 7, false), "said once");
        // Until another number is saved, an accepted time does not bring it back.
        resume.accepted(&host);
        assert_eq!(resume.from(&host, &saved).cursor, Cursor::Time((T - 30) * S));
        assert_eq!(resume.from(&host, &[numbered("a:443", 2, T * S)]).cursor, Cursor::Seq(2));
        assert!(resume.refused(&host, 2, true), "one refusal is enough where the host says why");
    }

    #[test]
    fn the_rewind_shrinks_only_while_what_is_delivered_leads_nowhere() {
        let mut resume = Resume::new(Duration::from_secs(8));
        let mut from = |at: i64, delivered: bool| {
            let plan = resume.from(&v1(), &[timed("a:443", at * S)]);
            resume.ended(delivered);
            at - plan.cursor.parameter().unwrap() / S
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
        let from = |time_us, rewind| resume_from(&v1(), &[timed("a:443", time_us)], rewind, None).cursor;
        assert_eq!(from(i64::MIN, Duration::MAX), Cursor::Time(0));
        assert_eq!(from(i64::MAX, Duration::ZERO), Cursor::Time(i64::MAX));
    }
}

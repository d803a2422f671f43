//! Which endpoints may be asked now, so that none delays another: each has a lane of its own, one request at a time. Pure
//! but for the times that it is told.
//!
//! All lanes could be taken by endpoints that never answer, or that share one slow host: so endpoints that were slow last
//! time have half of the lanes at most, and those at one host a quarter. One that fails rests, longer each time: what waits
//! for it stays in the database, and a burst at its return goes through its one lane.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

/// Lanes. Each holds a request, an answer of up to 64 KiB, and the payloads that wait behind it. At half, 32 endpoints that
/// time out slow the others down; at double, this takes twice the memory.
pub(super) const LANES: usize = 64;
/// Of them, for slow ones.
const SLOW_LANES: usize = LANES / 2;
/// Of them, for one host.
pub const LANES_PER_HOST: usize = LANES / 4;

/// An answer that took longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// How long an endpoint rests after its first failure, and at most. An attempt that is due is late by no more than this; at
/// half, thousands of deliveries to an endpoint that is down are twice as many requests in vain.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Failing and slow endpoints that are remembered. A forgotten one is asked as if it were well.
const REMEMBERED_MAX: usize = 2_000;

/// How a lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneEnd {
    /// The last delivery got through, in so long.
    Well(Duration),
    /// The last delivery did not, in so long. The endpoint may have said how long it wants to be left alone.
    Badly(Duration, Option<Duration>),
    /// Nothing was sent.
    Unused,
}

/// The lanes. Endpoints are known by the number of their webhook.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    busy: HashMap<i64, String>,
    slow: HashSet<i64>,
    resting: HashMap<i64, Rest>,
    /// Their host has as many lanes as it may.
    crowded: HashSet<i64>,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    failures: u32,
}

impl Lanes {
    /// How many more may be taken.
    pub(super) fn free(&self) -> usize {
        LANES - self.busy.len()
    }

    /// Endpoints that may not be asked now.
    pub(super) fn excluded(&self, now: Instant) -> Vec<i64> {
        let resting = self.resting.iter().filter(|(_, rest)| rest.until > now).map(|(webhook, _)| webhook);
        let is_full = self.busy.keys().filter(|webhook| self.slow.contains(webhook)).count() >= SLOW_LANES;
        let slow = self.slow.iter().filter(|_| is_full);
        let all = self.busy.keys().chain(resting).chain(slow).chain(&self.crowded);
        all.copied().collect::<HashSet<_>>().into_iter().collect()
    }

    /// When the first of the resting ones may be asked again.
    pub(super) fn next_rested(&self, now: Instant) -> Option<Instant> {
        self.resting.values().map(|rest| rest.until).filter(|until| *until > now).min()
    }

    /// Takes a lane for the endpoint. False: there is none for its host, and it is excluded until there is.
    pub(super) fn take(&mut self, webhook: i64, host: &str) -> bool {
        debug_assert!(!self.busy.contains_key(&webhook), "one lane for each endpoint");
        let full = self.free() == 0;
        if full || self.busy.values().filter(|other| *other == host).count() >= LANES_PER_HOST {
            if !full && self.crowded.len() < REMEMBERED_MAX {
                self.crowded.insert(webhook);
            }
            return false;
        }
        self.busy.insert(webhook, host.to_owned());
        true
    }

    /// Gives the endpoint's lane back.
    pub(super) fn give_back(&mut self, webhook: i64, end: LaneEnd, now: Instant) {
        self.busy.remove(&webhook);
        self.crowded.clear();
        match end {
            LaneEnd::Unused => {}
            LaneEnd::Well(took) => {
                self.resting.remove(&webhook);
                self.note_pace(webhook, took);
            }
            LaneEnd::Badly(took, asked) => {
                self.note_pace(webhook, took);
                self.rest(webhook, asked, now);
            }
        }
    }

    fn note_pace(&mut self, webhook: i64, took: Duration) {
        if took <= SLOW {
            self.slow.remove(&webhook);
        } else if self.slow.len() < REMEMBERED_MAX {
            self.slow.insert(webhook);
        }
    }

    fn rest(&mut self, webhook: i64, asked: Option<Duration>, now: Instant) {
        if self.resting.len() >= REMEMBERED_MAX {
            self.resting.retain(|_, rest| rest.until > now);
        }
        let failures = self.resting.get(&webhook).map_or(0, |rest| rest.failures);
        if self.resting.len() < REMEMBERED_MAX || failures > 0 {
            let ours = (REST.0 * 2_u32.saturating_pow(failures)).min(REST.1);
            let rest =
                Rest { until: now + asked.unwrap_or_default().max(ours), failures: (failures + 1).min(16) };
            self.resting.insert(webhook, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(10);

    fn sorted(mut webhooks: Vec<i64>) -> Vec<i64> {
        webhooks.sort_unstable();
        webhooks
    }

    #[test]
    fn an_endpoint_has_one_lane_and_rests_after_a_failure_for_longer_each_time() {
        let (mut lanes, mut now) = (Lanes::default(), Instant::now());
        for rest in [1, 2, 4, 8, 16, 30, 30] {
            assert!(lanes.take(1, "a"));
            assert_eq!(lanes.excluded(now), [1]);
            lanes.give_back(1, LaneEnd::Badly(QUICK, None), now);
            assert_eq!(lanes.excluded(now), [1]);
            let rested = now + Duration::from_secs(rest);
            assert_eq!(lanes.next_rested(now), Some(rested));
            now = rested;
            assert!(lanes.excluded(now).is_empty());
        }
        assert!(lanes.take(1, "a"));
        lanes.give_back(1, LaneEnd::Well(QUICK), now);
        assert!(lanes.excluded(now).is_empty() && lanes.next_rested(now).is_none());
        // From the beginning again.
        assert!(lanes.take(1, "a"));
        lanes.give_back(1, LaneEnd::Badly(QUICK, None), now);
        assert_eq!(lanes.next_rested(now), Some(now + Duration::from_secs(1)));
    }

    #[test]
    fn an_endpoint_that_asks_for_rest_gets_it_for_all_that_waits() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        assert!(lanes.take(1, "a"));
        lanes.give_back(1, LaneEnd::Badly(QUICK, Some(Duration::from_secs(3_600))), now);
        assert_eq!(lanes.excluded(now + Duration::from_secs(3_599)), [1]);
        assert!(lanes.excluded(now + Duration::from_secs(3_600)).is_empty());
    }

    #[test]
    fn slow_endpoints_leave_half_of_the_lanes_to_the_others() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        for webhook in 0..100 {
            assert!(lanes.take(webhook, &webhook.to_string()));
            lanes.give_back(webhook, LaneEnd::Well(LONG), now);
        }
        for webhook in 0..SLOW_LANES as i64 {
            assert!(!lanes.excluded(now).contains(&webhook));
            assert!(lanes.take(webhook, &webhook.to_string()));
        }
        assert_eq!(sorted(lanes.excluded(now)), (0..100).collect::<Vec<_>>(), "every slow one");
        assert!(lanes.free() == LANES - SLOW_LANES && lanes.take(1_000, "well"));
        lanes.give_back(0, LaneEnd::Well(QUICK), now);
        assert!(!lanes.excluded(now).contains(&0) && !lanes.excluded(now).contains(&99));
    }

    #[test]
    fn endpoints_at_one_host_leave_lanes_to_the_others() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let taken = (0..100).filter(|webhook| lanes.take(*webhook, "a")).count();
        assert_eq!(taken, LANES_PER_HOST);
        assert_eq!(sorted(lanes.excluded(now)), (0..100).collect::<Vec<_>>());
        assert!(lanes.take(1_000, "b"));
        lanes.give_back(0, LaneEnd::Unused, now);
        assert_eq!(lanes.excluded(now).len(), LANES_PER_HOST, "those that waited may try");
        assert!(lanes.take(50, "a") && !lanes.take(51, "a"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        for webhook in 0..10_000 {
            assert!(lanes.take(webhook, &webhook.to_string()));
            lanes.give_back(webhook, LaneEnd::Badly(LONG, None), now);
        }
        assert_eq!((lanes.resting.len(), lanes.slow.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
        let later = now + LONG;
        assert!(lanes.take(20_000, "x"));
        lanes.give_back(20_000, LaneEnd::Badly(QUICK, None), later);
        assert_eq!(lanes.excluded(later), [20_000], "what has rested makes room");
    }
}

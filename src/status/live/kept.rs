//! What is not looked at anew each time: the streams' curves, the counts of labels, and what the instances on this machine told.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::status::report::StatusReport;
use crate::store::status::{LabelsStatus, StreamStatus};

/// A point of a curve. With it, three hours are 360 of them. The one statement that runs while nobody reads.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(30);
const SAMPLES_MAX: usize = 360;

/// Streams that have a curve: more hosts than any settings have.
const CURVES_MAX: usize = 16;

/// Milliseconds since the Unix epoch, seconds since the position, seconds since it was saved.
type Point = (i64, f64, f64);

/// See the module.
#[derive(Default)]
pub(super) struct Kept {
    /// By wire and host.
    lag: BTreeMap<String, VecDeque<Point>>,
    pub(super) labels: Option<LabelsStatus>,
    told: Option<StatusReport>,
}

impl Kept {
    pub(super) fn sample(&mut self, now_ms: i64, streams: Vec<StreamStatus>) {
        let seconds = |us: i64| (us.max(0) / 1_000) as f64 / 1_000.0;
        for StreamStatus { cursor, us_behind, saved_us_ago, .. } in streams {
            let name = format!("{} {}", cursor.wire, cursor.host);
            if self.lag.len() >= CURVES_MAX && !self.lag.contains_key(&name) {
                continue;
            }
            let curve = self.lag.entry(name).or_default();
            if curve.len() == SAMPLES_MAX {
                curve.pop_front();
            }
            curve.push_back((now_ms, seconds(us_behind), seconds(saved_us_ago)));
        }
    }

    pub(super) fn curves(&self) -> &BTreeMap<String, VecDeque<Point>> {
        &self.lag
    }

    pub(super) fn told(&mut self, report: StatusReport) {
        self.told = Some(report);
    }

    /// Puts in what was told by the instances that are still there.
    pub(super) fn fill(&self, report: &mut StatusReport) {
        if let Some(told) = &self.told {
            report.as_told(told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atproto::Micros;
    use crate::store::StreamCursor;

    #[test]
    fn a_curve_keeps_its_latest_points_and_there_are_only_so_many_curves() {
        let stream = |host: usize| StreamStatus {
            cursor: StreamCursor { wire: "v1".to_owned(), host: host.to_string(), time_us: 0, seq: None },
            us_behind: 1_500_000,
            saved_at: Micros(0),
            saved_us_ago: -1,
        };
        let mut kept = Kept::default();
        for at in 0..SAMPLES_MAX + 2 {
            kept.sample(at as i64, (0..CURVES_MAX + 1).map(stream).collect());
        }
        assert_eq!(kept.curves().len(), CURVES_MAX);
        let curve = &kept.curves()["v1 0"];
        assert_eq!((curve.len(), curve[0]), (SAMPLES_MAX, (2, 1.5, 0.0)));
    }
}

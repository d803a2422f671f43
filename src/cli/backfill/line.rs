//! How far it is, for a person: one line that is written over in a terminal; elsewhere a line now and then.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use leased_actors::clock::{Clock, Moment};

use crate::store::backfill::RunReport;

/// Where lines stay, one in so long is enough.
const EVERY: Duration = Duration::from_secs(10);

/// Cells of the bar.
const CELLS: u64 = 20;

pub(super) struct Line {
    clock: Clock,
    is_terminal: bool,
    /// Since when this run is watched, and how many repositories it had done by then.
    since: Option<(i64, Moment, u64)>,
    shown: Option<(Moment, String)>,
}

impl Line {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, is_terminal: stderr().is_terminal(), since: None, shown: None }
    }

    /// Shows what is left of so many wishes, or how far the run for them is.
    pub(super) fn show(&mut self, wishes: usize, left: usize, run: Option<&RunReport>) {
        let now = self.clock.now();
        let text = match run {
            None if wishes == 1 => "waiting for the worker".to_owned(),
            None => format!("{} of {wishes} repositories", wishes - left),
            Some(run) => {
                let done = run.found - run.waiting;
                let (id, since, before) = *self.since.get_or_insert((run.id, now, done));
                if id != run.id {
                    self.since = Some((run.id, now, done));
                }
                progress(run, done.saturating_sub(before), now.since(since))
            }
        };
        let is_due = match &self.shown {
            None => true,
            Some((at, shown)) => *shown != text && (self.is_terminal || now.since(*at) >= EVERY),
        };
        if is_due {
            self.write(&text);
            self.shown = Some((now, text));
        }
    }

    /// Nothing more is shown.
    pub(super) fn end(&self) {
        if self.is_terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }

    /// To the standard error, so that what is printed at the end can be piped. A reader that has left needs none.
    fn write(&self, text: &str) {
        let _ = if self.is_terminal {
            write!(stderr(), "\r\x1b[K{text}").and_then(|()| stderr().flush())
        } else {
            writeln!(stderr(), "{text}")
        };
    }
}

/// `done` repositories in `within` give the rate, and the rate what is left.
fn progress(run: &RunReport, done: u64, within: Duration) -> String {
    let (found, ready) = (run.found, run.found - run.waiting);
    let cells = (ready * CELLS).checked_div(found).unwrap_or(0) as usize;
    let bar = format!("[{}{}]", "#".repeat(cells), "-".repeat(CELLS as usize - cells));
    let rate = done as f64 / within.as_secs_f64().max(0.001);
    let left = match run.waiting {
        _ if run.lists > 0 => "relays still list more".to_owned(),
        _ if done == 0 => "time left unknown".to_owned(),
        waiting => format!("{} left", short(Duration::from_secs_f64(waiting as f64 / rate))),
    };
    format!("{bar} {ready} of {found} repositories, {} records, {rate:.1}/s, {left}", run.totals.records)
}

fn short(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=99 => format!("{seconds} s"),
        seconds @ 100..=5_999 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_done_of_known_rate_and_time_left() {
        let mut run = RunReport { found: 400, waiting: 300, ..RunReport::default() };
        run.totals.records = 3_100;
        let at = |run: &RunReport| progress(run, 60, Duration::from_secs(5));
        let expected = "[#####---------------] 100 of 400 repositories, 3100 records, 12.0/s, 25 s left";
        assert_eq!(at(&run), expected);
        run.lists = 3;
        assert!(at(&run).ends_with("relays still list more"));
        let nothing = progress(&RunReport::default(), 0, Duration::ZERO);
        assert_eq!(
            nothing,
            "[--------------------] 0 of 0 repositories, 0 records, 0.0/s, time left unknown"
        );
        assert_eq!([short(Duration::from_secs(150)), short(Duration::from_secs(9_000))], ["3 min", "2.5 h"]);
    }
}

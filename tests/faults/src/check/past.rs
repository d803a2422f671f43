//! A history, sorted by what the invariants ask for.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::history::{Event, What};

/// A history and what is known of its processes.
pub(super) struct Past<'a> {
    pub(super) events: &'a [Event],
    pub(super) processes: BTreeMap<&'a str, Process>,
    pub(super) runs: Vec<Run<'a>>,
    own: BTreeMap<&'a str, Vec<(usize, &'a Event)>>,
}

/// What is known of one process. Moments and durations are nanoseconds.
#[derive(Default)]
pub(super) struct Process {
    pub(super) renew_every: u64,
    pub(super) trust_for: u64,
    pub(super) stop_within: u64,
    pub(super) poll_every: u64,
    /// From when to when it was stopped by a signal.
    pub(super) pauses: Vec<(u64, u64)>,
    /// When its clock jumped ahead, and how far.
    pub(super) shifts: Vec<(u64, u64)>,
    /// Acknowledged renewals, in the order of acknowledgement: the latest that was sent by then, and when that was.
    renewals: Vec<(u64, u64)>,
    pub(super) closing: Option<u64>,
    /// Its own last line.
    pub(super) last: u64,
}

/// One run of a worker's body.
pub(super) struct Run<'a> {
    pub(super) process: &'a str,
    pub(super) name: &'a str,
    pub(super) epoch: i64,
    pub(super) external: bool,
    pub(super) from: u64,
    /// Its end; that of its last sign of life, if its process did not get to say it.
    pub(super) to: u64,
    pub(super) lines: Vec<usize>,
    pub(super) stopped: bool,
}

impl<'a> Past<'a> {
    pub(super) fn of(events: &'a [Event]) -> Self {
        let mut past = Past { events, processes: BTreeMap::new(), runs: Vec::new(), own: BTreeMap::new() };
        for (line, event) in events.iter().enumerate() {
            past.own.entry(&event.process).or_default().push((line + 1, event));
            past.take_process(event);
            past.take_run(line + 1, event);
        }
        past.processes.values_mut().for_each(Process::settle);
        past
    }

    /// The events with their lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &'a Event)> + use<'a> {
        self.events.iter().enumerate().map(|(at, event)| (at + 1, event))
    }

    /// Those of one process.
    pub(super) fn own(&self, process: &str) -> &[(usize, &'a Event)] {
        self.own.get(process).map_or(&[], Vec::as_slice)
    }

    /// The names of all leases.
    pub(super) fn names(&self) -> BTreeSet<&'a str> {
        self.events.iter().filter_map(|event| event.name.as_deref()).collect()
    }

    /// The acknowledged claims with their lines, sent and wait, in the order of acknowledgement.
    pub(super) fn claims(&self) -> Vec<ClaimLine<'a>> {
        let claim = |(line, event): (usize, &'a Event)| match event.what {
            What::Claimed { sent, wait, .. } => {
                Some(ClaimLine { line, event, sent, wait, name: event.name.as_deref()?, epoch: event.epoch? })
            }
            _ => None,
        };
        let mut claims: Vec<_> = self.lines().filter_map(claim).collect();
        claims.sort_by_key(|claim| claim.event.at);
        claims
    }

    /// When the runner did a thing of this kind.
    pub(super) fn moments(&self, what: &What) -> Vec<u64> {
        self.events.iter().filter(|event| event.what == *what).map(|event| event.at).collect()
    }

    fn take_process(&mut self, event: &'a Event) {
        let process = self.processes.entry(&event.process).or_default();
        match event.what {
            What::Began { renew_every, trust_for, stop_within, poll_every, .. } => {
                *process = Process { renew_every, trust_for, stop_within, poll_every, ..Process::default() };
            }
            What::Renewed { sent } => process.renewals.push((sent, event.at)),
            What::Shifted { by } => process.shifts.push((event.at, by)),
            What::Closing => process.closing = Some(event.at),
            What::Paused => process.pauses.push((event.at, u64::MAX)),
            What::Resumed => {
                if let Some(pause) = process.pauses.last_mut() {
                    pause.1 = event.at;
                }
            }
            _ => {}
        }
        if !matches!(
            event.what,
            What::Killed | What::Paused | What::Resumed | What::Gone | What::Cut | What::Mended
        ) {
            process.last = process.last.max(event.at);
        }
    }

    fn take_run(&mut self, line: usize, event: &'a Event) {
        let (Some(name), Some(epoch)) = (event.name.as_deref(), event.epoch) else { return };
        let process = event.process.as_str();
        if let What::Started { external } = event.what {
            let (from, to) = (event.at, event.at);
            let run = Run { process, name, epoch, external, from, to, lines: vec![line], stopped: false };
            return self.runs.push(run);
        }
        if !matches!(event.what, What::Stopped | What::Acted | What::Committed { .. }) {
            return;
        }
        let same = |run: &&mut Run<'_>| run.process == process && run.name == name && run.epoch == epoch;
        if let Some(run) = self.runs.iter_mut().rev().find(same) {
            run.to = run.to.max(event.at);
            if event.what == What::Stopped {
                run.stopped = true;
                run.lines.push(line);
            }
        }
    }
}

impl Process {
    /// Whether it was stopped for longer than F by a pause that touches this time.
    pub(super) fn was_paused(&self, from: u64, to: u64) -> bool {
        let long = |(begin, end): &&(u64, u64)| end.saturating_sub(*begin) > self.trust_for;
        self.pauses
            .iter()
            .filter(long)
            .any(|(begin, end)| *begin <= to && end.saturating_add(super::LATE) >= from)
    }

    /// Until when it may act, by what was acknowledged to it by this moment.
    pub(super) fn trusted_until(&self, at: u64) -> u64 {
        self.sent_by(at).map_or(0, |sent| sent + self.trust_for)
    }

    /// When the latest renewal was sent that was acknowledged by this moment.
    pub(super) fn sent_by(&self, at: u64) -> Option<u64> {
        let known = self.renewals.partition_point(|(_, acknowledged)| *acknowledged <= at);
        self.renewals[..known].last().map(|(sent, _)| *sent)
    }

    /// The acknowledged renewals, in order: the latest that was sent by then, and when it was acknowledged.
    pub(super) fn renewals(&self) -> &[(u64, u64)] {
        &self.renewals
    }

    fn settle(&mut self) {
        self.renewals.sort_by_key(|(_, acknowledged)| *acknowledged);
        let mut latest = 0;
        for (sent, _) in &mut self.renewals {
            latest = latest.max(*sent);
            *sent = latest;
        }
    }
}

/// An acknowledged claim.
pub(super) struct ClaimLine<'a> {
    pub(super) line: usize,
    pub(super) event: &'a Event,
    pub(super) sent: u64,
    pub(super) wait: u64,
    pub(super) name: &'a str,
    pub(super) epoch: i64,
}

/// A violation.
pub(super) fn broken(invariant: u8, what: String, lines: impl Into<Vec<usize>>) -> Violation {
    Violation { invariant, what, lines: lines.into() }
}

/// Milliseconds, for people.
#[allow(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn ms(nanos: u64) -> String {
    format!("{:.1} ms", nanos as f64 / 1e6)
}

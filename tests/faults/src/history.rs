//! The record of what processes did: one JSON object per line, appended by all of them to one file.
//!
//! A line's `at` is CLOCK_BOOTTIME in nanoseconds, taken at the event: of one machine, so it compares between processes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// What the runner writes in the place of a process.
pub const RUNNER: &str = "runner";

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When: CLOCK_BOOTTIME, nanoseconds.
    pub at: u64,
    /// Whose: the random id of a process, or [`RUNNER`].
    pub process: String,
    /// Under which registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
    /// Which lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of which term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened. Durations are nanoseconds, moments as [`Event::at`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The process has begun, with these times: R, F, S, G, TTL and the poll.
    #[allow(missing_docs)]
    Began {
        pid: u32,
        label: String,
        renew_every: u64,
        trust_for: u64,
        stop_within: u64,
        grace: u64,
        ttl: u64,
        poll_every: u64,
    },
    /// The store took the incarnation in.
    Registered,
    /// A renewal that was sent then was acknowledged.
    #[allow(missing_docs)]
    Renewed { sent: u64 },
    /// A renewal was answered that the incarnation is dead.
    Dead,
    /// The process declared another one dead; it had asked then.
    #[allow(missing_docs)]
    Declared { who: String, sent: u64 },
    /// The process looked for instances without a beacon.
    Looked,
    /// A claim that was sent then was acknowledged, and this wait is owed before the start.
    #[allow(missing_docs)]
    Claimed { sent: u64, wait: u64, reason: String },
    /// A renewal shows a term as ours whose claim was never answered.
    Listed,
    /// The worker's body runs.
    #[allow(missing_docs)]
    Started { external: bool },
    /// Nothing of the worker's body runs any more.
    Stopped,
    /// The worker acted outside of the database, right after it found its term trusted.
    Acted,
    /// The n-th fenced transaction of the term was acknowledged as committed.
    #[allow(missing_docs)]
    Committed { n: i64 },
    /// The n-th fenced transaction of the term was refused by the fence.
    #[allow(missing_docs)]
    Refused { n: i64 },
    /// A release was answered that had been sent then: `ours` is the acknowledgement.
    #[allow(missing_docs)]
    Released { sent: u64, ours: bool },
    /// A renewal that was sent after the term's claim shows that it is over, or the incarnation is.
    Lost,
    /// The process was asked to end.
    Closing,
    /// The process ends by itself.
    #[allow(missing_docs)]
    Exit { code: i32 },
    /// The clock of the process jumped ahead.
    #[allow(missing_docs)]
    Shifted { by: u64 },
    /// The runner: this process was killed, stopped, continued, or is gone.
    Killed,
    /// See [`What::Killed`].
    Paused,
    /// See [`What::Killed`].
    Resumed,
    /// See [`What::Killed`].
    Gone,
    /// The runner: the network of this process was cut, or is whole again.
    Cut,
    /// See [`What::Cut`].
    Mended,
    /// The runner did this. Every lease must run again so long after `Healed`, or after this if nothing has to heal.
    #[allow(missing_docs)]
    Fault { nemesis: String, within: u64, heals: bool },
    /// The runner took the fault away.
    Healed,
    /// The runner stepped the wall clock of the database's server, now or back.
    Stepped,
    /// The runner begins to leave everything alone.
    Quiet,
    /// The runner has left everything alone for long enough for the leases to be spread evenly.
    Settled,
    /// From the database, after the end: in the order of commits, the place of the n-th transaction of a term.
    #[allow(missing_docs)]
    Ordered { place: i64, n: i64 },
}

impl Event {
    /// An event of now.
    pub fn now(process: &str, what: What) -> Self {
        Self { at: now(), process: process.to_owned(), incarnation: None, name: None, epoch: None, what }
    }

    /// The same, of a lease's term.
    #[must_use]
    pub fn of(mut self, name: &str, epoch: i64) -> Self {
        self.name = Some(name.to_owned());
        self.epoch = Some(epoch);
        self
    }

    /// The same, by an incarnation.
    #[must_use]
    pub fn by(mut self, incarnation: &str) -> Self {
        self.incarnation = Some(incarnation.to_owned());
        self
    }
}

/// CLOCK_BOOTTIME in nanoseconds, whatever is done to a contender's clock.
pub fn now() -> u64 {
    leased_actors::clock::Clock::boottime().now().as_nanos()
}

/// Appends lines. A line is one write, so lines of several processes never mix.
#[derive(Clone)]
pub struct Recorder {
    file: Option<Arc<File>>,
    stdout: Arc<Mutex<()>>,
}

impl Recorder {
    /// To this file, or to stdout.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let file = path.map(|path| OpenOptions::new().append(true).create(true).open(path)).transpose()?;
        Ok(Self { file: file.map(Arc::new), stdout: Arc::default() })
    }

    /// Writes one line, at once.
    ///
    /// # Panics
    /// If it cannot be written: a history with holes proves nothing.
    pub fn write(&self, event: &Event) {
        let mut line = serde_json::to_vec(event).expect("an event is plain data");
        line.push(b'\n');
        let written = match &self.file {
            Some(file) => (&**file).write_all(&line),
            None => {
                let _turn = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
                let mut stdout = io::stdout().lock();
                stdout.write_all(&line).and_then(|()| stdout.flush())
            }
        };
        written.expect("the history can be written");
    }
}

/// Reads lines; a last line without its end is left out, and so is what is no event.
pub fn parse(text: &str) -> Vec<Event> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_when_who_what_and_comes_back_as_it_was() {
        let event =
            Event { at: 5, ..Event::now("p", What::Claimed { sent: 3, wait: 0, reason: "first".into() }) };
        let event = event.by("i").of("external-1", 7);
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(
            line,
            r#"{"at":5,"process":"p","incarnation":"i","name":"external-1","epoch":7,"event":"claimed","sent":3,"wait":0,"reason":"first"}"#
        );
        assert_eq!(parse(&format!("{line}\n{{\"at\":")), [event]);
    }
}

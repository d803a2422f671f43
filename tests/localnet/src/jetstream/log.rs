//! What was published: the bounded log that subscribers read from, and the list that is the truth.

mod kept;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use super::Raw;
use super::event::{Event, Kind, Line, Outline};
use super::v2::{self, FutureCursor, Notice};
use crate::{ids, lock};
use kept::Kept;

/// Commits remembered as truth. At 1 KB each a gigabyte at most; a soak run of hours stays far below it.
const TRUTH_MAX: usize = 1_000_000;

/// One thing to send.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) time_us: i64,
    /// The position on the second wire; 0 for what is no event.
    pub(super) seq: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Event {
        did: String,
        kind: Kind,
        collection: Option<String>,
        bytes: Arc<[u8]>,
    },
    Raw(Raw),
    /// For the second wire alone.
    Notice(Notice),
}

/// What a replay begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    Time(i64),
    Seq(u64),
}

/// Where a new subscriber starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Position of the first entry to look at.
    pub(super) position: u64,
    /// Entries before this position are replayed: raw frames and events older than the cursor are left out.
    pub(super) live_from: u64,
    pub(super) from: From,
}

/// The number is below the oldest one that is kept, which is this.
#[derive(Debug)]
pub(super) struct TooOld(pub(super) u64);

#[derive(Debug)]
pub(super) struct Log {
    kept: Mutex<Kept>,
    /// Position after the last entry.
    head: watch::Sender<u64>,
    /// Position of each subscriber, for the backlog.
    positions: Mutex<BTreeMap<u64, u64>>,
}

impl Log {
    pub(super) fn new(retain: usize, jitter_us: u64, seed: u64) -> Self {
        let kept = Kept::new(retain, jitter_us, seed);
        Self { kept: Mutex::new(kept), head: watch::Sender::new(0), positions: Mutex::default() }
    }

    pub(super) fn publish(&self, did: &str, event: &Event) -> i64 {
        let mut kept = lock(&self.kept);
        let time_us = kept.tick();
        let line = Line { did, time_us, event };
        let bytes = serde_json::to_vec(&line).expect("an event has only string keys").into();
        let collection = match event {
            Event::Commit { commit } => Some(commit.collection.clone()),
            Event::Identity { .. } | Event::Account { .. } | Event::Sync { .. } => None,
        };
        self.accept(
            kept,
            time_us,
            What::Event { did: did.to_owned(), kind: event.kind(), collection, bytes },
        );
        time_us
    }

    pub(super) fn publish_line(&self, line: Vec<u8>) -> serde_json::Result<i64> {
        let outline: Outline = serde_json::from_slice(&line)?;
        let collection = outline.commit.map(|c| c.collection);
        let kind = outline.kind;
        let event = What::Event { did: outline.did, kind, collection, bytes: line.into() };
        self.accept(lock(&self.kept), outline.time_us, event);
        Ok(outline.time_us)
    }

    pub(super) fn send_raw(&self, raw: Raw) {
        self.accept(lock(&self.kept), 0, What::Raw(raw));
    }

    pub(super) fn send_notice(&self, notice: Notice) {
        self.accept(lock(&self.kept), 0, What::Notice(notice));
    }

    /// Loses the log and begins to count anew.
    pub(super) fn reset(&self) {
        let mut kept = lock(&self.kept);
        while !kept.entries.is_empty() {
            kept.drop_oldest();
        }
        kept.next_seq = 1;
    }

    /// The number of the next event.
    pub(super) fn next_seq(&self) -> u64 {
        lock(&self.kept).next_seq
    }

    fn accept(&self, mut kept: MutexGuard<'_, Kept>, time_us: i64, what: What) {
        kept.newest_us = kept.newest_us.max(time_us);
        let seq = if matches!(what, What::Event { .. }) { kept.number() } else { 0 };
        if let What::Event { collection: Some(_), bytes, .. } = &what {
            kept.truth.push_back(Arc::clone(bytes));
            if kept.truth.len() > TRUTH_MAX {
                kept.truth.pop_front();
            }
            if kept.withhold {
                return;
            }
        }
        kept.held_back.push(Arc::new(Entry { time_us, seq, what }));
        if kept.held_back.len() >= kept.window {
            kept.let_go();
        }
        self.head.send_replace(kept.head());
    }

    pub(super) fn reorder(&self, window: usize) {
        let mut kept = lock(&self.kept);
        kept.let_go();
        kept.window = window;
        self.head.send_replace(kept.head());
    }

    pub(super) fn replay_last(&self, count: usize) {
        let mut kept = lock(&self.kept);
        let from = kept.entries.len().saturating_sub(count);
        let again: Vec<_> = kept.entries.range(from..).filter(|e| e.is_event()).cloned().collect();
        kept.append(again);
        self.head.send_replace(kept.head());
    }

    pub(super) fn replay_since(&self, span: Duration) {
        let since = ids::now_us().saturating_sub_unsigned(micros(span));
        let mut kept = lock(&self.kept);
        let again = kept.entries.iter().filter(|e| e.is_event() && e.time_us >= since).cloned().collect();
        kept.append(again);
        self.head.send_replace(kept.head());
    }

    pub(super) fn rewind_cursors(&self, span: Duration) {
        lock(&self.kept).rewind_us = i64::try_from(micros(span)).unwrap_or(i64::MAX);
    }

    pub(super) fn forget(&self, keep: usize) {
        let mut kept = lock(&self.kept);
        while kept.entries.len() > keep {
            kept.drop_oldest();
        }
    }

    pub(super) fn withhold_commits(&self, on: bool) {
        lock(&self.kept).withhold = on;
    }

    pub(super) fn newest_us(&self) -> i64 {
        lock(&self.kept).newest_us
    }

    pub(super) fn truth(&self) -> Vec<Arc<[u8]>> {
        lock(&self.kept).truth.iter().cloned().collect()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Replay and live meet without a gap: the start is one look at the log.
    pub(super) fn start(&self, cursor: Option<i64>) -> Start {
        let kept = lock(&self.kept);
        let head = kept.head();
        match cursor {
            Some(cursor) if cursor <= kept.newest_us => {
                let cursor = cursor.saturating_sub(kept.rewind_us);
                Start { position: kept.first, live_from: head, from: From::Time(cursor) }
            }
            _ => Start::live(head),
        }
    }

    /// The same for the second wire, with the notice that goes before everything.
    pub(super) fn start_v2(
        &self,
        cursor: Option<i64>,
        future: FutureCursor,
    ) -> Result<(Start, Option<Notice>), TooOld> {
        let kept = lock(&self.kept);
        let head = kept.head();
        let oldest = kept.entries.iter().find(|entry| entry.is_event());
        let replay = |from| Start { position: kept.first, live_from: head, from };
        let info = |name: &str, message: String| Notice { name: name.to_owned(), message, ends: false };
        match cursor {
            None => Ok((Start::live(head), None)),
            Some(time) if time >= v2::TIME_MIN => match oldest {
                Some(oldest) if time <= kept.newest_us => {
                    let time = time.saturating_sub(kept.rewind_us);
                    let said = || info("OutdatedCursor", format!("resumed from seq {}", oldest.seq));
                    Ok((replay(From::Time(time)), (time < oldest.time_us).then(said)))
                }
                _ => Ok((Start::live(head), None)),
            },
            Some(seq) => {
                let seq = seq.unsigned_abs();
                let floor = oldest.map_or(kept.next_seq, |oldest| oldest.seq);
                if seq > kept.next_seq {
                    let mut notice = info("FutureCursor", format!("cursor {seq}, next is {}", kept.next_seq));
                    notice.ends = future == FutureCursor::Error;
                    let said = (future != FutureCursor::Silent).then_some(notice);
                    return Ok((Start::live(head), said));
                }
                if seq < floor { Err(TooOld(floor)) } else { Ok((replay(From::Seq(seq)), None)) }
            }
        }
    }

    /// Up to `max` entries from a position; None if they are no longer kept.
    pub(super) fn read(&self, position: u64, max: usize) -> Option<Vec<Arc<Entry>>> {
        let kept = lock(&self.kept);
        let from = usize::try_from(position.checked_sub(kept.first)?).ok()?;
        let to = kept.entries.len().min(from.saturating_add(max));
        Some(kept.entries.range(from.min(to)..to).cloned().collect())
    }

    pub(super) fn set_position(&self, subscriber: u64, position: u64) {
        lock(&self.positions).insert(subscriber, position);
    }

    pub(super) fn leave(&self, subscriber: u64) {
        lock(&self.positions).remove(&subscriber);
    }

    pub(super) fn backlog(&self) -> u64 {
        let head = *self.head.borrow();
        lock(&self.positions).values().map(|p| head.saturating_sub(*p)).max().unwrap_or(0)
    }
}

impl Start {
    fn live(head: u64) -> Self {
        Self { position: head, live_from: head, from: From::Time(0) }
    }

    /// Whether an entry lies before what was asked for.
    pub(super) fn leaves_out(&self, entry: &Entry) -> bool {
        !entry.is_event()
            || match self.from {
                From::Time(time_us) => entry.time_us < time_us,
                From::Seq(seq) => entry.seq < seq,
            }
    }
}

impl Entry {
    pub(super) fn is_event(&self) -> bool {
        matches!(self.what, What::Event { .. })
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

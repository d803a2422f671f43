//! A subscriber: events out, and the client's frames in.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::MissedTickBehavior;

use super::dictionary::Deflate;
use super::faults::{Limit, Mode, Raw};
use super::log::{Entry, Start, What};
use super::options::{Options, Wants};
use super::v2::Notice;
use super::{Shared, frame, v2};
use crate::http::Connection;
use crate::lock;

/// Entries taken from the log at once: large enough for a million events a second, small enough for a cut to
/// land where it was asked for.
const BATCH: usize = 256;

static SUBSCRIBERS: AtomicU64 = AtomicU64::new(0);

/// The connection is over.
struct End;

pub(super) struct Subscriber<'a> {
    connection: Connection,
    shared: &'a Shared,
    wants: Wants,
    is_v2: bool,
    deflate: Option<Deflate>,
    /// What goes before everything else.
    notice: Option<Notice>,
    cursor: Option<i64>,
    /// None until a required hello came.
    start: Option<Start>,
    position: u64,
    id: u64,
    sent: u64,
    /// Overrides the server's mode once a limit or a mute door has silenced this connection.
    silenced: bool,
}

impl<'a> Subscriber<'a> {
    pub(super) fn new(
        connection: Connection,
        shared: &'a Shared,
        options: Options,
        opening: Option<(Start, Option<Notice>)>,
        silenced: bool,
    ) -> Self {
        let (start, notice) = opening.unzip();
        let mut subscriber = Self {
            connection,
            shared,
            wants: options.wants,
            is_v2: options.is_v2,
            deflate: options.dictionary.map(Deflate::new),
            notice: notice.flatten(),
            cursor: options.cursor,
            start: None,
            position: 0,
            id: SUBSCRIBERS.fetch_add(1, Ordering::Relaxed),
            sent: 0,
            silenced,
        };
        if let Some(start) = start {
            subscriber.begin_at(start);
        } else if !options.require_hello {
            subscriber.begin();
        }
        let mut stats = lock(&shared.stats);
        stats.handshakes += 1;
        stats.subscribers += 1;
        drop(stats);
        subscriber
    }

    fn begin(&mut self) {
        self.begin_at(self.shared.log.start(self.cursor));
    }

    fn begin_at(&mut self, start: Start) {
        self.position = start.position;
        self.start = Some(start);
        self.shared.log.set_position(self.id, self.position);
    }

    /// Returning drops the TCP connection, which is how every cut is done.
    pub(super) async fn run(mut self) {
        let mut modes = self.shared.faults.mode();
        let mut heads = self.shared.log.changes();
        let mut pings = tokio::time::interval(self.shared.ping_every);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.reset();
        loop {
            let mode = if self.silenced { Mode::Silent } else { *modes.borrow_and_update() };
            if mode == Mode::Frozen {
                let _ = modes.changed().await;
                continue;
            }
            let head = *heads.borrow_and_update();
            if mode == Mode::Normal && self.greet().await.is_err() {
                return;
            }
            let behind = mode == Mode::Normal && self.start.is_some() && self.position < head;
            if behind && self.send_batch().await.is_err() {
                return;
            }
            let mode = if self.silenced { Mode::Silent } else { mode };
            let more = behind && !self.silenced && self.position < head;
            let result = tokio::select! {
                read = self.connection.stream.read_buf(&mut self.connection.buffer) => match read {
                    Ok(0) | Err(_) => Err(End),
                    Ok(_) => self.hear(mode).await,
                },
                () = std::future::ready(()), if more => Ok(()),
                _ = heads.changed(), if !more && mode == Mode::Normal => Ok(()),
                _ = modes.changed(), if !self.silenced => Ok(()),
                _ = pings.tick(), if mode == Mode::Normal => self.write(frame::PING, b"").await,
            };
            if result.is_err() {
                return;
            }
        }
    }

    async fn greet(&mut self) -> Result<(), End> {
        let Some(notice) = self.notice.take() else { return Ok(()) };
        let mut out = Vec::new();
        let end = self.push(&mut out, &What::Notice(notice), None);
        self.connection.stream.write_all(&out).await.map_err(|_| End)?;
        end.map(drop)
    }

    async fn send_batch(&mut self) -> Result<(), End> {
        let entries = self.shared.log.read(self.position, BATCH).ok_or(End)?;
        let limit = self.shared.faults.limit();
        let (mut out, mut events, mut end) = (Vec::new(), 0, Ok(()));
        for entry in &entries {
            let replayed =
                self.start.is_some_and(|start| self.position < start.live_from && start.leaves_out(entry));
            self.position += 1;
            if replayed || !self.wants.matches(entry) {
                continue;
            }
            end = match self.push(&mut out, &entry.what, Some(entry)) {
                Ok(is_event) => {
                    events += u64::from(is_event);
                    Ok(())
                }
                Err(End) => Err(End),
            };
            match limit {
                Some(Limit::CutAfter(n)) if self.sent + events >= n => end = Err(End),
                Some(Limit::SilentAfter(n)) if self.sent + events >= n => self.silenced = true,
                _ => {}
            }
            if end.is_err() || self.silenced {
                break;
            }
        }
        let written = self.connection.stream.write_all(&out).await;
        self.sent += events;
        lock(&self.shared.stats).events_sent += events;
        self.shared.log.set_position(self.id, self.position);
        written.map_err(|_| End).and(end)
    }

    /// Handles every whole frame that has come.
    async fn hear(&mut self, mode: Mode) -> Result<(), End> {
        while let Some((opcode, payload)) = frame::take(&mut self.connection.buffer).map_err(|_| End)? {
            match opcode {
                frame::PING => {
                    lock(&self.shared.stats).pings += 1;
                    if mode != Mode::Silent {
                        self.write(frame::PONG, &payload).await?;
                    }
                }
                frame::CLOSE if mode != Mode::Silent => {
                    self.write(frame::CLOSE, &payload).await?;
                    return Err(End);
                }
                frame::TEXT | frame::BINARY if self.is_v2 => return self.close(1008).await,
                frame::TEXT => self.take_options(&payload).await?,
                _ => {}
            }
        }
        Ok(())
    }

    async fn take_options(&mut self, text: &[u8]) -> Result<(), End> {
        match Wants::from_message(text) {
            Ok(None) => Ok(()),
            Ok(Some(wants)) => {
                self.wants = wants;
                lock(&self.shared.stats).options_updates += 1;
                if self.start.is_none() {
                    self.begin();
                }
                Ok(())
            }
            Err(_) => self.close(1008).await,
        }
    }

    async fn close(&mut self, code: u16) -> Result<(), End> {
        self.write(frame::CLOSE, &code.to_be_bytes()).await?;
        Err(End)
    }

    /// Appends what is sent of an entry. Whether that was an event.
    fn push(&mut self, out: &mut Vec<u8>, what: &What, entry: Option<&Entry>) -> Result<bool, End> {
        match (what, entry) {
            (What::Event { did, bytes, .. }, Some(entry)) if self.is_v2 => {
                match v2::event(entry, did, bytes).filter(|text| self.wants.has_room_for(text)) {
                    Some(text) => self.push_text(out, &text),
                    None => return Ok(false),
                }
            }
            (What::Event { bytes, .. }, _) if self.wants.has_room_for(bytes) => self.push_text(out, bytes),
            (What::Event { .. }, _) => return Ok(false),
            (What::Notice(notice), _) if self.is_v2 => {
                self.push_text(out, &v2::notice(notice));
                if notice.ends {
                    frame::push(out, frame::CLOSE, &1008_u16.to_be_bytes());
                    return Err(End);
                }
                return Ok(false);
            }
            (What::Notice(_), _) => return Ok(false),
            (What::Raw(raw), _) => return push_raw(out, raw).map(|()| false),
        }
        Ok(true)
    }

    fn push_text(&mut self, out: &mut Vec<u8>, text: &[u8]) {
        match &mut self.deflate {
            None => frame::push(out, frame::TEXT, text),
            Some(deflate) => {
                let compressed = deflate.frame(text, self.shared.faults.compressed());
                frame::push(out, frame::BINARY, &compressed);
            }
        }
    }

    async fn write(&mut self, opcode: u8, payload: &[u8]) -> Result<(), End> {
        let mut out = Vec::with_capacity(payload.len() + 10);
        frame::push(&mut out, opcode, payload);
        self.connection.stream.write_all(&out).await.map_err(|_| End)
    }
}

impl Drop for Subscriber<'_> {
    fn drop(&mut self) {
        self.shared.log.leave(self.id);
        lock(&self.shared.stats).subscribers -= 1;
    }
}

fn push_raw(out: &mut Vec<u8>, raw: &Raw) -> Result<(), End> {
    match raw {
        Raw::Text(bytes) => frame::push(out, frame::TEXT, bytes),
        Raw::Binary(bytes) => frame::push(out, frame::BINARY, bytes),
        Raw::Close(code) => frame::push(out, frame::CLOSE, &code.to_be_bytes()),
        Raw::Bytes(bytes) => out.extend_from_slice(bytes),
        Raw::Partial(bytes) => {
            frame::push_head(out, frame::TEXT, bytes.len());
            out.extend_from_slice(&bytes[..bytes.len() / 2]);
            return Err(End);
        }
    }
    Ok(())
}

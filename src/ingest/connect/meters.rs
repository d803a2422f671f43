//! Every metric of the stream. Labels are bounded: hosts are the operator's, outcomes and reasons are enums' words.

use metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};

const CONNECTS: &str = "atcr_stream_connects_total";
const DISCONNECTS: &str = "atcr_stream_disconnects_total";
const FRAMES: &str = "atcr_stream_frames_total";
const BYTES: &str = "atcr_stream_bytes_total";
const SKIPPED: &str = "atcr_stream_skipped_total";
const UNDECODABLE: &str = "atcr_stream_undecodable_total";
const GAPS: &str = "atcr_stream_gaps_total";
const POSITION_REFUSED: &str = "atcr_stream_position_refused";
const CURSOR_FAILURES: &str = "atcr_stream_cursor_failures_total";
const ENDS: &str = "atcr_stream_ends_total";
const CONNECTED: &str = "atcr_stream_connected";
const STALE: &str = "atcr_stream_stale";
const BACKOFF: &str = "atcr_stream_backoff_seconds";
const QUEUE: &str = "atcr_stream_queue_frames";

/// Tells the recorder what each metric means. Once, at start.
pub fn describe_metrics() {
    describe_counter!(CONNECTS, "Attempts to connect, by host and outcome");
    describe_counter!(DISCONNECTS, "Connections that ended, by host and reason");
    describe_counter!(FRAMES, "Messages received, by host");
    describe_counter!(BYTES, Unit::Bytes, "Bytes of messages received, by host");
    describe_counter!(SKIPPED, "Messages skipped unread because they are over the size limit, by host");
    describe_counter!(UNDECODABLE, "Compressed messages that could not be read, by host and reason");
    describe_counter!(GAPS, "Times that the stream has left something out, or may have, by host and reason");
    describe_gauge!(POSITION_REFUSED, "1 while the host does not know the position that is saved for it");
    describe_counter!(CURSOR_FAILURES, "Failed readings of the saved positions before a connect");
    describe_counter!(ENDS, "Ends of the stream's task, by reason");
    describe_gauge!(CONNECTED, "1 while connected to the host");
    describe_gauge!(STALE, "1 while the host is connected and answers, but sends no events");
    describe_gauge!(BACKOFF, Unit::Seconds, "The wait before the next attempt to connect; 0 when none");
    describe_gauge!(QUEUE, "Messages between socket and writer");
}

/// The metrics of one host.
#[derive(Clone)]
pub(super) struct Meters {
    pub(super) frames: Counter,
    pub(super) bytes: Counter,
    pub(super) skipped: Counter,
    pub(super) connected: Gauge,
    pub(super) stale: Gauge,
    pub(super) position_refused: Gauge,
    host: String,
}

impl Meters {
    pub(super) fn of(host: &str) -> Self {
        let host = host.to_owned();
        Self {
            frames: counter!(FRAMES, "host" => host.clone()),
            bytes: counter!(BYTES, "host" => host.clone()),
            skipped: counter!(SKIPPED, "host" => host.clone()),
            connected: gauge!(CONNECTED, "host" => host.clone()),
            stale: gauge!(STALE, "host" => host.clone()),
            position_refused: gauge!(POSITION_REFUSED, "host" => host.clone()),
            host,
        }
    }

    pub(super) fn connect(&self, outcome: &'static str) {
        counter!(CONNECTS, "host" => self.host.clone(), "outcome" => outcome).increment(1);
    }

    pub(super) fn undecodable(&self, reason: &'static str) {
        counter!(UNDECODABLE, "host" => self.host.clone(), "reason" => reason).increment(1);
    }

    pub(super) fn gap(&self, reason: &'static str) {
        counter!(GAPS, "host" => self.host.clone(), "reason" => reason).increment(1);
    }

    pub(super) fn disconnect(&self, reason: &'static str) {
        counter!(DISCONNECTS, "host" => self.host.clone(), "reason" => reason).increment(1);
        self.connected.set(0.0);
        self.stale.set(0.0);
    }
}

pub(super) fn cursor_failure() {
    counter!(CURSOR_FAILURES).increment(1);
}

pub(super) fn end(reason: &'static str) {
    counter!(ENDS, "reason" => reason).increment(1);
}

pub(super) fn backoff() -> Gauge {
    gauge!(BACKOFF)
}

pub(super) fn queue_frames() -> Gauge {
    gauge!(QUEUE)
}

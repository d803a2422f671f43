//! The one form that times have behind the edge.

use std::time::SystemTime;

use chrono::DateTime;

/// Microseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Micros(pub i64);

impl Micros {
    /// The present time by this machine's wall clock: for judging and showing, never for leases.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    /// Reads a record's datetime (RFC 3339; a zone is required). `None` for anything that is not a time after the epoch:
    /// year 0 and the zero time of Go are placeholders, not dates.
    ///
    /// More liberal than <https://atproto.com/specs/lexicon#datetime> where the moment is beyond doubt (`z`, `-00:00`).
    pub fn parse(text: &str) -> Option<Self> {
        let micros = DateTime::parse_from_rfc3339(text).ok()?.timestamp_micros();
        (micros > 0).then_some(Self(micros))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// From the protocol's interoperability files, and what Go and JavaScript write.
    #[test]
    fn every_precision_and_zone_is_read() {
        for (text, micros) in [
            ("1985-04-12T23:20:50Z", 482_196_050_000_000),
            ("1985-04-12T23:20:50.1Z", 482_196_050_100_000),
            ("1985-04-12T23:20:50.123Z", 482_196_050_123_000),
            ("1985-04-12T23:20:50.123456789012Z", 482_196_050_123_456),
            ("1985-04-12T23:20:50.123-07:00", 482_221_250_123_000),
            ("1985-04-12T23:20:50.123+01:45", 482_189_750_123_000),
            ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
            ("1970-01-01T00:00:00.000001Z", 1),
        ] {
            assert_eq!(Micros::parse(text), Some(Micros(micros)), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_after_the_epoch_is_refused() {
        for text in [
            "",
            "0000-01-01T00:00:00.000Z",
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00Z",
            "-000001-12-31T23:00:00.000Z",
            "+262143-12-31T23:59:59Z",
            "99999-12-31T23:59:59Z",
            "1985-04-12T23:20:50.123",
            "1985-04-12",
            "1985-04-12T23:20Z",
            "1985-04-32T23:20:50Z",
            "1985-04-12T25:20:50Z",
            "1985-04-12T23:20:50.Z",
            "1985-04-12T23:20:50.123+0000",
            "1985-4-12T23:20:50.123Z",
            " 1985-04-12T23:20:50.123Z",
            "now",
        ] {
            assert_eq!(Micros::parse(text), None, "{text:?} was accepted");
        }
    }
}

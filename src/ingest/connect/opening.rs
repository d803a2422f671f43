//! What a host's first messages tell of where it really began, and its last of why it ends. Pure; the little of a
//! message's meaning that a connection has to know.

use super::resume::{Cursor, GapReason, Plan};
use crate::ingest::decode::{Message, Notice, decode, decode_v2};
use crate::ingest::wire::Wire;

/// So far behind the newest event of the index the first one may be seen and nothing be missing: hosts' clocks differ.
/// Half takes a badly set clock for a gap; double hides a window that ended a minute ago.
const BEHIND_MAX_US: i64 = 60 * 1_000_000;

/// Every message of the second wire begins so, whatever it is about.
const MESSAGE: &[u8] = br#"{"$type":"message""#;

/// What is kept of a host's words for the log.
const WORDS_MAX: usize = 200;

/// What a message means for the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing: it is the writer's.
    Message,
    /// A notice: the writer's too, but no event.
    Notice,
    /// It is the writer's, but something was left out before it.
    After(GapReason),
    /// The event that the position names, which is in the index already.
    Repeated,
    /// The host ends the stream, or does not know our position.
    Refused(Refusal),
}

/// Why a host does not send what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) why: Why,
    /// What it said, for the log.
    pub(super) said: String,
}

/// The refusals that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It has not come to that number yet: it counts anew, or it is another one behind the same name.
    FutureCursor,
    /// It does not keep that number any more.
    CursorTooOld,
    /// We did not read fast enough.
    TooSlow,
    /// It has no dictionary of that number.
    UnknownDictionary,
    /// Something else.
    Other,
}

impl Why {
    /// By the name of an error or a notice.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "FutureCursor" => Self::FutureCursor,
            "CursorTooOld" => Self::CursorTooOld,
            "ConsumerTooSlow" => Self::TooSlow,
            "UnknownZstdDictionary" => Self::UnknownDictionary,
            _ => Self::Other,
        }
    }

    /// A word for a metric's label.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::FutureCursor => "future_cursor",
            Self::CursorTooOld => "cursor_too_old",
            Self::TooSlow => "too_slow",
            Self::UnknownDictionary => "unknown_dictionary",
            Self::Other => "error_frame",
        }
    }
}

impl Refusal {
    /// Of a name and a message as sent.
    pub(super) fn new(name: &str, message: Option<&str>) -> Self {
        let said = format!("{name}: {}", message.unwrap_or("no message"));
        let said = said.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect();
        Self { why: Why::of(name), said }
    }

    fn of(notice: &Notice<'_>) -> Self {
        Self::new(&notice.name, notice.message.as_deref())
    }
}

/// Listens to one connection.
#[derive(Debug)]
pub(super) struct Opening {
    wire: Wire,
    cursor: Cursor,
    newest_us: Option<i64>,
    /// The first event has been seen.
    is_over: bool,
}

impl Opening {
    /// Of a connection that was asked to begin as `plan` says.
    pub(super) fn new(wire: Wire, plan: &Plan) -> Self {
        Self { wire, cursor: plan.cursor, newest_us: plan.newest_us, is_over: false }
    }

    /// Hears a message. After the first event only those of the second wire are looked at that do not begin as messages
    /// do.
    pub(super) fn hear(&mut self, message: &[u8]) -> Heard {
        match self.wire {
            Wire::V1 if self.is_over => Heard::Message,
            Wire::V1 => match decode(message) {
                Ok(event) => self.first(None, event.time_us),
                Err(_) => Heard::Message,
            },
            Wire::V2 if self.is_over && message.starts_with(MESSAGE) => Heard::Message,
            Wire::V2 => match decode_v2(message) {
                Ok(Message::Event(_)) if self.is_over => Heard::Message,
                Ok(Message::Event(event)) => self.first(event.seq, event.time_us),
                Ok(Message::Info(notice)) => self.info(&notice),
                Ok(Message::Error(notice)) => Heard::Refused(Refusal::of(&notice)),
                Ok(Message::Unknown(_)) | Err(_) => Heard::Message,
            },
        }
    }

    fn info(&self, notice: &Notice<'_>) -> Heard {
        match (&*notice.name, self.cursor) {
            ("OutdatedCursor", _) => Heard::After(GapReason::OldCursor),
            // The host goes on with what is new. By time it may have kept what came in between.
            ("FutureCursor", Cursor::Seq(_)) => Heard::Refused(Refusal::of(notice)),
            _ => Heard::Notice,
        }
    }

    fn first(&mut self, seq: Option<i64>, time_us: i64) -> Heard {
        self.is_over = true;
        match (self.cursor, seq) {
            (Cursor::Seq(asked), Some(first)) if first < asked => Heard::Refused(Refusal {
                why: Why::FutureCursor,
                said: format!("its first event is {first}, asked for was {asked}"),
            }),
            (Cursor::Seq(asked), Some(first)) if first == asked => Heard::Repeated,
            (Cursor::Time(_), _) if self.newest_us.is_some_and(|us| time_us > us + BEHIND_MAX_US) => {
                Heard::After(GapReason::OldCursor)
            }
            _ => Heard::Message,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const T0: i64 = 1_783_175_888_000_000;
    const MINUTE: i64 = 60_000_000;

    fn opening(wire: Wire, cursor: Cursor) -> Opening {
        Opening::new(wire, &Plan { cursor, newest_us: Some(T0), gap: None })
    }

    fn v1(time_us: i64) -> Vec<u8> {
        let account = r#"{"active":true,"did":"did:plc:a","seq":1,"time":"t"}"#;
        format!(r#"{{"did":"did:plc:a","time_us":{time_us},"kind":"account","account":{account}}}"#).into()
    }

    fn v2(seq: i64) -> Vec<u8> {
        let kind = "network.bsky.jetstream.subscribeEvents#identity";
        format!(
            r#"{{"$type":"message","payload":{{"$type":"{kind}","did":"did:plc:a","identity":{{}},"seq":{seq},"time":"2026-07-04T14:38:08Z"}}}}"#
        )
        .into()
    }

    fn info(name: &str) -> Vec<u8> {
        let kind = "network.bsky.jetstream.subscribeEvents#info";
        format!(r#"{{"$type":"message","payload":{{"$type":"{kind}","name":"{name}"}}}}"#).into()
    }

    fn error(name: &str) -> Vec<u8> {
        format!(r#"{{"$type":"error","error":"{name}","message":"why\n"}}"#).into()
    }

    fn refused(heard: &Heard) -> Option<Why> {
        match heard {
            Heard::Refused(refusal) => Some(refusal.why),
            _ => None,
        }
    }

    // S6: bluesky-social/jetstream-legacy#58
    #[test]
    fn a_first_event_far_behind_the_newest_of_the_index_comes_after_a_gap_and_is_said_once() {
        let asked = Cursor::Time(T0 - MINUTE);
        let mut near = opening(Wire::V1, asked);
        assert_eq!(near.hear(&v1(T0 + MINUTE)), Heard::Message);
        assert_eq!(near.hear(&v1(T0 + 2 * MINUTE)), Heard::Message, "a quiet network");
        let mut far = opening(Wire::V1, asked);
        assert_eq!(far.hear(b"nonsense"), Heard::Message);
        assert_eq!(far.hear(&v1(T0 + MINUTE + 1)), Heard::After(GapReason::OldCursor));
        assert_eq!(far.hear(&v1(T0 + MINUTE + 2)), Heard::Message);
        assert_eq!(opening(Wire::V1, Cursor::Live).hear(&v1(T0 + 9 * MINUTE)), Heard::Message);
        assert_eq!(
            opening(Wire::V2, Cursor::Time(T0)).hear(&info("OutdatedCursor")),
            Heard::After(GapReason::OldCursor)
        );
    }

    // S14: bluesky-social/indigo#837
    #[test]
    fn the_event_that_the_position_names_is_the_first_and_not_taken_twice() {
        let mut opening = opening(Wire::V2, Cursor::Seq(7));
        assert_eq!(opening.hear(&info("Hello")), Heard::Notice);
        assert_eq!(opening.hear(&v2(7)), Heard::Repeated);
        assert_eq!(opening.hear(&v2(8)), Heard::Message);
        assert_eq!(opening.hear(&v2(7)), Heard::Message, "later repetitions are the versions' business");
    }

    // S28: bluesky-social/pds#341
    #[test]
    fn a_host_that_counts_anew_is_recognised_however_it_tells() {
        for first in [v2(6), info("FutureCursor"), error("FutureCursor")] {
            let heard = opening(Wire::V2, Cursor::Seq(7)).hear(&first);
            assert_eq!(refused(&heard), Some(Why::FutureCursor), "{heard:?}");
        }
        assert_eq!(opening(Wire::V2, Cursor::Time(T0)).hear(&v2(6)), Heard::Message);
        assert_eq!(opening(Wire::V2, Cursor::Time(T0)).hear(&info("FutureCursor")), Heard::Notice);
    }

    #[test]
    fn an_error_ends_the_stream_at_any_time_by_its_name() {
        for (name, why) in [("ConsumerTooSlow", Why::TooSlow), ("Tomorrow", Why::Other)] {
            let mut opening = opening(Wire::V2, Cursor::Seq(7));
            assert_eq!(opening.hear(&v2(8)), Heard::Message);
            let Heard::Refused(refusal) = opening.hear(&error(name)) else { panic!("{name}") };
            assert_eq!((refusal.why, refusal.said), (why, format!("{name}: why")));
        }
        assert_eq!(opening(Wire::V1, Cursor::Live).hear(&error("ConsumerTooSlow")), Heard::Message);
    }

    #[test]
    fn what_a_host_says_is_cut_and_cleaned_for_the_log() {
        let said = Refusal::new("A", Some(&"x\n".repeat(500))).said;
        assert_eq!((said.len(), said.contains('\n')), (WORDS_MAX, false));
    }
}

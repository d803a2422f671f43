//! One frame to what it means for the index. Pure: the frame, who is known and the present time go in. Must not know
//! the socket or the database.

use super::decode::{About, Commit, Event, Kind, Message, Operation, decode, decode_v2, glance};
use super::known::Known;
use super::wire::Wire;
use crate::atproto::records::{self, Collection};
use crate::atproto::{self, Change, Did, Rev, Rkey, State};

/// An event this far ahead of our clock is no event of now. Half would mistake a badly set clock, ours or the host's,
/// for a broken event; double lets a wrong time hide for longer.
const AHEAD_MAX_US: i64 = 10 * 60 * 1_000_000;

/// Why an event that is further ahead is dropped.
pub const FUTURE: &str = "future";

/// The longest status that is kept; the words of the protocol have at most 14 letters.
const STATUS_CHARS_MAX: usize = 64;

/// What one frame means.
#[derive(Debug, PartialEq)]
pub struct Projected {
    /// When the host saw it: none where the frame does not tell, or cannot be believed. On the first wire this is the
    /// host's position once this is done.
    pub time_us: Option<i64>,
    /// The host's position on the second wire, under the same conditions.
    pub seq: Option<i64>,
    /// What to do.
    pub what: What,
}

/// What to do about a frame.
#[derive(Debug, PartialEq)]
pub enum What {
    /// A record changed. The word tells what is wrong with it, if it is unreadable.
    Change(Box<Change>, Option<&'static str>),
    /// A known account changed its standing.
    Account {
        /// Whose.
        did: Did,
        /// What decides.
        active: bool,
        /// A hint why not.
        status: Option<String>,
    },
    /// A known account's identity may have changed.
    Identity(Did),
    /// A known account's repository has to be read again.
    Sync(Did),
    /// Nothing, for this reason: a bounded word for a metric.
    Dropped(&'static str),
}

/// Reads a frame. Never fails, never panics: what makes no sense is dropped with a reason.
pub fn project(wire: Wire, frame: &[u8], known: &Known, now_us: i64) -> Projected {
    match wire {
        Wire::V1 => of_v1(frame, known, now_us),
        Wire::V2 => of_v2(frame, known, now_us),
    }
}

fn of_v1(frame: &[u8], known: &Known, now_us: i64) -> Projected {
    if let Some(seen) = glance(frame) {
        let dropped = match seen.about {
            About::Identity | About::Account => (!known.contains(seen.did)).then_some("unknown_account"),
            About::Commit { collection } => {
                Collection::from_nsid(collection).is_none().then_some("foreign_collection")
            }
        };
        if let Some(reason) = dropped {
            return at(seen.time_us, None, now_us, What::Dropped(reason));
        }
    }
    match decode(frame) {
        Err(error) => nothing(error.kind()),
        Ok(event) => at(event.time_us, None, now_us, meaning(&event, known)),
    }
}

/// No glance here: hosts filter by collection, and put the number behind the record.
fn of_v2(frame: &[u8], known: &Known, now_us: i64) -> Projected {
    match decode_v2(frame) {
        Err(error) => nothing(error.kind()),
        Ok(Message::Event(event)) => at(event.time_us, event.seq, now_us, meaning(&event, known)),
        // What they mean for the position was heard by the connection.
        Ok(Message::Info(_)) => nothing("info"),
        Ok(Message::Error(_)) => nothing("error"),
        Ok(Message::Unknown(_)) => nothing("unknown_kind"),
    }
}

fn nothing(reason: &'static str) -> Projected {
    Projected { time_us: None, seq: None, what: What::Dropped(reason) }
}

/// Nothing of an event from the future counts, its position least of all: saved, it would skip all before it.
fn at(time_us: i64, seq: Option<i64>, now_us: i64, what: What) -> Projected {
    if time_us > now_us.saturating_add(AHEAD_MAX_US) {
        return nothing(FUTURE);
    }
    Projected { time_us: Some(time_us), seq, what }
}

fn meaning(event: &Event<'_>, known: &Known) -> What {
    match &event.kind {
        Kind::Commit(commit) => change(&event.did, commit),
        Kind::Unknown(_) => What::Dropped("unknown_kind"),
        // Strangers' repositories too: what they hold of ours, the next backfill finds.
        Kind::Identity { .. } | Kind::Account { .. } | Kind::Sync { .. } if !known.contains(&event.did) => {
            What::Dropped("unknown_account")
        }
        about => match (Did::parse(&event.did), about) {
            (Ok(did), Kind::Account { active, status, .. }) => {
                What::Account { did, active: *active, status: status.as_deref().map(plain) }
            }
            (Ok(did), Kind::Sync { .. }) => What::Sync(did),
            (Ok(did), _) => What::Identity(did),
            (Err(_), _) => What::Dropped("bad_did"),
        },
    }
}

/// What the database may keep of a word that a stranger sent.
fn plain(status: &str) -> String {
    status.chars().filter(|c| !c.is_control()).take(STATUS_CHARS_MAX).collect()
}

fn change(did: &str, commit: &Commit<'_>) -> What {
    let Some(collection) = Collection::from_nsid(&commit.collection) else {
        return What::Dropped("foreign_collection");
    };
    let (Ok(did), Ok(rkey), Ok(rev)) = (Did::parse(did), Rkey::parse(&commit.rkey), Rev::parse(&commit.rev))
    else {
        return What::Dropped("bad_address");
    };
    let (state, wrong) = match (commit.operation, commit.record) {
        (Operation::Delete, _) => (State::Absent, None),
        (_, None) => return What::Dropped("missing_record"),
        (_, Some(record)) => match records::read(collection, &rkey, record.get()) {
            Ok(record) => (State::Present(Box::new(record)), None),
            Err(error) => (State::Unreadable, Some(error.kind())),
        },
    };
    let cid = commit.cid.as_deref().and_then(atproto::change::cid);
    What::Change(Box::new(Change { did, collection, rkey, rev, cid, state }), wrong)
}

#[cfg(test)]
mod tests;

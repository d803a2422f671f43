//! How the worker follows a labeler. The defaults stand here; the settings name the labeler, and whether signatures count.

use std::time::Duration;

use super::connect::Waits;
use crate::atproto::Did;

/// Whom to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By DID.
    Did(Did),
    /// By an address where it answers.
    Url(String),
}

/// How to follow a labeler.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whom.
    pub labeler: Named,
    /// Whether a label counts with a good signature alone.
    pub verify: bool,
    /// How long a connection may show no sign of life.
    pub idle_limit: Duration,
    /// Messages over this are skipped and counted. Real ones have half a KiB; at double, a hostile labeler makes us hold twice
    /// as much.
    pub message_bytes_max: usize,
    /// The waits between failures.
    pub waits: Waits,
    /// How often at most the labeler's document is asked for because labels are not good. At half, a labeler with broken
    /// signatures has its source asked twice as often; at double, a new key works a minute later.
    pub ask_every: Duration,
    /// How often the labeler's list is read on. At half, twice the requests; at double, a takedown that its stream lost comes
    /// five minutes later.
    pub check_every: Duration,
    /// How often all of it is read.
    pub whole_every: Duration,
    /// What labelers are told about us.
    pub user_agent: String,
}

impl Config {
    /// The defaults.
    pub fn new(labeler: Named, verify: bool, user_agent: String) -> Self {
        Self {
            labeler,
            verify,
            idle_limit: Duration::from_secs(30),
            message_bytes_max: 1 << 20,
            waits: Waits::default(),
            ask_every: Duration::from_secs(60),
            check_every: Duration::from_secs(300),
            whole_every: Duration::from_secs(24 * 3600),
            user_agent,
        }
    }
}

//! What the index puts into the outbox and the sender takes out: the one thing that they share. Pure.
//!
//! In reading order: the words here; [`event`], what happened, as it is put in; [`fold`], which
//! deliveries a batch asks for; [`payload`], the bytes that are sent; [`gate`], what a tier may have. Knows nothing of the database.

pub mod event;
pub mod fold;
pub mod gate;
pub mod meters;
pub mod payload;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::atproto::Micros;
use crate::settings::{Secret, Settings};

pub use event::{Counts, Event};
pub use gate::{Gate, Tiers};
pub use payload::{Site, Surroundings};

/// Why a delivery is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trigger {
    /// A manifest was stored, or a tag came to one.
    Push,
    /// An image was scanned for the first time.
    ScanFirst,
    /// An image was scanned.
    ScanAll,
    /// A scan found other numbers than the one before.
    ScanChanged,
    /// Somebody asked for a test.
    Test,
}

impl Trigger {
    /// Those that a webhook can be set to.
    pub const SETTABLE: [Self; 4] = [Self::Push, Self::ScanFirst, Self::ScanAll, Self::ScanChanged];

    /// The word for it: in the payload, in the header, on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::ScanFirst => "scan:first",
            Self::ScanAll => "scan:all",
            Self::ScanChanged => "scan:changed",
            Self::Test => "test",
        }
    }

    /// Its bit in `webhooks.triggers`; a test has none.
    pub fn bit(self) -> i64 {
        match self {
            Self::Push => 0x08,
            Self::ScanFirst => 0x01,
            Self::ScanAll => 0x02,
            Self::ScanChanged => 0x04,
            Self::Test => 0,
        }
    }

    /// Whether only tiers with all triggers have it.
    pub fn is_paid(self) -> bool {
        matches!(self, Self::ScanAll | Self::ScanChanged)
    }

    /// The one that a word of [`Trigger::as_str`] stands for.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::SETTABLE.into_iter().chain([Self::Test]).find(|trigger| trigger.as_str() == word)
    }

    /// Those whose bits are set.
    pub fn of_bits(bits: i64) -> Vec<Self> {
        Self::SETTABLE.into_iter().filter(|trigger| bits & trigger.bit() != 0).collect()
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Trigger {
    type Err = &'static str;

    /// Reads one that a webhook can be set to.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let known = Self::SETTABLE.into_iter().find(|trigger| trigger.as_str() == text);
        known.ok_or("expected push, scan:first, scan:all or scan:changed")
    }
}

/// A delivery to be made.
#[derive(Clone, Debug)]
pub struct DueDelivery {
    /// Stable over retries, take-overs and redeliveries of the same row: `whd_` and 26 base32 characters in lower case.
    pub id: String,
    /// Whose it is.
    pub webhook: i64,
    /// Where it goes.
    pub url: String,
    /// What it is signed with.
    pub secret: Option<Secret>,
    /// Why.
    pub trigger: Trigger,
    /// JSON of the registry's shape: the exact bytes to be signed for a plain endpoint, the same in every attempt.
    pub payload: String,
    /// Attempts made before.
    pub attempt: u32,
    /// When its event was put in.
    pub created_at: Micros,
    /// A retry that would come after it is not made. The first attempt is made in any case.
    pub give_up_at: Micros,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempted {
    /// The endpoint has it.
    Delivered {
        /// Its answer.
        code: u16,
    },
    /// Tried again after so long; given up if that is past [`DueDelivery::give_up_at`].
    Retry {
        /// Its answer, if it gave one.
        code: Option<u16>,
        /// What went wrong, in one line, without the endpoint's address or secret.
        error: String,
        /// From now.
        after: Duration,
    },
    /// Not tried again.
    Failed {
        /// Its answer, if it gave one.
        code: Option<u16>,
        /// As above.
        error: String,
    },
}

/// What an operator decides about deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What tiers may have.
    pub tiers: Tiers,
    /// Where the registry is.
    pub site: Site,
    /// For how long a delivery is tried.
    pub give_up_after: Duration,
}

impl Rules {
    /// Those of the settings.
    pub fn of(settings: &Settings) -> Self {
        Self {
            tiers: Tiers::of(&settings.billing.tiers),
            site: Site::of(&settings.registry),
            give_up_after: settings.webhooks.give_up_after,
        }
    }
}

/// Why a delivery is not made, though its event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Withheld {
    /// What it is about is taken down, or who it is about.
    TakenDown,
    /// The user's tier has no such trigger, or not so many webhooks.
    Tier,
    /// The webhook is disabled.
    Disabled,
}

impl Withheld {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TakenDown => "taken down",
            Self::Tier => "tier",
            Self::Disabled => "disabled",
        }
    }
}

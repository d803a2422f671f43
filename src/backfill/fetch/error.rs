//! Why a repository could not be read, or not whole.

use thiserror::Error;
use tokio::time::Instant;

use crate::atproto::identity::IdentityError;
use crate::atproto::{Collection, Did};
use crate::backfill::ask::AskError;

/// Why a repository could not be read, or not whole.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FetchError {
    /// Who the account is could not be found out.
    #[error("{error}")]
    Identity {
        /// What came of it.
        error: IdentityError,
        /// From when on the account's source may be asked again, if it said so.
        retry_at: Option<Instant>,
    },
    /// Its document names no PDS.
    #[error("the document of {0} names no PDS")]
    NoPds(Did),
    /// Its PDS serves it, and does not tell at which revision.
    #[error("the PDS of {0} tells no revision")]
    NoRevision(Did),
    /// Its PDS did not answer, or not with what was asked for.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// It is more than is read.
    #[error("{}: {why}", .collection.nsid())]
    Short {
        /// The first that was not read to its end.
        collection: Collection,
        /// In which way.
        why: Shortfall,
    },
}

/// Why the rest of a listing is not read, though its PDS would go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Shortfall {
    /// More records in one collection than are read.
    #[error("it has too many records")]
    TooManyRecords,
    /// More bytes in the repository than are read.
    #[error("the repository has too many bytes")]
    TooManyBytes,
    /// The PDS took too long over it.
    #[error("it takes too long")]
    TooSlow,
    /// The PDS leads round in circles, so that nobody knows whether this was all.
    #[error("its end is not clear")]
    NoEnd,
}

impl FetchError {
    pub(super) fn identity(error: IdentityError, retry_at: Option<Instant>) -> Self {
        Self::Identity { error, retry_at }
    }

    /// Whether it may well succeed later, with nothing changed on our side. False: trying again soon is of no use.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Identity { error, .. } => error.is_temporary(),
            Self::Ask(error) => error.is_temporary(),
            Self::NoPds(_) | Self::NoRevision(_) | Self::Short { .. } => false,
        }
    }

    /// From when on it may be tried again, where a host said so.
    pub fn retry_at(&self) -> Option<Instant> {
        match self {
            Self::Identity { retry_at, .. } => *retry_at,
            Self::Ask(error) => error.retry_at(),
            Self::NoPds(_) | Self::NoRevision(_) | Self::Short { .. } => None,
        }
    }

    /// The error as a label of a metric.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Identity { error, .. } if error.is_temporary() => "identity_later",
            Self::Identity { .. } => "identity",
            Self::NoPds(_) => "no_pds",
            Self::NoRevision(_) => "no_revision",
            Self::Ask(AskError::Paused(_)) => "paused",
            Self::Ask(error) if error.is_temporary() => "pds_later",
            Self::Ask(_) => "pds",
            Self::Short { why: Shortfall::TooManyRecords, .. } => "too_many_records",
            Self::Short { why: Shortfall::TooManyBytes, .. } => "too_many_bytes",
            Self::Short { why: Shortfall::TooSlow, .. } => "too_slow",
            Self::Short { why: Shortfall::NoEnd, .. } => "no_end",
        }
    }
}

//! Who an account is at this moment: its PDS and its handle, asked freshly. Knows nothing of the database; how
//! many resolutions run at once is the caller's business. Who may use an answer that is a little old asks the cache.
//!
//! What is not known for certain is never told as if it were: a failed look-up is neither "gone" nor "no valid handle".

mod cache;
mod directory;
mod document;
mod handle;
mod labeler;
mod txt;

pub use cache::{IdentityCache, Known, LookUp};
pub use labeler::Labeler;
pub use txt::{Dns, TxtLookup};

use std::sync::Arc;

use thiserror::Error;

use super::did::Did;
use super::guard::{Allowance, Guarded};
use super::handle::Handle;

/// What was found out about an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The account.
    pub did: Did,
    /// Whether it has a handle that it is known by.
    pub handle: HandleCheck,
    /// Where its repository is: scheme, host and port. `None` if the document names none.
    pub pds: Option<String>,
}

/// Whether the handle that a document claims is the account's: the handle must lead back to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandleCheck {
    /// Both say so.
    Valid(Handle),
    /// The document claims none, or the handle leads nowhere or to somebody else: `handle.invalid`.
    Invalid,
    /// It could not be found out, for this reason. What was known before stands.
    Unknown(String),
}

/// Why an account's document could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// Its method's own source says that there never was such a DID.
    #[error("{0} does not exist")]
    NotFound(Did),
    /// The directory says that it was there and was deleted.
    #[error("{0} was deleted")]
    Deleted(Did),
    /// A method other than plc and web, or a web address that the protocol does not allow.
    #[error("{did} cannot be resolved: {reason}")]
    Unsupported {
        /// The account.
        did: Did,
        /// For a person.
        reason: &'static str,
    },
    /// Its source answered with something that is no document of it.
    #[error("the document of {did} is not valid: {reason}")]
    BadDocument {
        /// The account.
        did: Did,
        /// For a person.
        reason: &'static str,
    },
    /// Its source may not be asked.
    #[error("the document of {did} was not asked for: {reason}")]
    Refused {
        /// The account.
        did: Did,
        /// For a person.
        reason: String,
    },
    /// The look-up failed, and may succeed later.
    #[error("resolving failed for now: {0}")]
    Temporary(String),
    /// Its source takes no more requests for now.
    #[error("the source of {did} takes no more requests for now (status {status})")]
    Throttled {
        /// The account.
        did: Did,
        /// 429 or 503.
        status: u16,
        /// For how long.
        allowance: Allowance,
    },
}

impl IdentityError {
    /// Whether a later attempt may well go otherwise, with nothing changed by the account.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Temporary(_) | Self::Throttled { .. })
    }
}

/// Asks for identities. Cheap to clone.
#[derive(Clone)]
pub struct Resolver {
    guarded: Guarded,
    operator: Guarded,
    plc_url: Arc<str>,
    txt: Arc<dyn TxtLookup>,
}

impl Resolver {
    /// `guarded` asks strangers' hosts; `operator` (`Guarded::trusting`) asks the PLC directory at `plc_url`.
    pub fn new(guarded: Guarded, operator: Guarded, plc_url: &str, txt: Arc<dyn TxtLookup>) -> Self {
        Self { guarded, operator, plc_url: plc_url.trim_end_matches('/').into(), txt }
    }

    /// Finds out who `did` is. Cancel-safe.
    pub async fn resolve(&self, did: &Did) -> Result<Identity, IdentityError> {
        let document = self.document(did).await?;
        let handle = match document.handle {
            Some(handle) => self.check_handle(did, handle).await,
            None => HandleCheck::Invalid,
        };
        Ok(Identity { did: did.clone(), handle, pds: document.pds })
    }

    /// Finds out where `did` answers as a hold: scheme, host and port. `None` if its document names no such place.
    /// Cancel-safe.
    pub async fn hold(&self, did: &Did) -> Result<Option<String>, IdentityError> {
        Ok(self.document(did).await?.hold)
    }

    /// Whether the protocol lets us ask a host of this name. `.test` is for tests.
    fn may_ask(&self, name: &Handle) -> bool {
        let reserved = name.is_reserved() || name.as_str().ends_with(".test");
        !reserved || self.guarded.is_test_host(name.as_str())
    }
}

#[cfg(test)]
mod tests;

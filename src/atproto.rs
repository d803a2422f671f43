//! The protocol's words: identifiers, records of the registry, identity, and the one client that strangers' addresses
//! are asked through. Knows nothing of the database or of any worker.
//!
//! In reading order: the identifiers (`did`, `handle`, `tid`, `uri`), what a record says (`records`), what a repository
//! says about a record (`change`), whom we may ask (`guard`) and how (`xrpc`; by a connection that stays, `socket`), who
//! somebody is (`identity`), what they have signed and how we sign (`key`, `cbor`).

pub mod cbor;
pub mod change;
pub mod did;
pub mod guard;
pub mod handle;
pub mod identity;
pub mod key;
pub mod records;
pub(crate) mod socket;
pub mod tid;
pub mod times;
pub mod uri;
pub mod xrpc;

mod identifier;

pub use change::{Change, State};
pub use did::Did;
pub use handle::Handle;
pub use identifier::SyntaxError;
pub use records::{Collection, Record, RecordError};
pub use tid::Rev;
pub use times::Micros;
pub use uri::{AtUri, Nsid, Rkey};

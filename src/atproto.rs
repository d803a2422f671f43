//! The protocol's words: identifiers, records of the registry, identity, and the one client that strangers' addresses
//! are asked through. Knows nothing of the database or of any worker.

pub mod change;

//! Named leases over a database, and supervised actors that work under them.

pub mod clock;
pub mod lease;

//! Named leases over a database, and supervised actors that work under them.
//!
//! Read in this order: [`lease`] (the words, and the contract with a store), its phases in the order they run,
//! [`worker`] (what an application writes), [`supervisor`] (what starts and stops it), [`shutdown`] (how it ends).
//! `WORKERS.md` beside this crate's `README.md` says how a worker is written. Knows no SQL, no network and no protocol: a store is handed in.

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;

#[doc = include_str!("../WORKERS.md")]
#[cfg(doctest)]
struct Workers;

pub mod clock;
pub mod lease;
pub mod memory;
pub mod metrics;
pub mod restart;
pub mod shutdown;
pub mod supervisor;
#[cfg(feature = "testing")]
pub mod testing;
pub mod watchdog;
pub mod worker;

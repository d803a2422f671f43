//! The short run: each nemesis that this machine can do, at least once, on both databases, from fixed seeds.
//!
//! One run per database; each test asserts what its report said of one row of it. `cargo test -p faults` prints the table.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod claims;
mod short;

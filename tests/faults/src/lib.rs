//! The proof with real processes: contenders that record what they do, faults done to them, and a checker that holds
//! the invariants of the leases against the record.
//!
//! [`history`] is the language of the record. [`contender`] is one small process of the product's own parts that writes
//! it. [`check`] is pure: a history in, violations out. [`runner`] starts contenders, does to them what a seed says, and
//! has the history checked.

pub mod check;
pub mod contender;
pub mod history;
pub mod runner;

//! The integration tests: one binary, so that they share one PostgreSQL and one set of peers.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod peers;
mod settings;
mod style;
mod support;

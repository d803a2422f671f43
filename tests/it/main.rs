//! The integration tests: one binary, so that they link once and share one PostgreSQL.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test that cannot go on has failed")]

mod backfill;
mod beside;
mod billing;
mod cited;
mod commands;
mod documents;
mod exits;
mod guards;
mod health;
mod labels;
mod life;
mod machines;
mod nothing_lost;
mod operators;
mod order;
mod outage;
mod page;
mod peers;
mod peers_index;
mod postgres;
mod process;
mod status;
mod store;
mod stream;
mod style;
mod support;
mod tree;
mod webhooks;

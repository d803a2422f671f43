//! The `backfill` worker on both databases: merging a listing beside the stream, accounts that go and come, runs that are
//! cut and go on, repositories that share a transaction, hosts with limits, and what an operator asks for.

mod accounts;
mod command;
mod merge;
mod pressed;
mod processes;
mod runs;
mod shared;
mod stage;

//! The `backfill` worker on both databases: merging a listing beside the stream, accounts that go and come, runs that are
//! cut and go on, and what an operator asks for.

mod accounts;
mod command;
mod merge;
mod processes;
mod runs;
mod stage;

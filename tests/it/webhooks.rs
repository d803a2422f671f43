//! Webhooks: what is sent, how often, where it may go, and what a crash does to it.

mod cli;
mod delivery;
mod judges;
mod killed;
mod ssrf;
mod stage;

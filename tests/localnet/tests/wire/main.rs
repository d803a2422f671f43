//! The wires that localnet speaks, and each fault, seen by a client of others.

#![allow(clippy::unwrap_used)]

mod client;
mod clients;
mod faults;
mod jetstream;
mod network;
mod program;
mod rates;
mod relay;
mod second_wire;
mod seeded;
mod webhooks;

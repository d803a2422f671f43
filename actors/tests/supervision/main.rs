//! The supervisor with real actors, short times and a store that can be told to fail.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod lessons;
mod life;
mod stage;
mod tree;
mod trust;

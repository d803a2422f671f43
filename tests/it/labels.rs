//! The `labeler` worker: against the labeler of the network in small, in this process and in processes of its own, and against
//! real ones.

mod lost;
mod order;
mod peers;
mod processes;
mod refused;
mod stage;
mod stream;
mod subjects;
mod trust;

//! The `jetstream` worker from the wire to the rows, against a network that misbehaves as others' networks did.

mod compressed;
mod crash;
mod failing;
mod frames;
mod gaps;
mod identity;
mod load;
mod order;
pub(crate) mod processes;
mod rows;
mod second_wire;
mod silence;
mod stage;
mod strangers;

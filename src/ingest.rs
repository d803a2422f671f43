//! The `jetstream` worker. An event walks: connect -> decode -> project -> write.

pub mod connect;
pub mod decode;
pub mod project;
pub mod write;

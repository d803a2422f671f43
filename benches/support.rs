//! What the benches take from the tests: a private PostgreSQL, and waiting without sleeping.
#![allow(dead_code, unused_imports, reason = "not every bench uses every tool")]

#[path = "../tests/it/support/eventually.rs"]
pub(crate) mod eventually;
#[path = "../tests/it/support/ports.rs"]
pub(crate) mod ports;
#[path = "../tests/it/support/postgres.rs"]
pub(crate) mod postgres;
#[path = "../tests/it/support/supervisor.rs"]
pub(crate) mod supervisor;

//! What the tests stand on: a database server, our own processes, the peers, and waiting without sleeping.
#![allow(dead_code, reason = "a tool box: not each tool is in use at every commit")]

pub(crate) mod ports;
pub(crate) mod postgres;

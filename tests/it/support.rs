//! What the tests stand on: a database server, our own processes, the peers, and waiting without sleeping.
#![allow(dead_code, reason = "a tool box: not every tool is in use at every commit")]

pub(crate) mod browser;
pub(crate) mod eventually;
pub(crate) mod http;
pub(crate) mod index;
pub(crate) mod machine;
pub(crate) mod pds;
pub(crate) mod peers;
pub(crate) mod place;
pub(crate) mod ports;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod source;
pub(crate) mod stage;
pub(crate) mod supervisor;
pub(crate) mod truth;
pub(crate) mod working;

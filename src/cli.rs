//! The command line. One file per command.

pub mod settings;

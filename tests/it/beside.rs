//! Life beside others: the service manager that is told, the parent that dies, the browser that looks, and the files of
//! `settings/deploy`, each judged by the program that it is for.

mod dashboard;
mod everything;
mod image;
mod manifests;
mod page;
mod prometheus;
mod ready;
mod service;
mod systemd;
mod unit;
mod watchdog;

use std::{fs, path::PathBuf};

/// A file for operators.
fn deployed(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/settings/deploy")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(deployed(name)).unwrap()
}

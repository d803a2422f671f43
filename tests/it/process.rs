//! The built binary runs as a process that the tests can watch.

use std::time::Duration;

use crate::support::process::{Exit, Instance};

#[test]
fn asking_for_help_ends_with_success() {
    let mut instance = Instance::spawn(&["--help"], &[]);
    assert_eq!(instance.wait_exit(Duration::from_secs(10)), Exit::Code(0));
}

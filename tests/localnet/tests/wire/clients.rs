//! Clients that others wrote, at the program's two wires: `tests/peers` has the checks and installs the packages. The
//! crate among them is checked in `tests/peers/rocketman`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::program::Program;

/// For some thirty connections of programs that start slowly, on a loaded machine.
const CHECKED_WITHIN: Duration = Duration::from_secs(180);

/// The folder of the peers. None, and a line that says so, where `ATCR_TEST_PEERS=skip` leaves them out.
fn peers(package: &str, install: &str) -> Option<PathBuf> {
    if std::env::var("ATCR_TEST_PEERS").is_ok_and(|value| value == "skip") {
        // Not eprintln: what a passing test prints is not shown.
        std::io::stderr()
            .write_all(b"left out (ATCR_TEST_PEERS=skip): a test with a client of others\n")
            .unwrap();
        return None;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers");
    let installed = folder.join(package).exists();
    assert!(installed, "the clients are not installed; install them with:\n    bash tests/peers/{install}");
    Some(folder)
}

/// Starts a network, and has this check of `peers.sh` say that its clients read it.
async fn accepted(folder: &Path, check: &str, checks: usize) {
    let mut program = Program::start(&["serve"]);
    let directory = tempfile::tempdir().unwrap();
    let addresses = directory.path().join("localnet.json");
    std::fs::write(&addresses, program.line().await.unwrap()).unwrap();
    let mut command = Command::new("bash");
    command.arg(folder.join("peers.sh")).arg(check).arg(&addresses).kill_on_drop(true);
    let output =
        timeout(CHECKED_WITHIN, command.output()).await.expect("an end within the deadline").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains(&format!("{checks} passed, 0 failed")), "{said}\n{errors}");
    program.terminate();
    assert!(program.finish().await.status.success());
}

#[tokio::test]
async fn two_npm_clients_accept_the_first_wire() {
    let Some(folder) = peers("node_modules/@skyware/jetstream", "install.sh") else { return };
    accepted(&folder, "check-v1", 4).await;
}

#[tokio::test]
async fn pypis_atproto_accepts_the_second_wire() {
    let Some(folder) = peers(".peers/venv/bin/python", "install.sh python") else { return };
    accepted(&folder, "check-v2", 8).await;
}

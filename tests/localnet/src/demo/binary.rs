//! Finds the program to show, or builds it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use tokio::process::Command;

const NAME: &str = "atcr-workers";

/// The program beside this one in the target directory.
pub(super) async fn find_or_build() -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    let path = own.with_file_name(NAME);
    if path.is_file() {
        return Ok(path);
    }
    println!("demo: building {NAME}, which takes some minutes the first time");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(&cargo);
    command
        .args(["build", "--package", NAME, "--bin", NAME])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .kill_on_drop(true);
    if own.parent().is_some_and(|directory| directory.ends_with("release")) {
        command.arg("--release");
    }
    let status = command.status().await.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot run {}: {error}", cargo.to_string_lossy()))
    })?;
    match path.is_file() {
        true => Ok(path),
        false => Err(io::Error::other(format!("building {NAME} left no {} ({status})", path.display()))),
    }
}

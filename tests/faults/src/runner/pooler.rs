//! pgbouncer in transaction mode before a server.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::machine::hand_over;
use super::postgres::{as_its_user, free_port};
use super::process::poll;

/// A running pooler. Dropping it ends it.
pub(super) struct Pooler {
    child: Child,
    pub(super) port: u16,
}

impl Pooler {
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        server: u16,
        addresses: &[String],
    ) -> Result<Self, String> {
        let port = free_port()?;
        let more = if mixes_statements_up(program)? { "" } else { "max_prepared_statements = 200\n" };
        let listen: Vec<&str> = addresses.iter().map(String::as_str).chain(["127.0.0.1"]).collect();
        let settings = format!(
            "[databases]\nfaults = host=127.0.0.1 port={server} dbname=faults user=postgres password=faults\n\
             [pgbouncer]\nlisten_addr = {}\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 20\nignore_startup_parameters = extra_float_digits\n{more}",
            listen.join(",")
        );
        let file = folder.join("pgbouncer.ini");
        fs::write(&file, settings).map_err(|error| error.to_string())?;
        hand_over(&file)?;
        let log = fs::File::create(folder.join("pgbouncer.log")).map_err(|error| error.to_string())?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program).arg(&file).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = as_its_user(&mut command).spawn().map_err(|error| format!("pgbouncer: {error}"))?;
        let pooler = Self { child, port };
        poll("pgbouncer answers", Duration::from_secs(20), || {
            std::net::TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(|error| error.to_string())
        })?;
        Ok(pooler)
    }
}

/// Whether this version does not know prepared statements: those before 1.21.
pub(super) fn mixes_statements_up(program: &Path) -> Result<bool, String> {
    let said = Command::new(program).arg("--version").output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => Ok((major, minor) < (1, 21)),
        _ => Err(format!("pgbouncer --version: {said}")),
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

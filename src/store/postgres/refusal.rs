//! Why a server let nobody in, for whoever has to change that: where we went, what it said, what to look at.

use std::error::Error as _;

use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error};

/// Where, what and what to do. The password is not in it.
pub(super) fn explain(config: &Config, error: &Error) -> String {
    let advice = match error.code() {
        Some(code) => advice(code),
        None if is_io(error) => Some("is the server up, and is that its address?"),
        None => None,
    };
    let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
    format!("{}: {}{advice}", place(config), super::chain(error))
}

fn advice(code: &SqlState) -> Option<&'static str> {
    Some(match *code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check the user and the password in database.url, and the server's pg_hba.conf"
        }
        SqlState::INVALID_CATALOG_NAME => "create it (createdb), or correct database.url",
        SqlState::INSUFFICIENT_PRIVILEGE => "grant the user CONNECT on the database",
        SqlState::TOO_MANY_CONNECTIONS => {
            "lower database.max_connections, or raise the server's max_connections"
        }
        _ => return None,
    })
}

fn is_io(error: &Error) -> bool {
    error.source().is_some_and(|cause| cause.is::<std::io::Error>()) && !super::is_tls(error)
}

/// `user@host:port/database`, with each host of several.
fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let host = |(at, host): (usize, &Host)| {
        // One port may be for all.
        let port = ports.get(at).or_else(|| ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(folder) => format!("{}/.s.PGSQL.{port}", folder.display()),
        }
    };
    let hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
    let user = config.get_user().map_or_else(String::new, |user| format!("{user}@"));
    let database = config.get_dbname().map_or_else(String::new, |name| format!("/{name}"));
    format!("{user}{}{database}", hosts.join(","))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_place_has_all_but_the_password() {
        for (url, expected) in [
            ("postgres://me:secret@db.example/atcr", "me@db.example:5432/atcr"),
            ("postgres://me:secret@one,two:6543/atcr", "me@one:5432,two:6543/atcr"),
            ("postgres://me@[::1]:5433/", "me@[::1]:5433"),
            ("postgres://%2Frun%2Fpg/atcr", "/run/pg/.s.PGSQL.5432/atcr"),
        ] {
            assert_eq!(place(&url.parse().unwrap()), expected);
        }
    }
}

//! A connection that stays, to an address that a stranger chose: judged as every request is, and left to the caller once it
//! stands. It takes no turn at its host, as it would never give it back.

use std::io;

use tokio::time::timeout;
use tokio_tungstenite::MaybeTlsStream;

use super::connect::{self, Forbidden};
use super::{GuardError, Guarded};
use crate::atproto::socket::{self, Stream};

impl Guarded {
    /// Connects to the host of an https address (or http, where that is permitted), TLS included. What is asked there is the
    /// caller's business. Cancel-safe.
    pub(crate) async fn dial(&self, url: &str) -> Result<Stream, GuardError> {
        let url = self.target(url)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let is_https = url.scheme() == "https";
        if is_https && !self.has_roots {
            return Err(GuardError::NoRoots(host));
        }
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or(443);
        let connected = async {
            let found = connect::addresses(name, port, self.reach, self.test_hosts).await;
            let addresses = found.map_err(|error| match error.downcast_ref::<Forbidden>() {
                Some(Forbidden(address)) => GuardError::Forbidden { host: host.clone(), address: *address },
                None => GuardError::Failed { host: host.clone(), cause: error.to_string() },
            })?;
            let failed =
                |error: io::Error| GuardError::Failed { host: host.clone(), cause: error.to_string() };
            let stream = socket::tcp(&addresses, self.timeout).await.map_err(failed)?;
            if !is_https {
                return Ok(MaybeTlsStream::Plain(stream));
            }
            socket::tls(name, stream, &self.tls).await.map_err(failed)
        };
        let timed_out = GuardError::TimedOut { host: host.clone(), after: self.timeout };
        timeout(self.timeout, connected).await.unwrap_or(Err(timed_out))
    }
}

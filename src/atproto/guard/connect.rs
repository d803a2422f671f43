//! How names become addresses, and how the other side proves its name.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::lookup_host;

use super::address::Reach;

/// The most addresses of one name that are tried. Real names have up to some 16; a stranger's could have thousands.
const ADDRESSES_MAX: usize = 16;

/// A name leads to nothing that may be reached; the first of its addresses.
#[derive(Debug, Error)]
#[error("{0} is not on the public network")]
pub(super) struct Forbidden(pub(super) IpAddr);

/// Resolves names to the addresses that may be reached. What it returns is what is connected to: between the judgement and
/// the connection there is no second look-up that could answer otherwise.
pub(super) struct Names {
    pub(super) reach: Reach,
    pub(super) test_hosts: Option<SocketAddr>,
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let (reach, test_hosts) = (self.reach, self.test_hosts);
        Box::pin(async move {
            let allowed = addresses(name.as_str(), 0, reach, test_hosts).await?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// The addresses of a name that may be reached; at least one.
pub(super) async fn addresses(
    name: &str,
    port: u16,
    reach: Reach,
    test_hosts: Option<SocketAddr>,
) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
    if let Some(at) = test_hosts.filter(|_| is_test_name(name)) {
        return Ok(vec![at]);
    }
    let found: Vec<SocketAddr> = lookup_host((name, port)).await?.take(ADDRESSES_MAX).collect();
    let first = found.first().ok_or_else(|| io::Error::other("the name has no address"))?.ip();
    let allowed: Vec<_> = found.into_iter().filter(|address| reach.allows(address.ip())).collect();
    if allowed.is_empty() { Err(Forbidden(first).into()) } else { Ok(allowed) }
}

/// The names that no public network has. `localhost` itself is not among them: it leads where the machine says.
pub(super) fn is_test_name(name: &str) -> bool {
    name.ends_with(".test") || name.ends_with(".localhost")
}

/// TLS with the machine's own roots, and whether there are any. The provider is named here, so that nothing depends on which
/// one was installed for the process.
pub(super) fn tls() -> Result<(ClientConfig, bool), String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let has_roots = !roots.is_empty();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((config, has_roots))
}

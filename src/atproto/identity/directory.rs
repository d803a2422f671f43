//! Where the document of a DID is: in the PLC directory, or on the host that a did:web names.

use super::document::Document;
use super::{IdentityError, Resolver};
use crate::atproto::did::Did;
use crate::atproto::guard::{GuardError, host_of};
use crate::atproto::handle::Handle;

/// Real documents have 1 KiB. The bound is the protocol's reference implementations'.
const DOCUMENT_LEN_MAX: usize = 1 << 20;

impl Resolver {
    pub(super) async fn document(&self, did: &Did) -> Result<Document, IdentityError> {
        let (client, url) = match did.method() {
            "plc" => (&self.operator, format!("{}/{did}", self.plc_url)),
            "web" => (&self.guarded, self.web_url(did)?),
            _ => return Err(unsupported(did, "its method is neither plc nor web")),
        };
        let answer = client.get(&url, DOCUMENT_LEN_MAX).await.map_err(|error| unanswered(did, error))?;
        match answer.status {
            200..=299 => Document::read(did, &answer.body, self.guarded.allows_loopback())
                .map_err(|reason| IdentityError::BadDocument { did: did.clone(), reason }),
            404 => Err(IdentityError::NotFound(did.clone())),
            // The directory's word for a tombstone. From a host that one may lose, it says no more than 404 does.
            410 if did.method() == "plc" => Err(IdentityError::Deleted(did.clone())),
            410 => Err(IdentityError::NotFound(did.clone())),
            status @ (429 | 503) => {
                Err(IdentityError::Throttled { did: did.clone(), status, allowance: answer.allowance() })
            }
            status => {
                Err(IdentityError::Temporary(format!("the source of {did} answered with status {status}")))
            }
        }
    }

    /// The host that is asked for the document of `did`, with its port if that is not the scheme's own: the same name for
    /// it that requests to a PDS there have. `None` if nobody would be asked.
    pub fn source_of(&self, did: &Did) -> Option<String> {
        match did.method() {
            "plc" => host_of(&self.plc_url),
            "web" => host_of(&self.web_url(did).ok()?),
            _ => None,
        }
    }

    /// Where a service is that is known by its did:web: scheme, host and port. Nobody is asked. Unlike with an account's
    /// document, a port may be named: <https://w3c-ccg.github.io/did-method-web/>.
    pub fn web_origin(&self, did: &Did) -> Result<String, IdentityError> {
        let (name, port) = match did.id().split_once("%3A") {
            None => (did.id(), None),
            Some((name, port)) => {
                let port = port.parse::<u16>().ok().filter(|port| *port != 0);
                (name, Some(port.ok_or_else(|| unsupported(did, "its port is no number"))?))
            }
        };
        let scheme = if name == "localhost" {
            if !self.guarded.allows_loopback() {
                return Err(unsupported(did, "localhost is for tests"));
            }
            "http"
        } else {
            match Handle::parse(name) {
                Ok(host) if self.may_ask(&host) => "https",
                Ok(_) => return Err(unsupported(did, "its host is reserved")),
                Err(_) => return Err(unsupported(did, "a did:web is a host name alone")),
            }
        };
        Ok(port.map_or_else(|| format!("{scheme}://{name}"), |port| format!("{scheme}://{name}:{port}")))
    }

    /// A whole host by its name: no path, no port except on localhost. <https://atproto.com/specs/did>
    fn web_url(&self, did: &Did) -> Result<String, IdentityError> {
        let id = did.id();
        if id.contains("%3A") && !id.starts_with("localhost%3A") {
            return Err(unsupported(did, "a did:web is a host name alone"));
        }
        Ok(format!("{}/.well-known/did.json", self.web_origin(did)?))
    }
}

fn unsupported(did: &Did, reason: &'static str) -> IdentityError {
    IdentityError::Unsupported { did: did.clone(), reason }
}

fn unanswered(did: &Did, error: GuardError) -> IdentityError {
    if error.is_temporary() {
        return IdentityError::Temporary(error.to_string());
    }
    match error {
        GuardError::TooLarge { .. } => {
            IdentityError::BadDocument { did: did.clone(), reason: "it is too large" }
        }
        // Settings and machines can be put right; the account has no part in it.
        GuardError::NoRoots(_) | GuardError::Setup(_) => IdentityError::Temporary(error.to_string()),
        error => IdentityError::Refused { did: did.clone(), reason: error.to_string() },
    }
}

//! Who a labeler is: where its labels are, and what they are signed with.

use serde::Deserialize;
use url::Url;

use super::{IdentityError, Resolver};
use crate::atproto::did::Did;
use crate::atproto::guard::host_of;
use crate::atproto::key::PublicKey;
use crate::atproto::xrpc::{self, Query, Reply};

/// Real answers have 1 KiB.
const DESCRIPTION_LEN_MAX: usize = 64 << 10;

/// A labeler, as its document has it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labeler {
    /// Who.
    pub did: Did,
    /// Where its labels are: scheme, host and port.
    pub endpoint: String,
    /// What they are signed with, if the document tells.
    pub key: Option<PublicKey>,
}

#[derive(Deserialize)]
struct Description {
    did: Did,
}

impl Resolver {
    /// Asks for a labeler's document. Cancel-safe.
    pub async fn labeler(&self, did: &Did) -> Result<Labeler, IdentityError> {
        let document = self.document(did).await?;
        let reason = "it names no labeler, or not by https";
        let missing = IdentityError::BadDocument { did: did.clone(), reason };
        let endpoint = document.labeler.ok_or(missing)?;
        Ok(Labeler { did: did.clone(), endpoint, key: document.label_key })
    }

    /// Finds the labeler that answers at an address of the operator's choice: the did:web of its host, or else whoever the
    /// server there says that it is, if that one's document leads back to the address. Cancel-safe.
    pub async fn labeler_at(&self, url: &str) -> Result<Labeler, IdentityError> {
        match self.web_labeler(url).await {
            Some(Err(error)) if error.is_temporary() => return Err(error),
            Some(Ok(labeler)) => return Ok(labeler),
            _ => {}
        }
        let did = self.described(url).await?;
        let labeler = self.labeler(&did).await?;
        if host_of(&labeler.endpoint) != host_of(url) {
            return Err(IdentityError::BadDocument { did, reason: "its labeler is at another address" });
        }
        Ok(labeler)
    }

    async fn web_labeler(&self, url: &str) -> Option<Result<Labeler, IdentityError>> {
        let host = host_of(url)?.replace(':', "%3A");
        let did = Did::parse(&format!("did:web:{host}")).ok()?;
        Some(self.labeler(&did).await)
    }

    async fn described(&self, url: &str) -> Result<Did, IdentityError> {
        let origin = Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        let query = Query {
            base: &origin,
            method: "com.atproto.server.describeServer",
            parameters: &[],
            body_len_max: DESCRIPTION_LEN_MAX,
            timeout: None,
        };
        let Reply { outcome, .. } = xrpc::query(&self.operator, &query).await;
        let read = outcome.and_then(|body| xrpc::read::<Description>(&origin, &body));
        // Whatever is wrong there, it is at an address that the operator may be putting right.
        read.map(|description| description.did)
            .map_err(|error| IdentityError::Temporary(format!("who is the labeler at {origin}? {error}")))
    }
}

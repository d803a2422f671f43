//! What we show to a managed hold: a token signed with the registry's key, for that hold and that method alone, for a minute.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::atproto::Did;
use crate::atproto::key::signing::{Claims, PrivateKey};

/// The method that it is for.
pub const UPDATE_CREW_TIER: &str = "io.atcr.hold.updateCrewTier";

/// How long a token lives. At half, a hold whose clock is behind by that much refuses it; holds take none that lives longer.
const LIFETIME_SECONDS: u64 = 60;

/// Who signs.
#[derive(Debug)]
pub struct Signer {
    /// The registry.
    pub issuer: Did,
    /// Its key.
    pub key: PrivateKey,
}

impl Signer {
    /// A new token for a hold; every request has one of its own.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn token(&self, hold: &Did) -> Result<String, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.key.token(&Claims {
            issuer: self.issuer.as_str(),
            audience: hold.as_str(),
            method: UPDATE_CREW_TIER,
            issued_at: now,
            expires_at: now + LIFETIME_SECONDS,
        })
    }
}

//! A managed hold on the wire: where it is, what tiers it has, and how it is told of a user's. Holds' addresses are strangers'
//! choice, so everything here goes through the guarded client.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use thiserror::Error;

use super::errand::{Errand, Halted};
use super::token::{Signer, UPDATE_CREW_TIER};
use crate::atproto::Did;
use crate::atproto::guard::{Allowance, Guarded};
use crate::atproto::identity::{IdentityError, Resolver};
use crate::atproto::xrpc::{self, Procedure, Query, Refusal, Reply, XrpcError};
use crate::store::billing::HoldTier;

/// The longest answer: a thousand tiers with long names.
const BODY_LEN_MAX: usize = 256 << 10;

/// Tiers of one hold; real ones have three to ten.
const TIERS_MAX: usize = 1_000;

/// The longest name of a tier, by the method's lexicon.
const NAME_LEN_MAX: usize = 64;

const LIST_TIERS: &str = "io.atcr.hold.listTiers";

/// What a hold said, unless nothing may be asked any more.
pub(super) type Asked<T> = Result<Result<T, HoldError>, Halted>;

/// Why a hold could not be asked, or told.
#[derive(Debug, Clone, Error)]
pub enum HoldError {
    /// Its document could not be had.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Its document names no address.
    #[error("its document names no hold, and no repository")]
    NoAddress,
    /// It was asked.
    #[error("{error}")]
    Xrpc {
        /// What came of it.
        error: XrpcError,
        /// When it wants to be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// Our own key failed us.
    #[error("sign a token: {0}")]
    Token(String),
    /// Its tiers are none that could be set.
    #[error("its tiers are not usable: {0}")]
    Tiers(&'static str),
}

impl HoldError {
    /// Whether another request to this hold would fail as well.
    pub(super) fn is_of_hold(&self) -> bool {
        match self {
            Self::Xrpc { error, .. } => {
                let refused_this = matches!(error, XrpcError::Refused { .. });
                !refused_this || error.is_unproven() || error.is_not_served()
            }
            _ => true,
        }
    }

    /// Whether the hold does not take our token.
    pub(super) fn is_unproven(&self) -> bool {
        matches!(self, Self::Xrpc { error, .. } if error.is_unproven())
    }

    /// Whether the user is not of its crew.
    pub(super) fn is_not_crew(&self) -> bool {
        matches!(self, Self::Xrpc { error, .. } if error.refusal() == Some(Refusal::UserNotFound))
    }

    /// When it wants to be asked again, if it said so.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Xrpc { retry_after, .. } => *retry_after,
            Self::Identity(IdentityError::Throttled { allowance: Allowance::RefusedFor(wait), .. }) => {
                Some(*wait)
            }
            _ => None,
        }
    }
}

/// Asks and tells holds.
pub struct Holds {
    resolver: Resolver,
    guarded: Guarded,
    signer: Signer,
}

#[derive(Deserialize)]
struct Tiers {
    tiers: Vec<ListedTier>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedTier {
    name: String,
    quota_bytes: Option<i64>,
    quota_formatted: Option<String>,
    #[serde(default)]
    scan_on_push: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Updated {
    tier_name: String,
}

impl Holds {
    /// `guarded` asks strangers' hosts.
    pub fn new(resolver: Resolver, guarded: Guarded, signer: Signer) -> Self {
        Self { resolver, guarded, signer }
    }

    /// Where the hold is now.
    pub(super) async fn address(&self, errand: &Errand, hold: &Did) -> Asked<String> {
        Ok(match errand.go(self.resolver.hold(hold)).await? {
            Ok(Some(url)) => Ok(url),
            Ok(None) => Err(HoldError::NoAddress),
            Err(error) => Err(error.into()),
        })
    }

    /// Its tiers, in rank order.
    pub(super) async fn list_tiers(&self, errand: &Errand, url: &str) -> Asked<Vec<HoldTier>> {
        let query = Query {
            base: url,
            method: LIST_TIERS,
            parameters: &[],
            body_len_max: BODY_LEN_MAX,
            timeout: None,
        };
        let reply = errand.go(xrpc::query(&self.guarded, &query)).await?;
        Ok(read::<Tiers>(url, reply).and_then(|listed| usable(listed.tiers)))
    }

    /// Tells it of a user's rank: the name of the tier there.
    pub(super) async fn update_crew_tier(
        &self,
        errand: &Errand,
        (hold, url): (&Did, &str),
        user: &Did,
        rank: u32,
    ) -> Asked<String> {
        let call = async {
            // Made here, so that it is as young as the request.
            let token = self.signer.token(hold).map_err(HoldError::Token)?;
            let body = json!({ "userDid": user.as_str(), "tierRank": rank });
            let procedure = Procedure {
                base: url,
                method: UPDATE_CREW_TIER,
                token: &token,
                body: &body,
                body_len_max: BODY_LEN_MAX,
                timeout: None,
            };
            read::<Updated>(url, xrpc::call(&self.guarded, &procedure).await)
        };
        Ok(errand.go(call).await?.map(|updated| stored(&updated.tier_name)))
    }
}

fn read<T: for<'a> Deserialize<'a>>(url: &str, reply: Reply) -> Result<T, HoldError> {
    let retry_after = match reply.allowance {
        Some(Allowance::RefusedFor(wait)) => Some(wait),
        _ => None,
    };
    let read = reply.outcome.and_then(|body| xrpc::read(url, &body));
    read.map_err(|error| HoldError::Xrpc { error, retry_after })
}

/// None at all would be no place for anybody.
fn usable(listed: Vec<ListedTier>) -> Result<Vec<HoldTier>, HoldError> {
    match listed.len() {
        0 => return Err(HoldError::Tiers("there are none")),
        1..=TIERS_MAX => {}
        _ => return Err(HoldError::Tiers("there are too many")),
    }
    let tier = |tier: ListedTier| HoldTier {
        name: stored(&tier.name),
        quota_bytes: tier.quota_bytes,
        quota_formatted: tier.quota_formatted.as_deref().map(stored),
        scan_on_push: tier.scan_on_push,
    };
    Ok(listed.into_iter().map(tier).collect())
}

/// A hold's text as the database takes it.
fn stored(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(NAME_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xrpc(status: u16, refusal: Refusal) -> HoldError {
        let (host, name) = ("hold.example".to_owned(), String::new());
        let error = XrpcError::Refused { host, status, refusal, name };
        HoldError::Xrpc { error, retry_after: None }
    }

    #[test]
    fn a_refusal_of_one_user_keeps_no_other_waiting() {
        assert!(!xrpc(400, Refusal::Other).is_of_hold());
        assert!(!xrpc(404, Refusal::UserNotFound).is_of_hold());
        assert!(xrpc(400, Refusal::UserNotFound).is_not_crew());
    }

    #[test]
    fn what_would_be_refused_to_everybody_keeps_all_waiting() {
        for error in [xrpc(401, Refusal::Other), xrpc(400, Refusal::Unproven), xrpc(501, Refusal::NotServed)]
        {
            assert!(error.is_of_hold(), "{error:?}");
        }
        let host = "hold.example".to_owned();
        let down = XrpcError::Trouble { host: host.clone(), status: 503 };
        let page = XrpcError::NotXrpc { host, status: 404, why: "its error is not json" };
        for error in [down, page] {
            assert!(HoldError::Xrpc { error, retry_after: None }.is_of_hold());
        }
    }
}

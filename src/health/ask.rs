//! Asks one hold whether it answers: its address by its DID, then one GET.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::Method;
use reqwest::header::HeaderMap;
use tokio::time::timeout;

use crate::atproto::Did;
use crate::atproto::guard::{self, GuardError, Guarded};
use crate::atproto::identity::{IdentityCache, IdentityError, Resolver};

/// A hold that does not answer within this is as good as down: nobody waits longer for the first byte of a pull.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Address, turn at the host and answer together. At half, a slow directory makes holds unknown; at double, a thousand holds
/// that do not answer take a round of half an hour.
const WITHIN: Duration = Duration::from_secs(10);

/// What is read of an answer. Its status is all that counts.
const BODY_LEN_MAX: usize = 1_024;

/// Errors are for people; a cause may quote what a stranger's server says of itself.
const ERROR_LEN_MAX: usize = 200;

/// What came of asking a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It answered with a status of 2xx.
    Reachable,
    /// It did not, or has no address.
    Unreachable {
        /// For the metrics; one of a few words.
        kind: &'static str,
        /// For a person.
        error: String,
    },
    /// That could not be found out, by no fault of the hold.
    Unknown {
        /// For a person.
        error: String,
    },
}

/// Asks holds.
#[async_trait]
pub(super) trait Ask: Send + Sync {
    /// Asks now. Cancel-safe.
    async fn ask(&self, hold: &Did) -> Outcome;
}

/// Asks over the network.
pub struct Asker {
    /// Asks the holds.
    pub guarded: Guarded,
    /// Knows where a did:web is.
    pub resolver: Resolver,
    /// Finds out where the others are.
    pub identities: IdentityCache,
}

#[async_trait]
impl Ask for Asker {
    async fn ask(&self, hold: &Did) -> Outcome {
        match timeout(WITHIN, self.ask_within(hold)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let error = format!("neither its address nor its turn came within {WITHIN:?}");
                Outcome::Unknown { error }
            }
        }
    }
}

impl Asker {
    async fn ask_within(&self, hold: &Did) -> Outcome {
        let origin = match self.origin(hold).await {
            Ok(Some(origin)) => origin,
            Ok(None) => return unreachable("unresolved", "its document names no server"),
            Err(error) if error.is_temporary() => return unknown(error),
            Err(error) => return unreachable("unresolved", error),
        };
        let url = format!("{origin}/xrpc/_health");
        let ask = guard::Ask {
            method: Method::GET,
            url: &url,
            headers: HeaderMap::new(),
            body: Vec::new(),
            body_len_max: BODY_LEN_MAX,
            timeout: Some(ANSWER_WITHIN),
        };
        match self.guarded.send(ask).await {
            Ok(answer) if (200..300).contains(&answer.status) => Outcome::Reachable,
            Ok(answer) => unreachable("status", format!("it answered with status {}", answer.status)),
            // This machine is at fault.
            Err(error @ (GuardError::NoRoots(_) | GuardError::Setup(_))) => unknown(error),
            Err(error) => unreachable(kind_of(&error), error),
        }
    }

    /// Scheme, host and port.
    async fn origin(&self, hold: &Did) -> Result<Option<String>, IdentityError> {
        if hold.method() == "web" {
            return self.resolver.web_origin(hold).map(Some);
        }
        Ok(self.identities.get(hold).await?.identity.pds.clone())
    }
}

fn kind_of(error: &GuardError) -> &'static str {
    match error {
        GuardError::TimedOut { .. } => "timeout",
        GuardError::Forbidden { .. } | GuardError::BadAddress(_) => "refused",
        _ => "failed",
    }
}

fn unreachable(kind: &'static str, error: impl ToString) -> Outcome {
    Outcome::Unreachable { kind, error: cut(&error.to_string()) }
}

fn unknown(error: impl ToString) -> Outcome {
    Outcome::Unknown { error: cut(&error.to_string()) }
}

fn cut(error: &str) -> String {
    error.chars().filter(|c| !c.is_control()).take(ERROR_LEN_MAX).collect()
}

//! Queries in their hosts' pace. Owns when a query is tried again at once, and when that is left to the caller.

use thiserror::Error;
use tokio::time::Instant;

use super::pace::{Heard, Pace, Paused};
use crate::atproto::guard::{Allowance, Guarded, host_of};
use crate::atproto::xrpc::{self, Query, XrpcError};

/// Tries of one query while its host only asks for a short pause. A listing of a hundred pages is not thrown away for one
/// refusal; a host that refuses three times over is one for later.
const TRIES_MAX: u32 = 3;

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AskError {
    /// The host wants to be left alone for longer than a query waits. Nothing was sent, or nothing more.
    #[error(transparent)]
    Paused(#[from] Paused),
    /// It was asked.
    #[error("{method}: {error}")]
    Failed {
        /// The method's name.
        method: &'static str,
        /// What came of it.
        error: XrpcError,
        /// From when on the host may be asked again, if it said so.
        retry_at: Option<Instant>,
    },
}

impl AskError {
    /// Whether the same query may well succeed later, with nothing changed on our side.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Paused(_) => true,
            Self::Failed { error, .. } => error.is_temporary(),
        }
    }

    /// From when on it may be asked again, where the host said so.
    pub fn retry_at(&self) -> Option<Instant> {
        match self {
            Self::Paused(paused) => Some(paused.retry_at),
            Self::Failed { retry_at, .. } => *retry_at,
        }
    }

    /// What the host answered, if it was asked.
    pub fn answered(&self) -> Option<&XrpcError> {
        match self {
            Self::Paused(_) => None,
            Self::Failed { error, .. } => Some(error),
        }
    }
}

/// Asks hosts, each in its pace. Clones share connections and what is known of hosts.
#[derive(Clone)]
pub struct Asker {
    client: Guarded,
    pace: Pace,
}

impl Asker {
    /// `client` decides which addresses may be asked at all.
    pub fn new(client: Guarded, pace: Pace) -> Self {
        Self { client, pace }
    }

    /// The pace that is kept.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Asks, and counts each request that was sent in `requests`. Cancel-safe.
    pub async fn ask(&self, query: &Query<'_>, requests: &mut u32) -> Result<Vec<u8>, AskError> {
        let host = host_of(query.base).unwrap_or_default();
        let mut tries = 0;
        loop {
            let place = self.pace.enter(&host).await?;
            tries += 1;
            *requests += 1;
            let reply = xrpc::query(&self.client, query).await;
            place.done(heard(&reply));
            let error = match reply.outcome {
                Ok(body) => return Ok(body),
                Err(error) => error,
            };
            let refuses = matches!(reply.allowance, Some(Allowance::Refused | Allowance::RefusedFor(_)));
            if !refuses || tries == TRIES_MAX {
                let retry_at = if refuses { self.pace.paused_until(&host) } else { None };
                return Err(AskError::Failed { method: query.method, error, retry_at });
            }
        }
    }
}

/// Silence is what a host that is away costs, whether the connection breaks or a proxy before it says so. A server that answers
/// 500 is there: some do so for each account that is gone (indigo#621), and others live there too. An address that may not be
/// asked is nobody's silence.
fn heard(reply: &xrpc::Reply) -> Heard {
    match (&reply.outcome, reply.allowance) {
        (Err(XrpcError::Trouble { status: 502 | 504, .. }), Some(Allowance::Unsaid)) => Heard::Silence,
        (_, Some(allowance)) => Heard::Answer(allowance),
        (Err(error), None) if error.is_temporary() => Heard::Silence,
        (_, None) => Heard::Answer(Allowance::Unsaid),
    }
}

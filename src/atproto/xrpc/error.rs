//! Why a query has no answer.

use serde::Deserialize;
use thiserror::Error;

use crate::atproto::guard::GuardError;

/// The longest name of an error that is told; those of the protocol have at most 25 letters.
const NAME_LEN_MAX: usize = 64;

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum XrpcError {
    /// The host was not reached, did not answer in time, or with too much.
    #[error(transparent)]
    Unanswered(#[from] GuardError),
    /// The server has too much to do, or is broken.
    #[error("{host} is in trouble (status {status})")]
    Trouble {
        /// With its port, if that is not the scheme's own.
        host: String,
        /// 429, 5xx and the like.
        status: u16,
    },
    /// The server understood, and will not.
    #[error("{host} refused: {name} (status {status})")]
    Refused {
        /// With its port, if that is not the scheme's own.
        host: String,
        /// 4xx, or 501.
        status: u16,
        /// What decides.
        refusal: Refusal,
        /// As sent, as far as it is a name; for people.
        name: String,
    },
    /// What is there does not speak XRPC.
    #[error("{host} does not speak xrpc: {why} (status {status})")]
    NotXrpc {
        /// With its port, if that is not the scheme's own.
        host: String,
        /// As answered.
        status: u16,
        /// For people.
        why: &'static str,
    },
}

/// What a server refuses by, as far as anything here depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The repository is not there. By this name alone an account may count as deleted.
    RepoNotFound,
    /// Its owner switched it off.
    RepoDeactivated,
    /// The server took it down.
    RepoTakendown,
    /// The server suspended it.
    RepoSuspended,
    /// The repository is not there, or not to be seen: the reference PDS tells the two apart in no method of
    /// `com.atproto.repo`, and gives this refusal no name.
    RepoUnseen,
    /// The server has no such method.
    NotServed,
    /// The user is not of the hold's crew.
    UserNotFound,
    /// It does not take what we show to prove who we are.
    Unproven,
    /// Anything else.
    Other,
}

impl XrpcError {
    /// Whether the same query may well succeed later, with nothing changed on our side.
    pub fn is_temporary(&self) -> bool {
        match self {
            // Settings and machines can be put right; the host has no part in it.
            Self::Unanswered(GuardError::NoRoots(_) | GuardError::Setup(_)) => true,
            Self::Unanswered(error) => error.is_temporary(),
            Self::Trouble { .. } => true,
            Self::Refused { .. } | Self::NotXrpc { .. } => false,
        }
    }

    /// What the server refuses by, if it does.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(*refusal),
            _ => None,
        }
    }

    /// Whether the server does not take what we showed to prove who we are, and so will not take it from the next one either.
    pub fn is_unproven(&self) -> bool {
        let by_status =
            matches!(self, Self::Refused { status: 401 | 403, .. } | Self::NotXrpc { status: 401 | 403, .. });
        by_status || self.refusal() == Some(Refusal::Unproven)
    }

    /// Whether the answer has more bytes than were allowed.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Unanswered(GuardError::TooLarge { .. }))
    }

    /// Whether the server has no such method. Small servers answer for it as for any page that they do not have.
    pub fn is_not_served(&self) -> bool {
        let no_page = matches!(self, Self::NotXrpc { status: 404 | 405, .. });
        no_page || self.refusal() == Some(Refusal::NotServed)
    }
}

/// <https://atproto.com/specs/xrpc#error-responses>
#[derive(Deserialize)]
struct Envelope {
    error: String,
    #[serde(default)]
    message: Option<String>,
}

/// A refusal by the name in its envelope, or whatever it is without one.
pub(super) fn refusal(host: String, status: u16, body: &[u8]) -> XrpcError {
    let envelope = serde_json::from_slice::<Envelope>(body).ok();
    match (status, envelope) {
        (501, None) => {
            XrpcError::Refused { host, status, refusal: Refusal::NotServed, name: "no name".to_owned() }
        }
        (_, Some(envelope)) => {
            let refusal = if status == 501 { Refusal::NotServed } else { by_name(&envelope) };
            let printable = envelope.error.chars().filter(|c| !c.is_control());
            XrpcError::Refused { host, status, refusal, name: printable.take(NAME_LEN_MAX).collect() }
        }
        (_, None) => XrpcError::NotXrpc { host, status, why: "its error is not json" },
    }
}

fn by_name(envelope: &Envelope) -> Refusal {
    match envelope.error.as_str() {
        "RepoNotFound" => Refusal::RepoNotFound,
        "RepoDeactivated" => Refusal::RepoDeactivated,
        "RepoTakendown" => Refusal::RepoTakendown,
        "RepoSuspended" => Refusal::RepoSuspended,
        "UserNotFound" => Refusal::UserNotFound,
        "AuthRequired" | "AuthenticationRequired" | "AuthMissing" => Refusal::Unproven,
        "MethodNotImplemented" | "XRPCNotSupported" => Refusal::NotServed,
        // The only words that are looked at: there is no name to go by.
        "InvalidRequest" if envelope.message.as_deref().is_some_and(is_unseen) => Refusal::RepoUnseen,
        _ => Refusal::Other,
    }
}

fn is_unseen(message: &str) -> bool {
    message.starts_with("Could not find repo")
}

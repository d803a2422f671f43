//! Why there is no answer.

use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

use super::connect::Forbidden;

/// Why there is no answer. Tells the host only: the rest of an address may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GuardError {
    /// The client itself cannot be made.
    #[error("making the http client failed: {0}")]
    Setup(String),
    /// The address is none that we ask.
    #[error("the address cannot be asked: {0}")]
    BadAddress(&'static str),
    /// The host is not on the public network.
    #[error("{host} leads to {address}, which is not on the public network")]
    Forbidden {
        /// As it stands in the address.
        host: String,
        /// The first that it leads to.
        address: IpAddr,
    },
    /// https cannot be checked on this machine.
    #[error("asking {0} by https failed: this machine has no root certificates")]
    NoRoots(String),
    /// The deadline passed.
    #[error("{host} did not answer within {after:?}")]
    TimedOut {
        /// As it stands in the address.
        host: String,
        /// The whole time allowed.
        after: Duration,
    },
    /// Name look-up, connection or transfer failed.
    #[error("asking {host} failed: {cause}")]
    Failed {
        /// As it stands in the address.
        host: String,
        /// For a person.
        cause: String,
    },
    /// The answer is longer than the limit.
    #[error("{host} answered with more than {len_max} bytes")]
    TooLarge {
        /// As it stands in the address.
        host: String,
        /// The limit.
        len_max: usize,
    },
}

impl GuardError {
    /// Whether the same request may well succeed later, with nothing changed on our side.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Failed { .. })
    }

    /// Classifies once, here at the edge.
    pub(super) fn of(host: String, error: &reqwest::Error) -> Self {
        let forbidden = chain(error).find_map(|cause| cause.downcast_ref::<Forbidden>());
        match forbidden {
            Some(Forbidden(address)) => Self::Forbidden { host, address: *address },
            None => Self::Failed { host, cause: causes(error) },
        }
    }
}

/// What lies beneath the error, without the outermost sentence: that one quotes the address.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let causes: Vec<String> = chain(error).skip(1).map(ToString::to_string).collect();
    if causes.is_empty() { "the exchange broke off".to_owned() } else { causes.join(": ") }
}

fn chain<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as &'a (dyn std::error::Error + 'static)), |error| (**error).source())
}

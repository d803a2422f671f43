//! Why Stripe said nothing of use. Never in Stripe's own words, which repeat a part of the key.

use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::atproto::guard::GuardError;

/// The longest of Stripe's words for an error that is told; its own have at most 50 letters.
const CODE_LEN_MAX: usize = 64;

/// Why Stripe said nothing of use.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StripeError {
    /// It was not reached, or did not answer in time.
    #[error("stripe: {0}")]
    Unanswered(#[from] GuardError),
    /// It has too much to do, or is broken.
    #[error("stripe is in trouble (status {status})")]
    Trouble {
        /// 429, 5xx and the like.
        status: u16,
        /// When it wants to be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// It does not take the key.
    #[error("stripe does not take billing.stripe_secret_key (status {status})")]
    Key {
        /// 401 or 403.
        status: u16,
    },
    /// It refuses for another reason.
    #[error("stripe refused: {code} (status {status})")]
    Refused {
        /// 4xx.
        status: u16,
        /// Its word for it.
        code: String,
    },
    /// What came cannot be what was asked for.
    #[error("stripe gave {0}")]
    Unreadable(&'static str),
}

#[derive(Deserialize)]
struct Envelope {
    error: Inner,
}

#[derive(Deserialize)]
struct Inner {
    #[serde(rename = "type")]
    kind: Option<String>,
    code: Option<String>,
}

impl StripeError {
    pub(super) fn refused(status: u16, body: &[u8]) -> Self {
        if matches!(status, 401 | 403) {
            return Self::Key { status };
        }
        let inner = serde_json::from_slice::<Envelope>(body).ok().map(|envelope| envelope.error);
        let word = inner.and_then(|inner| inner.code.or(inner.kind)).unwrap_or_default();
        // A code is a word of small letters: nothing else that a server may put there is told.
        let is_word = |word: &String| {
            let letters = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            !word.is_empty() && word.len() <= CODE_LEN_MAX && letters
        };
        Self::Refused { status, code: Some(word).filter(is_word).unwrap_or_else(|| "no code".to_owned()) }
    }

    /// Whether the same request may well succeed later.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Unanswered(error) => error.is_temporary(),
            Self::Trouble { .. } => true,
            Self::Key { .. } | Self::Refused { .. } | Self::Unreadable(_) => false,
        }
    }

    /// When Stripe wants to be asked again, if it said so.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Trouble { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether this account of Stripe's has no such thing.
    pub(super) fn is_missing(&self) -> bool {
        // By its code, or by the type alone where an older API gives no code. A proxy's 404 has neither.
        let is_told = |code: &str| matches!(code, "resource_missing" | "invalid_request_error");
        matches!(self, Self::Refused { status: 404, code } if is_told(code))
    }

    /// A word for metrics.
    pub(in crate::billing) fn word(&self) -> &'static str {
        match self {
            Self::Unanswered(_) => "unanswered",
            Self::Trouble { status: 429, .. } => "throttled",
            Self::Trouble { .. } => "trouble",
            Self::Key { .. } => "key",
            Self::Refused { .. } => "refused",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stripe's own text for a wrong key ends with its last letters.
    #[test]
    fn no_word_of_the_server_is_told_but_a_code() {
        let key = br#"{"error":{"type":"invalid_request_error","message":"Invalid API Key provided: sk_live_***abcd"}}"#;
        assert_eq!(StripeError::refused(401, key), StripeError::Key { status: 401 });
        for (body, told) in [
            (r#"{"error":{"code":"resource_missing","message":"sk_live_abcd"}}"#, "resource_missing"),
            (r#"{"error":{"type":"invalid_request_error","message":"x"}}"#, "invalid_request_error"),
            (r#"{"error":{"code":"sk_live_abcd1234"}}"#, "no code"),
            ("<html>", "no code"),
        ] {
            let error = StripeError::refused(400, body.as_bytes());
            assert_eq!(error, StripeError::Refused { status: 400, code: told.to_owned() });
            assert!(!error.to_string().contains("sk_live"), "{error}");
        }
    }

    #[test]
    fn only_a_404_of_the_api_itself_says_that_a_thing_is_missing() {
        let missing = br#"{"error":{"code":"resource_missing"}}"#;
        assert!(StripeError::refused(404, missing).is_missing());
        assert!(!StripeError::refused(400, missing).is_missing());
        assert!(!StripeError::refused(404, b"<html>").is_missing());
    }
}

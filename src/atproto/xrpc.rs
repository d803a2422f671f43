//! XRPC: one request, and an answer that is JSON or an error with a name; queries here, procedures beside. Owns how an answer is judged; which methods
//! there are, and how often a host may be asked, is the caller's business. <https://atproto.com/specs/xrpc>

mod error;
mod procedure;

pub use error::{Refusal, XrpcError};
pub use procedure::{Procedure, call};

use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use url::Url;

use super::guard::{Allowance, Answer, Ask, GuardError, Guarded, host_of};

/// One query.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The server: scheme, host and port.
    pub base: &'a str,
    /// The method's name, `com.atproto.sync.getLatestCommit` for one.
    pub method: &'static str,
    /// Names and values, not yet encoded.
    pub parameters: &'a [(&'a str, &'a str)],
    /// The most bytes of the answer's body, after decompression.
    pub body_len_max: usize,
    /// In place of the client's own.
    pub timeout: Option<Duration>,
}

/// What came of a query.
#[derive(Debug)]
pub struct Reply {
    /// The body of an answer, not read yet.
    pub outcome: Result<Vec<u8>, XrpcError>,
    /// How soon the host may be asked again, by its own word; `None` if it did not answer.
    pub allowance: Option<Allowance>,
}

/// Asks once. Cancel-safe: the connection is dropped with the future.
pub async fn query(client: &Guarded, query: &Query<'_>) -> Reply {
    let Some((url, host)) = address_of(query.base, query.method, query.parameters) else {
        let error = GuardError::BadAddress("it is no url");
        return Reply { outcome: Err(error.into()), allowance: None };
    };
    let ask = Ask {
        method: Method::GET,
        url: &url,
        headers: HeaderMap::new(),
        body: Vec::new(),
        body_len_max: query.body_len_max,
        timeout: query.timeout,
    };
    match client.send(ask).await {
        Ok(answer) => {
            let allowance = Some(answer.allowance());
            Reply { outcome: judge(&host, answer, query.body_len_max), allowance }
        }
        Err(error) => Reply { outcome: Err(error.into()), allowance: None },
    }
}

/// Reads a body as the answer that its method promises.
pub fn read<'a, T: Deserialize<'a>>(base: &str, body: &'a [u8]) -> Result<T, XrpcError> {
    serde_json::from_slice(body).map_err(|_| XrpcError::NotXrpc {
        host: host_of(base).unwrap_or_default(),
        status: 200,
        why: "its answer is not the method's",
    })
}

fn address_of(base: &str, method: &str, parameters: &[(&str, &str)]) -> Option<(String, String)> {
    let mut url = Url::parse(base).ok()?;
    url.set_path(&format!("/xrpc/{method}"));
    match parameters {
        [] => url.set_query(None),
        parameters => {
            url.query_pairs_mut().clear().extend_pairs(parameters);
        }
    }
    Some((url.to_string(), host_of(base)?))
}

/// The one place where an answer is sorted into done, later and never.
///
/// A status of 5xx says that the server is in trouble, whatever the body: an empty 500 for a deleted account, or a name in
/// it, is no word about the account (indigo#621). 501 is the exception: the server has no such method.
fn judge(host: &str, answer: Answer, len_max: usize) -> Result<Vec<u8>, XrpcError> {
    let (host, status) = (host.to_owned(), answer.status);
    match status {
        200..=299 if answer.is_cut => Err(GuardError::TooLarge { host, len_max }.into()),
        200..=299 => Ok(answer.body),
        408 | 425 | 429 | 500 | 502..=599 => Err(XrpcError::Trouble { host, status }),
        400..=499 | 501 => Err(error::refusal(host, status, &answer.body)),
        300..=399 => Err(XrpcError::NotXrpc { host, status, why: "it leads elsewhere" }),
        _ => Err(XrpcError::NotXrpc { host, status, why: "its status means nothing" }),
    }
}

#[cfg(test)]
mod tests;

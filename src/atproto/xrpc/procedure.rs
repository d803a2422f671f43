//! XRPC procedures: one POST with a JSON body and a token, judged as a query's answer is.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;

use super::{Reply, XrpcError, address_of, judge};
use crate::atproto::guard::{Ask, GuardError, Guarded};

/// One procedure.
#[derive(Debug, Clone, Copy)]
pub struct Procedure<'a> {
    /// The server: scheme, host and port.
    pub base: &'a str,
    /// The method's name.
    pub method: &'static str,
    /// What proves who we are. Never logged.
    pub token: &'a str,
    /// What is sent.
    pub body: &'a Value,
    /// The most bytes of the answer's body, after decompression.
    pub body_len_max: usize,
    /// In place of the client's own.
    pub timeout: Option<Duration>,
}

/// Calls once. Cancel-safe: the connection is dropped with the future, but the server may have heard.
pub async fn call(client: &Guarded, procedure: &Procedure<'_>) -> Reply {
    let token = HeaderValue::from_str(&format!("Bearer {}", procedure.token));
    let (Some((url, host)), Ok(mut token)) = (address_of(procedure.base, procedure.method, &[]), token)
    else {
        let error = GuardError::BadAddress("it is no url");
        return Reply { outcome: Err(XrpcError::from(error)), allowance: None };
    };
    token.set_sensitive(true);
    let json = HeaderValue::from_static("application/json");
    let ask = Ask {
        method: Method::POST,
        url: &url,
        headers: HeaderMap::from_iter([(AUTHORIZATION, token), (CONTENT_TYPE, json)]),
        body: procedure.body.to_string().into_bytes(),
        body_len_max: procedure.body_len_max,
        timeout: procedure.timeout,
    };
    match client.send(ask).await {
        Ok(answer) => {
            let allowance = Some(answer.allowance());
            Reply { outcome: judge(&host, answer, procedure.body_len_max), allowance }
        }
        Err(error) => Reply { outcome: Err(error.into()), allowance: None },
    }
}

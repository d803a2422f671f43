//! What stands before every answer of the admin address: headers that keep other sites from showing, framing or reading it, and,
//! on loopback, that it is asked for by a loopback name: a page elsewhere whose name was made to lead here is not answered.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Answered under any name: monitoring may come through a tunnel or a proxy. There is nothing in them to hide, and nothing to do.
const FOR_ANY_NAME: [&str; 3] = ["/metrics", "/healthz", "/readyz"];

/// Whether the address is a loopback one, so that only loopback names lead to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnLoopback(pub(super) bool);

/// Refuses strangers' names, and puts the headers on every answer.
pub(super) async fn guarded(State(on): State<OnLoopback>, request: Request, next: Next) -> Response {
    let named = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    // HTTP/1.0 need not say whom it asks; no browser speaks it.
    let is_named_well = named.is_none_or(is_loopback) || FOR_ANY_NAME.contains(&request.uri().path());
    let mut response = if on.0 && !is_named_well {
        let text = "this address is on loopback: ask for it as localhost, 127.0.0.1 or [::1]\n";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    } else {
        next.run(request).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a `Host`, with or without a port, is this machine's word for itself.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.to_ascii_lowercase();
    let is_address = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_address || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machines_words_for_itself_are_loopback() {
        for good in
            ["localhost", "LocalHost:9464", "a.localhost:80", "127.0.0.1", "127.1.2.3:9464", "[::1]:9464"]
        {
            assert!(is_loopback(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "localhost.evil.example:9464",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]:1",
        ] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }
}

//! The page's files, as they are in `page/`, and the headers that every answer has: nothing may be loaded from elsewhere, and no
//! other site may show, frame or read it.

use axum::extract::{Path, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

const INDEX: &str = include_str!("page/index.html");

/// Name, type, content.
const FILES: [(&str, &str, &str); 7] = [
    ("page.css", CSS, include_str!("page/page.css")),
    ("page.js", JS, include_str!("page/page.js")),
    ("draw.js", JS, include_str!("page/draw.js")),
    ("elements.js", JS, include_str!("page/elements.js")),
    ("parts.js", JS, include_str!("page/parts.js")),
    ("terms.js", JS, include_str!("page/terms.js")),
    ("words.js", JS, include_str!("page/words.js")),
];

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

/// `/`
pub(super) async fn index() -> impl IntoResponse {
    file("text/html; charset=utf-8", INDEX)
}

/// `/NAME`
pub(super) async fn named(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, content)) => file(kind, content).into_response(),
        None => (StatusCode::NOT_FOUND, "nothing is here; the page is at /\n").into_response(),
    }
}

/// Puts the headers on every answer.
pub(super) async fn guarded(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A new version of the program is a new page: nothing is kept.
fn file(kind: &'static str, content: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_the_page_names_is_served_and_nothing_comes_from_elsewhere() {
        let names = |text: &'static str| {
            text.split('"').filter(|word| word.ends_with(".js") || word.ends_with(".css"))
        };
        let all = FILES.iter().map(|(_, _, content)| *content).chain([INDEX]);
        for name in all.clone().flat_map(names) {
            let name = name.trim_start_matches("./");
            assert!(FILES.iter().any(|(known, ..)| *known == name), "{name} is not served");
        }
        for content in all {
            let elsewhere = content.replace("http://www.w3.org/2000/svg", "").replace("http://${", "");
            assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"));
            assert!(!content.contains("innerHTML"), "text of strangers would become markup");
        }
    }
}

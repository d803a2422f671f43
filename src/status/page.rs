//! The page's files, as they are in `page/`: nothing is made of them, and they load nothing from elsewhere.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

const INDEX: &str = include_str!("page/index.html");

/// Name, type, content.
const FILES: [(&str, &str, &str); 16] = [
    ("page.css", CSS, include_str!("page/page.css")),
    ("actions.js", JS, include_str!("page/actions.js")),
    ("axis.js", JS, include_str!("page/axis.js")),
    ("chart.js", JS, include_str!("page/chart.js")),
    ("colors.js", JS, include_str!("page/colors.js")),
    ("elements.js", JS, include_str!("page/elements.js")),
    ("live.js", JS, include_str!("page/live.js")),
    ("morph.js", JS, include_str!("page/morph.js")),
    ("page.js", JS, include_str!("page/page.js")),
    ("parts.js", JS, include_str!("page/parts.js")),
    ("streams.js", JS, include_str!("page/streams.js")),
    ("tables.js", JS, include_str!("page/tables.js")),
    ("terms.js", JS, include_str!("page/terms.js")),
    ("timeline.js", JS, include_str!("page/timeline.js")),
    ("verdict.js", JS, include_str!("page/verdict.js")),
    ("words.js", JS, include_str!("page/words.js")),
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

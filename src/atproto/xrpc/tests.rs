//! Answers as servers give them, and what they mean.
#![allow(clippy::unwrap_used)]

use super::*;

fn judged(status: u16, body: &str) -> Result<Vec<u8>, XrpcError> {
    let answer = Answer { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec(), is_cut: false };
    judge("pds.example", answer, 100)
}

fn envelope(error: &str, message: &str) -> String {
    serde_json::json!({ "error": error, "message": message }).to_string()
}

#[test]
fn a_refusal_is_known_by_its_name_and_never_by_its_words() {
    for (error, message, refusal) in [
        ("RepoNotFound", "", Refusal::RepoNotFound),
        ("RepoDeactivated", "RepoNotFound", Refusal::RepoDeactivated),
        ("RepoTakendown", "", Refusal::RepoTakendown),
        ("RepoSuspended", "", Refusal::RepoSuspended),
        ("MethodNotImplemented", "", Refusal::NotServed),
        ("XRPCNotSupported", "", Refusal::NotServed),
        ("InvalidRequest", "Could not find repo: did:plc:a", Refusal::RepoUnseen),
        ("InvalidRequest", "RepoNotFound", Refusal::Other),
        ("InvalidRequest", "limit: could not find repo", Refusal::Other),
        ("Unheard", "Could not find repo: did:plc:a", Refusal::Other),
    ] {
        for status in [400, 401, 404] {
            let error = judged(status, &envelope(error, message)).unwrap_err();
            assert_eq!(error.refusal(), Some(refusal), "{error}");
            assert!(!error.is_temporary());
        }
    }
    let unworded = judged(400, r#"{"error":"RepoNotFound"}"#).unwrap_err();
    assert_eq!(unworded.refusal(), Some(Refusal::RepoNotFound));
}

// S30: indigo#621
#[test]
fn a_server_in_trouble_says_nothing_about_the_account() {
    for status in [408, 429, 500, 502, 503, 504, 599] {
        for body in ["", "<html>", &envelope("RepoNotFound", "")] {
            let error = judged(status, body).unwrap_err();
            assert!(error.is_temporary() && error.refusal().is_none(), "{status} {body}: {error}");
        }
    }
}

#[test]
fn what_is_no_xrpc_server_is_neither_trouble_nor_a_refusal() {
    for (status, body) in
        [(301, ""), (307, ""), (400, ""), (403, "<html>"), (404, "Not Found"), (400, "[]"), (999, "")]
    {
        let error = judged(status, body).unwrap_err();
        assert!(matches!(error, XrpcError::NotXrpc { .. }), "{status} {body}: {error}");
        assert!(!error.is_temporary() && error.refusal().is_none());
    }
    let answer: Result<serde_json::Value, _> = read("https://pds.example", b"<html>");
    assert!(matches!(answer, Err(XrpcError::NotXrpc { status: 200, .. })));
}

#[test]
fn a_method_that_is_not_served_is_known_in_each_form() {
    for (status, body) in [
        (501, envelope("MethodNotImplemented", "")),
        (501, String::new()),
        (404, envelope("XRPCNotSupported", "")),
        (404, "404 page not found\n".to_owned()),
        (405, String::new()),
    ] {
        assert!(judged(status, &body).unwrap_err().is_not_served(), "{status} {body}");
    }
    for (status, body) in [(404, envelope("RepoNotFound", "")), (400, String::new()), (500, String::new())] {
        assert!(!judged(status, &body).unwrap_err().is_not_served(), "{status} {body}");
    }
}

#[test]
fn an_answer_longer_than_allowed_is_an_error_and_a_name_is_shortened() {
    let answer = Answer { status: 200, headers: HeaderMap::new(), body: vec![b'{'; 100], is_cut: true };
    let error = judge("pds.example", answer, 100).unwrap_err();
    assert!(error.is_too_large() && !error.is_temporary());
    let long = envelope(&"x\n".repeat(1_000), "");
    let XrpcError::Refused { name, .. } = judged(400, &long).unwrap_err() else { panic!("no refusal") };
    assert_eq!(name, "x".repeat(64));
}

#[test]
fn parameters_are_encoded_and_the_servers_path_is_not_kept() {
    let parameters = [("repo", "did:plc:a"), ("cursor", "a b&c=d/?")];
    let asked = Query {
        base: "https://pds.example:8443/path?x=1",
        method: "com.atproto.repo.listRecords",
        parameters: &parameters,
        body_len_max: 1,
        timeout: None,
    };
    let (url, host) = address_of(asked.base, asked.method, asked.parameters).unwrap();
    let expected = "https://pds.example:8443/xrpc/com.atproto.repo.listRecords?repo=did%3Aplc%3Aa&cursor=a+b%26c%3Dd%2F%3F";
    assert_eq!((url.as_str(), host.as_str()), (expected, "pds.example:8443"));
}

//! The resolver against a directory and hosts on loopback.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::Router;
use axum::http::{StatusCode, Uri};
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::atproto::guard::GuardSettings;

/// DNS that knows these texts at one name, and is not asked about any other.
struct Zone(&'static str, Vec<String>);

#[async_trait]
impl TxtLookup for Zone {
    async fn txt(&self, name: &str) -> Result<Vec<String>, String> {
        assert_eq!(name, self.0);
        Ok(self.1.clone())
    }
}

fn did(text: &str) -> Did {
    Did::parse(text).unwrap()
}

fn document(did: &str, handle: &str) -> String {
    let service = json!({"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": "https://pds.example/"});
    json!({"id": did, "alsoKnownAs": [format!("at://{handle}")], "service": [service]}).to_string()
}

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    at
}

/// A directory that has `status` and `body` for any DID, and hosts that all answer with `host_status` and `file`.
struct Network {
    directory: (u16, String),
    file: (u16, String),
    zone: Zone,
    timeout: Duration,
}

impl Network {
    fn of_handle(handle: &str, file: (u16, &str)) -> Self {
        Self {
            directory: (200, document("did:plc:alice", handle)),
            file: (file.0, file.1.to_owned()),
            zone: Zone("none is asked", Vec::new()),
            timeout: Duration::from_secs(5),
        }
    }

    async fn resolver(self) -> Resolver {
        let answer = |(status, body): (u16, String)| (StatusCode::from_u16(status).unwrap(), body);
        let (directory, file) = (self.directory, self.file);
        let directory = serve(Router::new().fallback(async move |uri: Uri| {
            assert!(uri.path().starts_with("/did:plc:"));
            answer(directory)
        }));
        let hosts = serve(Router::new().fallback(async move |uri: Uri| match uri.path() {
            "/.well-known/atproto-did" if file.0 == 999 => std::future::pending().await,
            "/.well-known/atproto-did" => answer(file),
            "/.well-known/did.json" => answer((200, document("did:web:hold.test", "hold.test"))),
            path => panic!("asked for {path}"),
        }));
        let (directory, hosts) = (directory.await, hosts.await);
        let settings = GuardSettings {
            allow_loopback: true,
            test_hosts: Some(hosts),
            user_agent: "test".to_owned(),
            timeout: self.timeout,
            per_host: 2,
        };
        let guarded = Guarded::new(settings.clone()).unwrap();
        let operator = Guarded::trusting(settings).unwrap();
        Resolver::new(guarded, operator, &format!("http://{directory}/"), Arc::new(self.zone))
    }

    async fn handle(self) -> HandleCheck {
        self.resolver().await.resolve(&did("did:plc:alice")).await.unwrap().handle
    }
}

fn valid(handle: &str) -> HandleCheck {
    HandleCheck::Valid(Handle::parse(handle).unwrap())
}

#[tokio::test]
async fn an_account_is_known_by_its_pds_and_its_handle() {
    let resolver = Network::of_handle("alice.test", (200, " did:plc:alice\r\n")).resolver().await;
    let identity = resolver.resolve(&did("did:plc:alice")).await.unwrap();
    let pds = Some("https://pds.example".to_owned());
    assert_eq!(identity, Identity { did: did("did:plc:alice"), handle: valid("alice.test"), pds });
}

#[tokio::test]
async fn only_the_directory_itself_says_that_an_account_is_gone() {
    let me = did("did:plc:alice");
    for (status, body) in [
        (404, "{}"),
        (410, "{}"),
        (302, ""),
        (400, ""),
        (403, ""),
        (429, ""),
        (500, ""),
        (503, "<html>"),
        (200, "<html>"),
        (200, r#"{"id":"did:plc:bob"}"#),
        (200, &"x".repeat((1 << 20) + 1)),
    ] {
        let network =
            Network { directory: (status, body.to_owned()), ..Network::of_handle("alice.test", (404, "")) };
        let error = network.resolver().await.resolve(&me).await.unwrap_err();
        let expected = match (&error, status) {
            (IdentityError::NotFound(did), 404) | (IdentityError::Deleted(did), 410) => *did == me,
            (IdentityError::BadDocument { .. }, 200) => true,
            (IdentityError::Throttled { .. }, 429 | 503) => true,
            (IdentityError::Temporary(_), 302 | 400..=403 | 500) => true,
            _ => false,
        };
        assert!(expected, "{status}: {error}");
        assert_eq!(error.is_temporary(), !matches!(status, 200 | 404 | 410));
    }
}

#[tokio::test]
async fn a_directory_that_is_down_says_nothing() {
    let mut resolver = Network::of_handle("alice.test", (404, "")).resolver().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    resolver.plc_url = format!("http://{closed}").into();
    assert!(resolver.resolve(&did("did:plc:alice")).await.unwrap_err().is_temporary());
}

/// chive-pub/chive#77: handles that are proven by a file alone.
#[tokio::test]
async fn a_file_alone_proves_a_handle() {
    assert_eq!(Network::of_handle("alice.test", (200, "did:plc:alice")).handle().await, valid("alice.test"));
}

#[tokio::test]
async fn a_record_alone_proves_a_handle() {
    let zone = |text: &str| Zone("_atproto.alice.com.", vec![text.to_owned()]);
    let network = |text| Network { zone: zone(text), ..Network::of_handle("alice.com", (404, "")) };
    assert_eq!(network("did=did:plc:alice").handle().await, valid("alice.com"));
    assert_eq!(network("did=did:plc:bob").handle().await, HandleCheck::Invalid);
}

#[tokio::test]
async fn a_file_that_says_otherwise_makes_a_handle_invalid() {
    for file in
        [(200, "did:plc:bob"), (200, "<html>"), (200, ""), (404, ""), (302, ""), (200, &"x".repeat(2_049))]
    {
        assert_eq!(Network::of_handle("alice.test", file).handle().await, HandleCheck::Invalid, "{file:?}");
    }
}

#[tokio::test]
async fn a_host_in_trouble_makes_a_handle_unknown() {
    for status in [429, 500, 503] {
        let check = Network::of_handle("alice.test", (status, "did:plc:alice")).handle().await;
        assert!(matches!(check, HandleCheck::Unknown(_)), "{check:?}");
    }
}

/// bluesky-social/atproto#5504: the request for the file had no timeout.
#[tokio::test]
async fn a_host_that_never_answers_is_given_up() {
    let silent =
        Network { timeout: Duration::from_millis(200), ..Network::of_handle("alice.test", (999, "")) };
    let began = Instant::now();
    let check = silent.handle().await;
    assert!(matches!(check, HandleCheck::Unknown(_)), "{check:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_document_without_a_usable_handle_has_no_valid_one() {
    for name in ["not a handle", "alice.invalid", "alice.local"] {
        assert_eq!(Network::of_handle(name, (200, "did:plc:alice")).handle().await, HandleCheck::Invalid);
    }
}

#[tokio::test]
async fn a_did_web_is_asked_at_its_host() {
    let resolver = Network::of_handle("hold.test", (200, "did:web:hold.test")).resolver().await;
    let identity = resolver.resolve(&did("did:web:hold.test")).await.unwrap();
    assert_eq!(identity.handle, valid("hold.test"));
    let error = resolver.resolve(&did("did:web:other.test")).await.unwrap_err();
    assert!(matches!(error, IdentityError::BadDocument { .. }), "{error}");
}

#[tokio::test]
async fn a_did_web_on_localhost_may_have_a_port() {
    let resolver = Network::of_handle("x.test", (404, "")).resolver().await;
    let local = "did:web:localhost%3APORT";
    let app = Router::new().fallback(async |headers: axum::http::HeaderMap| {
        let host = headers["host"].to_str().unwrap().replace(':', "%3A");
        document(&format!("did:web:{host}"), "handle.invalid")
    });
    let at = serve(app).await;
    let identity = resolver.resolve(&did(&local.replace("PORT", &at.port().to_string()))).await.unwrap();
    assert_eq!(identity.handle, HandleCheck::Invalid);
}

#[tokio::test]
async fn what_the_protocol_does_not_resolve_is_not_asked() {
    let loopback = Network::of_handle("x.test", (404, "")).resolver().await;
    let mut strict = loopback.clone();
    let settings = GuardSettings {
        allow_loopback: false,
        test_hosts: None,
        user_agent: "test".to_owned(),
        timeout: Duration::from_secs(5),
        per_host: 2,
    };
    strict.guarded = Guarded::new(settings).unwrap();
    for text in ["did:web:hold.test", "did:web:localhost", "did:web:localhost%3A80", "did:web:a.localhost"] {
        assert!(matches!(strict.resolve(&did(text)).await, Err(IdentityError::Unsupported { .. })), "{text}");
    }
    for text in [
        "did:key:zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N",
        "did:web:example.com:user",
        "did:web:example.com%3A8080",
        "did:web:example.com%2Fpath",
        "did:web:127.0.0.1",
        "did:web:hold.internal",
        "did:web:intranet",
        "did:web:localhost%3A99999",
        "did:web:localhost%3A80%2Fx",
    ] {
        assert!(
            matches!(loopback.resolve(&did(text)).await, Err(IdentityError::Unsupported { .. })),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_service_is_where_its_did_web_says_and_nobody_is_asked() {
    let resolver = Network::of_handle("x.test", (404, "")).resolver().await;
    for (text, origin) in [
        ("did:web:hold.example.com", Some("https://hold.example.com")),
        ("did:web:hold.example.com%3A8443", Some("https://hold.example.com:8443")),
        ("did:web:localhost%3A8080", Some("http://localhost:8080")),
        ("did:web:hold.example.com%3A0", None),
        ("did:web:hold.example.com%3A8443%2Fx", None),
        ("did:web:hold.example.com:8443", None),
        ("did:web:127.0.0.1%3A8443", None),
        ("did:web:hold.internal", None),
    ] {
        assert_eq!(resolver.web_origin(&did(text)).ok().as_deref(), origin, "{text}");
    }
}

//! The client against small servers on loopback.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::*;

fn settings(allow_loopback: bool) -> GuardSettings {
    GuardSettings {
        allow_loopback,
        test_hosts: None,
        user_agent: "atcr-workers/test".to_owned(),
        timeout: Duration::from_secs(5),
        per_host: 2,
    }
}

/// Serves until the test's runtime ends.
async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    at
}

fn loopback() -> Guarded {
    Guarded::new(settings(true)).unwrap()
}

/// gogs#5366, gitea#4624: a webhook that reaches its own server.
#[tokio::test]
async fn a_private_address_is_not_asked_in_any_spelling() {
    let guarded = Guarded::new(settings(false)).unwrap();
    for url in [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://0x7f.0.0.1/",
        "https://2130706433/",
        "https://127.0.0.1./",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://0.0.0.0/",
        "https://localhost/",
        "https://LOCALHOST:8080/",
    ] {
        let error = guarded.get(url, 1).await.unwrap_err();
        assert!(matches!(error, GuardError::Forbidden { .. }), "{url}: {error}");
        assert!(!error.is_temporary());
    }
}

#[tokio::test]
async fn loopback_is_reached_only_where_it_is_allowed() {
    let at = serve(Router::new().route("/", get(async || "hello"))).await;
    let url = format!("http://localhost:{}/", at.port());
    let answer = loopback().get(&url, 5).await.unwrap();
    assert_eq!((answer.status, &*answer.body), (200, &b"hello"[..]));
    assert!(Guarded::new(settings(false)).unwrap().get(&url, 5).await.is_err());
    // The metadata service is no loopback.
    let error = loopback().get("http://169.254.169.254/", 5).await.unwrap_err();
    assert!(matches!(error, GuardError::Forbidden { .. }), "{error}");
    assert!(Guarded::trusting(settings(false)).unwrap().get(&url, 5).await.is_ok());
}

#[tokio::test]
async fn an_address_that_is_no_plain_https_address_is_refused() {
    let guarded = Guarded::new(settings(false)).unwrap();
    for url in [
        "",
        "example.com",
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "data:,x",
    ] {
        let error = guarded.get(url, 1).await.unwrap_err();
        assert!(matches!(error, GuardError::BadAddress(_)), "{url}: {error}");
    }
    for url in ["https://user@example.com/", "https://:secret@example.com/"] {
        let error = guarded.get(url, 1).await.unwrap_err();
        assert_eq!(error, GuardError::BadAddress("it carries a user name or password"));
    }
}

/// gogs#7031: the fix for the above, passed by with a redirect.
#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    static FOLLOWED: AtomicUsize = AtomicUsize::new(0);
    let target = get(async || FOLLOWED.fetch_add(1, Ordering::Relaxed).to_string());
    let redirect = get(async || (StatusCode::FOUND, [("location", "/target")]));
    let at = serve(Router::new().route("/", redirect).route("/target", target)).await;
    let answer = loopback().get(&format!("http://{at}/"), 100).await.unwrap();
    assert_eq!(answer.status, 302);
    assert_eq!(FOLLOWED.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_body_is_read_up_to_the_limit_and_no_further() {
    let endless = get(async || {
        let chunks = std::iter::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 1_000]));
        Body::from_stream(futures_util::stream::iter(chunks))
    });
    let app = Router::new().route("/exact", get(async || "x".repeat(100))).route("/endless", endless);
    let at = serve(app).await;
    let exact = format!("http://{at}/exact");
    assert_eq!(loopback().get(&exact, 100).await.unwrap().body.len(), 100);
    let error = loopback().get(&exact, 99).await.unwrap_err();
    assert_eq!(error, GuardError::TooLarge { host: "127.0.0.1".to_owned(), len_max: 99 });
    let endless = format!("http://{at}/endless");
    let (method, headers) = (Method::GET, HeaderMap::new());
    let ask = Ask { method, url: &endless, headers, body: Vec::new(), body_len_max: 2_500, timeout: None };
    let answer = loopback().send(ask).await.unwrap();
    assert!(answer.is_cut);
    assert_eq!(answer.body.len(), 2_500);
}

#[tokio::test]
async fn a_compressed_body_counts_by_what_it_becomes() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![0; 10 << 20]).unwrap();
    let bomb = gzip.finish().unwrap();
    assert!(bomb.len() < 100_000);
    let app = get(move || std::future::ready(([("content-encoding", "gzip")], bomb.clone())));
    let at = serve(Router::new().route("/", app)).await;
    let url = format!("http://{at}/");
    let error = loopback().get(&url, 1 << 20).await.unwrap_err();
    assert!(matches!(error, GuardError::TooLarge { .. }), "{error}");
    assert_eq!(loopback().get(&url, 10 << 20).await.unwrap().body.len(), 10 << 20);
}

#[tokio::test]
async fn a_host_with_too_many_headers_is_given_up() {
    let app = get(async || {
        let mut headers = HeaderMap::new();
        for i in 0..200 {
            headers.insert(HeaderName::try_from(format!("x-{i}")).unwrap(), HeaderValue::from_static("1"));
        }
        headers
    });
    let at = serve(Router::new().route("/", app)).await;
    let error = loopback().get(&format!("http://{at}/"), 1).await.unwrap_err();
    assert!(matches!(error, GuardError::Failed { .. }), "{error}");
}

/// Silence before the headers, and a body that comes a byte at a time, are the same to the deadline.
#[tokio::test]
async fn the_deadline_covers_the_whole_exchange() {
    let drip = || {
        Body::from_stream(futures_util::stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>("x"), ()))
        }))
    };
    let app = Router::new()
        .route("/silence", get(std::future::pending::<String>))
        .route("/drip", get(move || std::future::ready(drip())));
    let at = serve(app).await;
    let after = Duration::from_millis(200);
    let guarded = Guarded::new(GuardSettings { timeout: after, ..settings(true) }).unwrap();
    for path in ["silence", "drip"] {
        let error = guarded.get(&format!("http://{at}/{path}"), 1 << 20).await.unwrap_err();
        assert_eq!(error, GuardError::TimedOut { host: "127.0.0.1".to_owned(), after });
        assert!(error.is_temporary());
    }
}

#[tokio::test]
async fn a_host_is_asked_by_two_at_once_and_not_by_three() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    static GATE: Semaphore = Semaphore::const_new(0);
    let gated = get(async || {
        ASKED.fetch_add(1, Ordering::SeqCst);
        GATE.acquire().await.unwrap().forget();
    });
    let at = serve(Router::new().route("/", gated).route("/free", get(async || ""))).await;
    let (guarded, url) = (loopback(), format!("http://{at}/"));
    let asks = futures_util::future::join_all((0..6).map(|_| guarded.get(&url, 1)));
    let check = async {
        // Another host, by its name, has turns of its own; each of these gives the third request time to get through.
        let free = format!("http://localhost:{}/free", at.port());
        let mut rounds = 0;
        while rounds < 20 {
            guarded.get(&free, 1).await.unwrap();
            rounds += usize::from(ASKED.load(Ordering::SeqCst) >= 2);
        }
        assert_eq!(ASKED.load(Ordering::SeqCst), 2);
        GATE.add_permits(6);
    };
    let (answers, ()) = tokio::join!(asks, check);
    assert!(answers.iter().all(Result::is_ok));
}

#[tokio::test]
async fn every_test_name_leads_to_the_test_hosts() {
    let host = get(async |headers: HeaderMap| headers["host"].to_str().unwrap().to_owned());
    let at = serve(Router::new().route("/", host)).await;
    let guarded = Guarded::new(GuardSettings { test_hosts: Some(at), ..settings(true) }).unwrap();
    for name in ["alice.test", "a.b.localhost"] {
        let answer = guarded.get(&format!("https://{name}/"), 100).await.unwrap();
        assert_eq!(String::from_utf8(answer.body).unwrap(), format!("{name}:{}", at.port()));
    }
    // Without loopback, the setting is not heeded.
    let strict = Guarded::new(GuardSettings { test_hosts: Some(at), ..settings(false) }).unwrap();
    assert!(!strict.is_test_host("alice.test") && guarded.is_test_host("alice.test"));
}

#[tokio::test]
async fn a_failure_names_the_host_and_not_the_path() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = loopback().get(&format!("http://{closed}/secret?token=secret"), 1).await.unwrap_err();
    assert!(error.is_temporary());
    assert!(error.to_string().starts_with("asking 127.0.0.1 failed: "), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn a_user_agent_that_is_no_header_is_told_at_the_start() {
    let made = Guarded::new(GuardSettings { user_agent: "a\nb".to_owned(), ..settings(false) });
    assert!(matches!(made.err().unwrap(), GuardError::Setup(_)));
}

//! What can be asked for at the admin address: nothing without the token, and with it what the command line can.

use serde_json::{Value, json};

use super::{nothing, stage};
use crate::support::{
    browser::{Browser, DESKTOP},
    eventually::eventually_blocking,
    http::{self, Response},
    place::{Kind, on_both_databases},
    process::Instance,
    stage::{PATIENCE, Stage, until_in, until_ready},
};

on_both_databases!(with_the_token_every_wish_is_carried_out);

const TOKEN: &str = "a-token-for-tests";

fn ask(instance: &Instance, authorization: Option<&str>, wish: &Value) -> Response {
    let url = format!("http://{}/actions", instance.admin_address());
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(authorization.map(|value| ("Authorization", value)));
    http::request("POST", &url, &headers, &wish.to_string()).unwrap()
}

/// The status and what is told.
fn asks(instance: &Instance, wish: &Value) -> (u16, String) {
    let Response { status, body } = ask(instance, Some(&format!("Bearer {TOKEN}")), wish);
    let told: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"));
    let said = if status == 200 { &told["done"] } else { &told["error"] };
    (status, said.as_str().unwrap_or_else(|| panic!("{told}")).to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_token_in_the_settings_nothing_can_be_changed() {
    let stage = nothing(Kind::Sqlite).await;
    let instance = stage.start("one");
    until_ready(&instance);
    let wish = json!({ "action": "pause", "lease": "cleanup" });
    for shown in [None, Some("Bearer "), Some("Bearer a-token")] {
        let Response { status, body } = ask(&instance, shown, &wish);
        assert_eq!(status, 405, "{shown:?}: {body}");
        assert!(body.contains("admin.token is not set"), "{body}");
    }
    assert!(stage.leases().iter().all(|lease| lease["paused"] == false));
    let state = http::get(&format!("http://{}/status.json", instance.admin_address())).unwrap();
    let state: Value = serde_json::from_str(&state.body).unwrap();
    assert_eq!(state["actions"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_changes_nothing_and_is_not_logged() {
    let stage = nothing(Kind::Sqlite).await.with("ATCR__ADMIN__TOKEN", TOKEN);
    let instance = stage.start("one");
    until_ready(&instance);
    let wish = json!({ "action": "pause", "lease": "cleanup" });
    let longer = format!("Bearer {TOKEN}x");
    for shown in
        [None, Some("Bearer "), Some("Bearer a-token"), Some(TOKEN), Some("Basic eDp4"), Some(&*longer)]
    {
        let Response { status, body } = ask(&instance, shown, &wish);
        assert_eq!(status, 401, "{shown:?}: {body}");
    }
    assert!(stage.leases().iter().all(|lease| lease["paused"] == false));
    let log = instance.lines().join("\n");
    assert!(log.contains("showed a wrong token") && !log.contains("a-token"), "{log}");
    // Another origin's form can send this, with no question before it; it is no JSON by name.
    let url = format!("http://{}/actions", instance.admin_address());
    let authorization = format!("Bearer {TOKEN}");
    let headers = [("Content-Type", "text/plain"), ("Authorization", &*authorization)];
    assert_eq!(http::request("POST", &url, &headers, &wish.to_string()).unwrap().status, 415);
}

async fn with_the_token_every_wish_is_carried_out(kind: Kind) {
    let stage = stage(kind).await.with("ATCR__ADMIN__TOKEN", TOKEN);
    let one = stage.start("one");
    until_in(&one, "running");
    let two = stage.start("two");
    until_ready(&two);

    assert_eq!(asks(&one, &json!({ "action": "move", "lease": "jetstream", "instance": "two" })).0, 200);
    lease_is(&stage, "jetstream", "it is at two", |lease| lease["holder"]["label"] == "two");
    let (status, said) = asks(&one, &json!({ "action": "drain", "instance": "two" }));
    assert!(status == 200 && said.contains("gives its leases up"), "{status} {said}");
    lease_is(&stage, "jetstream", "it is at one", |lease| lease["holder"]["label"] == "one");
    let (status, said) = asks(&one, &json!({ "action": "move", "lease": "jetstream", "instance": "two" }));
    assert!(status == 409 && said.contains("draining"), "{status} {said}");
    assert_eq!(asks(&two, &json!({ "action": "undrain", "instance": "two" })).0, 200);
    assert_eq!(asks(&two, &json!({ "action": "pause", "lease": "cleanup" })).0, 200);
    lease_is(&stage, "cleanup", "it is paused", |lease| lease["state"] == "paused");
    assert_eq!(asks(&two, &json!({ "action": "resume", "lease": "cleanup" })).0, 200);
    lease_is(&stage, "cleanup", "it runs", |lease| lease["state"] == "running");
    assert_eq!(asks(&one, &json!({ "action": "backfill", "all": true })).0, 200);
    assert_eq!(asks(&one, &json!({ "action": "backfill", "did": "did:plc:user1" })).0, 200);
    let wishes =
        stage.place.lines("SELECT did || ' ' || reason AS line FROM backfill_request ORDER BY 1").await;
    assert_eq!(wishes, ["* operator", "did:plc:user1 operator"]);

    for (status, wish, part) in [
        (404, json!({ "action": "drain", "instance": "three" }), "no instance \"three\"; there are: one ("),
        (404, json!({ "action": "pause", "lease": "nothing" }), "no such lease"),
        (404, json!({ "action": "pause", "lease": "No lease" }), "No lease"),
        (404, json!({ "action": "backfill", "did": "user" }), "user"),
        (409, json!({ "action": "backfill" }), "say either"),
        (422, json!({ "action": "explode" }), "unknown variant"),
        (422, json!({ "action": "pause", "lease": "cleanup", "force": true }), "unknown field"),
        (413, json!({ "action": "pause", "lease": "x".repeat(5_000) }), ""),
    ] {
        let (is, said) = asks(&one, &wish);
        assert!(is == status && said.contains(part), "{wish}: {is} {said}");
    }
}

#[track_caller]
fn lease_is(stage: &Stage, name: &str, what: &str, so: impl Fn(&Value) -> bool) {
    eventually_blocking(what, PATIENCE, || {
        let leases = stage.leases();
        if leases.iter().any(|lease| lease["name"] == name && so(lease)) { Ok(()) } else { Err(leases) }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_signs_in_on_the_page_can_pause_and_resume_and_the_token_stays_nowhere() {
    let Some(mut browser) = Browser::start() else { return };
    let stage = stage(Kind::Sqlite).await.with("ATCR__ADMIN__TOKEN", TOKEN);
    let instance = stage.start("one");
    until_in(&instance, "running");
    browser.open(&instance.admin_address(), DESKTOP, "light");
    let pause = "#leases button[data-do=pause][data-lease=cleanup]";
    assert_eq!(browser.tell(&format!("document.querySelector('{pause}')")), Value::Null);

    browser.click("#sign");
    browser.is_accessible("signing in");
    browser.write("#token", "a-wrong-one");
    browser.press("Enter");
    browser.until(
        "it is refused",
        "document.getElementById('sign-error').textContent.includes('not the token')",
    );
    browser.write("#token", TOKEN);
    browser.press("Enter");
    browser.until("the buttons are there", &format!("document.querySelector('{pause}') !== null"));
    browser.is_accessible("signed in");

    browser.click(pause);
    browser.is_accessible("asked whether to");
    browser.press("Escape");
    assert!(stage.leases().iter().all(|lease| lease["paused"] == false), "nothing was confirmed");
    browser.click(pause);
    browser.click("#confirm-do");
    let told = browser.until("it is told", "document.getElementById('result').innerText.includes('cleanup') && document.getElementById('result').innerText");
    assert_eq!(told, "Asked for: cleanup is stopped on every instance until it is resumed.");
    browser.until(
        "it is paused",
        "document.querySelector('#leases tr[data-key=cleanup] .state').innerText === 'paused'",
    );
    browser.is_accessible("it is paused");
    browser.click("#leases button[data-do=resume][data-lease=cleanup]");
    browser.click("#confirm-do");
    browser.until(
        "it runs",
        "document.querySelector('#leases tr[data-key=cleanup] .state').innerText === 'running'",
    );

    assert_eq!(browser.tell("[localStorage.length, sessionStorage.length, document.cookie, document.getElementById('token').value]"), json!([0, 0, "", ""]));
    browser.click("#sign");
    browser.until("the buttons are gone", &format!("document.querySelector('{pause}') === null"));
    browser.was_quiet(&["/actions 401", "401 (Unauthorized)"]);
}

/// A page elsewhere, whose name was made to lead to loopback, reads and changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_loopback_only_loopback_names_are_answered_but_for_monitoring() {
    let stage = nothing(Kind::Sqlite).await.with("ATCR__ADMIN__TOKEN", TOKEN);
    let instance = stage.start("one");
    until_ready(&instance);
    let port = instance.admin_address().rsplit_once(':').unwrap().1.to_owned();
    let status = |path: &str, host: &str| {
        let url = format!("http://127.0.0.1:{port}{path}");
        http::request("GET", &url, &[("Host", host)], "").unwrap().status
    };
    for path in ["/", "/page.js", "/status.json", "/holds", "/labeler", "/nothing"] {
        assert_eq!(status(path, "evil.example"), 421, "{path}");
        assert_eq!(status(path, &format!("127.0.0.1.evil.example:{port}")), 421, "{path}");
    }
    assert_eq!(status("/actions", "evil.example"), 421);
    for host in ["localhost", "127.0.0.1", "[::1]:9464", "web.localhost"] {
        assert_eq!(status("/status.json", host), 200, "{host}");
    }
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(status(path, "web1.example:9464"), 200, "{path}");
    }
}

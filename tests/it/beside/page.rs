//! The browser that looks, and the shell that completes.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use rustix::process::Signal;

use crate::support::{
    http,
    place::Kind,
    process::Exit,
    stage::{PATIENCE, Stage, until_in},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_with_all_that_it_needs_and_nothing_more() {
    let stage = Stage::new(Kind::Sqlite).await;
    let instance = stage.start("looked at");
    until_in(&instance, "running");
    let address = instance.admin_address();
    let get = |path: &str| http::get(&format!("http://{address}{path}")).unwrap();
    assert!(get("/").body.contains("<main"));
    assert!(get("/live.js").body.contains("new EventSource("));
    assert_eq!(get("/../Cargo.toml").status, 404);
    assert_eq!(get("/nothing").status, 404);
    let state: serde_json::Value = serde_json::from_str(&get("/status.json").body).unwrap();
    assert_eq!(state["report"]["leases"][0]["name"], "jetstream", "{state}");
    assert_eq!(state["events"][0]["what"], "acquired", "{state}");
    let ready: serde_json::Value = serde_json::from_str(&get("/readyz").body).unwrap();
    assert_eq!((&ready["running"][0], &ready["standing_by"]), (&"jetstream".into(), &false.into()));

    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    let mut some = [0; 4096];
    while !text.contains("event: state") {
        let len = stream.read(&mut some).unwrap();
        assert_ne!(len, 0, "the events ended: {text}");
        text.push_str(&String::from_utf8_lossy(&some[..len]));
    }
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "x-frame-options: DENY",
    ] {
        assert!(text.contains(header), "{header} is not in {text}");
    }
    // An open page does not hold the end up.
    let mut instance = instance;
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(Duration::from_secs(10)), Exit::Code(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_need_neither_settings_nor_a_database() {
    let stage = Stage::new(Kind::Sqlite).await.with("ATCR__NO__SUCH", "setting");
    for shell in ["bash", "zsh", "fish"] {
        let (exit, text) = stage.command(&["completions", shell]);
        assert!(exit == Exit::Code(0) && text.contains("backfill"), "{shell}: {text}");
    }
}

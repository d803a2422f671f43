//! The page is whole in every window: with nothing to show and with much, wide and narrow, light and dark, by keyboard, and for
//! those who do not see it. Pictures of it are left in `target/tmp/page`.

use std::{fs, path::PathBuf};

use localnet::{ids, network::Fault};

use super::{nothing, stage};
use crate::{
    health,
    support::{
        browser::{Browser, DESKTOP, PHONE, Size},
        eventually::eventually_blocking,
        place::{Kind, on_both_databases},
        process::Exit,
        stage::{PATIENCE, Stage, until_in, until_ready},
    },
};

on_both_databases!(a_page_with_much_on_it_is_whole_in_every_window);

/// The narrowest that the guidelines ask for.
const NARROWEST: Size = (320, 640);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_with_nothing_on_it_is_whole_in_every_window() {
    let Some(mut browser) = Browser::start() else { return };
    let stage = nothing(Kind::Sqlite).await;
    let instance = stage.start("alone");
    until_ready(&instance);
    browser.open(&instance.admin_address(), DESKTOP, "light");
    browser.until(
        "it runs",
        "document.getElementById('verdict').innerText.startsWith('Every worker runs, on 1 instance.')",
    );
    is_whole(&mut browser, "empty");
    let shown = browser.tell("document.getElementById('main').innerText");
    for part in [
        "No hand-over yet",
        "No stream is in the index yet.",
        "No run yet.",
        "No labeler was ever followed",
        "asks no holds",
        "none enabled",
    ] {
        assert!(shown.as_str().unwrap().contains(part), "{part}: {shown}");
    }
    assert_eq!(browser.tell("document.getElementById('sign').hidden"), true, "nothing can be changed here");
    browser.was_quiet(&[]);
}

async fn a_page_with_much_on_it_is_whole_in_every_window(kind: Kind) {
    let Some(mut browser) = Browser::start() else { return };
    let stage = full(kind).await;
    let instances = ["registry-1", "registry-2", "registry-3"].map(|label| stage.start(label));
    instances.iter().for_each(until_ready);
    let (exit, text) = stage.command(&["leases", "drain", "registry-3"]);
    assert_eq!(exit, Exit::Code(0), "{text}");
    let (_, text) = stage.command(&["leases", "pause", "cleanup"]);
    assert!(text.contains("cleanup is paused"), "{text}");
    health::stage::after_a_round(&instances[0]);
    // A stream that is silent is behind after a minute.
    let _flow = stage.traffic(1, 5.0);

    browser.open(&instances[0].admin_address(), DESKTOP, "light");
    let shows = |part: &str| format!("document.getElementById('main').innerText.includes({part:?})");
    for part in [
        "cleanup is paused; every other worker runs.",
        "1 webhook is disabled.",
        "1 hold does not answer.",
        "registry-3 takes no leases (draining).",
        "2 of 3 (66 %)",
        "status 500",
        "3 subjects",
        "1 delivery",
        "up to date",
    ] {
        browser.until(part, &shows(part));
    }
    browser.until(
        "it is connected to the labeler",
        "document.querySelector('#labels-box .state').innerText === 'connected'",
    );
    is_whole(&mut browser, &format!("full-{kind:?}").to_lowercase());
    browser.was_quiet(&[]);
}

/// Something in every section.
async fn full(kind: Kind) -> Stage {
    let stage = stage(kind).await.with("ATCR__HOLD_HEALTH__ENABLED", "true");
    let did = stage.net.labeler().did();
    (0..3).for_each(|n| {
        stage.net.labeler().say(&format!("did:plc:user{n}"), "!takedown");
    });
    health::stage::fails(&stage, "down.test", Fault::Status(500));
    health::stage::has_captain(&stage, "did:web:up.test").await;
    health::stage::has_captain(&stage, "did:web:down.test").await;
    let now_us = ids::now_us();
    let later_us = now_us + 3_600_000_000;
    let repo = |did: &str, state: &str| {
        format!(
            "INSERT INTO backfill_repo (did, run, state, found_at) VALUES ('did:plc:{did}', 1, '{state}', {now_us});"
        )
    };
    let sql = format!(
        "INSERT INTO users (did, first_seen) VALUES ('did:plc:user', 1);
         INSERT INTO webhooks (id, user_did, url, triggers, created_at, updated_at, disabled_at, disabled_reason)
         VALUES (1, 'did:plc:user', 'https://hook.example', 8, 1, 1, NULL, NULL),
             (2, 'did:plc:user', 'https://gone.example', 8, 1, 1, 1, 'failing for three days');
         INSERT INTO webhook_deliveries (id, webhook_id, trigger, dedupe_key, repository, digest, tag, event, status,
             next_attempt_at, created_at, asked_at)
         VALUES ('d1', 1, 'push', 'k', 'app', 'sha256:0', '', '{{}}', 'pending', {later_us}, {now_us}, {now_us});
         INSERT INTO backfill_run (id, reason, forced, started_at, records) VALUES (1, 'start', FALSE, {now_us}, 7);
         INSERT INTO backfill_request (did, reason, asked_at) VALUES ('*', 'operator', 1);
         {}{}{}",
        repo("a", "read"),
        repo("b", "failed"),
        repo("c", "waiting"),
    );
    stage.place.execute(&sql).await;
    stage.with("ATCR__LABELER__DID", &did).with("ATCR__ADMIN__TOKEN", "a-token-for-tests")
}

/// No violation of the accessibility rules and nothing to scroll sideways, in each window; pictures of all.
fn is_whole(browser: &mut Browser, name: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).unwrap();
    for scheme in ["light", "dark"] {
        for size in [DESKTOP, PHONE, NARROWEST] {
            browser.look(size, scheme);
            let fits = "document.documentElement.scrollWidth <= innerWidth && document.querySelector('#timeline svg, .empty').getBoundingClientRect().right <= innerWidth";
            browser.until(&format!("{name} fits in {size:?}"), fits);
            browser.is_accessible((name, scheme, size));
            browser.shot(&folder.join(format!("{name}-{}-{scheme}.png", size.0)));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_can_be_reached_by_keyboard_and_is_seen_to_have_the_focus() {
    let Some(mut browser) = Browser::start() else { return };
    let stage = full(Kind::Sqlite).await;
    let instances = [stage.start("one"), stage.start("two")];
    instances.iter().for_each(until_ready);
    browser.open(&instances[0].admin_address(), DESKTOP, "light");
    browser.until("both are there", "document.querySelectorAll('#instances a').length === 1");

    browser.press("Tab");
    assert_eq!(focused(&mut browser), "Skip to the content");
    let mut reached = vec![focused(&mut browser)];
    for _ in 0..40 {
        browser.press("Tab");
        let what = focused(&mut browser);
        if what.is_empty() || reached.contains(&what) {
            break;
        }
        let ring = "(() => { const at = document.activeElement; const shown = at.type === 'radio' ? at.nextElementSibling : at;
            return getComputedStyle(shown).outlineStyle !== 'none' && shown.getBoundingClientRect().width > 4 })()";
        assert_eq!(browser.tell(ring), true, "{what} is seen to have the focus");
        reached.push(what);
    }
    let expected =
        ["Skip to the content", "Sign in", "two", "15 min", "status.json", "metrics", "holds", "readyz"];
    let missing: Vec<_> =
        expected.iter().filter(|part| !reached.iter().any(|what| what.contains(*part))).collect();
    assert!(missing.is_empty(), "{missing:?} not in {reached:?}");

    // The choice of how far back, by the arrows; and the focus stays while the page is drawn anew.
    browser.tell("document.querySelector('[name=hours]:checked').focus()");
    browser.press("ArrowRight");
    assert_eq!(browser.tell("document.querySelector('[name=hours]:checked').value"), "1");
    browser.tell("document.querySelector('#instances a').focus()");
    drawn_anew(&mut browser);
    assert!(focused(&mut browser).contains("two"));
}

/// Waits until the page shows another state, which may be the same but for its time.
fn drawn_anew(browser: &mut Browser) {
    let before = browser.tell("document.body.dataset.drawn");
    browser.until("it is drawn anew", &format!("document.body.dataset.drawn !== {before}"));
}

fn focused(browser: &mut Browser) -> String {
    let text = "(() => { const at = document.activeElement; return at === document.body ? '' : (at.labels?.[0] ?? at).innerText.trim() })()";
    browser.tell(text).as_str().unwrap().to_owned()
}

/// A status that is read out each half second is one that nobody can bear.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_read_out_while_nothing_happens() {
    let Some(mut browser) = Browser::start() else { return };
    let stage = stage(Kind::Sqlite).await;
    let _flow = stage.traffic(1, 5.0);
    let instance = stage.start("one");
    until_in(&instance, "running");
    browser.open(&instance.admin_address(), DESKTOP, "light");
    browser.until(
        "every worker runs",
        "document.getElementById('verdict').innerText.startsWith('Every worker runs')",
    );
    browser.tell(
        "window.said = [];
        const hear = new MutationObserver((changes) => window.said.push(...changes.map((change) => change.target.textContent)));
        for (const place of document.querySelectorAll('[role=status], [role=alert]'))
            hear.observe(place, { subtree: true, childList: true, characterData: true })",
    );
    (0..4).for_each(|_| drawn_anew(&mut browser));
    assert_eq!(browser.tell("window.said"), serde_json::json!([]));

    let (exit, text) = stage.command(&["leases", "pause", "cleanup"]);
    assert_eq!(exit, Exit::Code(0), "{text}");
    eventually_blocking("it is read out", PATIENCE, || {
        let said = browser.tell("window.said.join(' ')");
        if said.as_str().unwrap().contains("cleanup is paused") { Ok(()) } else { Err(said) }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durations_and_ages_are_written_in_one_way() {
    let Some(mut browser) = Browser::start() else { return };
    let stage = nothing(Kind::Sqlite).await;
    let instance = stage.start("alone");
    until_ready(&instance);
    browser.open(&instance.admin_address(), DESKTOP, "light");
    let said = browser.tell(
        "import('./words.js').then(({ age, duration }) => [
            [0, 0.04, 1.44, 9.96, 12.2, 59.6, 61, 3599, 3600, 7800, 90000, null].map(duration),
            [0, 0.9, 59.9, 61, 3599, 3600, 90000, undefined].map(age)])",
    );
    let durations = [
        "0 s",
        "40 ms",
        "1.4 s",
        "10 s",
        "12 s",
        "1 min",
        "1 min 1 s",
        "59 min 59 s",
        "1 h",
        "2 h 10 min",
        "1 d 1 h",
        "unknown",
    ];
    let ages = ["0 s", "0 s", "59 s", "1 min", "59 min", "1 h", "1 d", "unknown"];
    assert_eq!(said, serde_json::json!([durations, ages]));
}

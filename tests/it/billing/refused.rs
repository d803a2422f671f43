//! What billing cannot begin with: each is refused at the start, by the key, what it is, and what was expected.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use tempfile::NamedTempFile;

use super::processes::{Office, TIERS};
use crate::support::place::Kind;
use crate::support::process::Exit;
use crate::support::stage::PATIENCE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_billing_needs_are_asked_for_by_name() {
    for (variable, key, expected) in [
        ("ATCR__REGISTRY__DID", "registry.did", "expected the registry's DID"),
        (
            "ATCR__REGISTRY__SIGNING_KEY",
            "registry.signing_key",
            "expected a file with the registry's private key",
        ),
    ] {
        let office = Office::open(Kind::Sqlite).await.with(variable, "");
        is_refused(&office, &[key, expected, "while billing.stripe_secret_key is set"]);
    }
    let office = Office::open_with(Kind::Sqlite, "").await;
    is_refused(&office, &["billing.tiers", "expected at least one tier with a price"]);
    let paid_first = TIERS.replace("price_ids = []", "price_ids = [\"price_basic\"]");
    let office = Office::open_with(Kind::Sqlite, &paid_first).await;
    is_refused(&office, &["billing.tiers", "expected a first tier without prices"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_none_is_refused_and_not_shown() {
    let office = Office::open(Kind::Sqlite).await;
    let private = std::fs::read_to_string(office.key.path()).unwrap();
    for (text, why) in [
        (String::new(), "it is no such text"),
        (private.replacen('z', "u", 1), "it is no such text"),
        ("zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme".to_owned(), "it is a public key"),
        (private.trim().chars().take(30).collect(), "it is a key of another kind"),
    ] {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let office = Office::open(Kind::Sqlite).await;
        let path = file.path().to_str().unwrap();
        let office = office.with("ATCR__REGISTRY__SIGNING_KEY", path);
        let said =
            is_refused(&office, &["registry.signing_key", path, "expected a private key as multibase", why]);
        assert!(text.len() < 5 || !said.contains(&text[2..text.len() - 1]), "{said}");
    }
    let office = office.with("ATCR__REGISTRY__SIGNING_KEY", "/nowhere/key");
    is_refused(
        &office,
        &["registry.signing_key", "/nowhere/key", "expected a file with a private key", "No such file"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_everybody_can_read_is_warned_of() {
    let office = Office::open(Kind::Sqlite).await;
    for (mode, warned) in [(0o600, false), (0o640, false), (0o644, true)] {
        std::fs::set_permissions(office.key.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let mut instance = office.start("one");
        instance.wait_for_line("it has begun", PATIENCE, |line| line.contains("atcr-workers begins"));
        let said = instance.lines().iter().any(|line| line.contains("every user of this machine can reach"));
        assert_eq!(said, warned, "{mode:o}");
        instance.signal(Signal::TERM);
        instance.wait_exit(PATIENCE);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_of_stripes_there_is_no_lease_and_nothing_is_needed() {
    let office = Office::open_with(Kind::Sqlite, "").await;
    let office = ["ATCR__BILLING__STRIPE_SECRET_KEY", "ATCR__REGISTRY__DID", "ATCR__REGISTRY__SIGNING_KEY"]
        .into_iter()
        .fold(office, |office, variable| office.with(variable, ""));
    let mut instance = office.start("one");
    instance.wait_for_line("it has begun", PATIENCE, |line| line.contains("atcr-workers begins"));
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(0));
    let leases = office.stage.place.lines("SELECT name AS line FROM lease WHERE name = 'billing'").await;
    assert_eq!(leases, [] as [String; 0]);
}

/// What it says.
#[track_caller]
fn is_refused(office: &Office, expected: &[&str]) -> String {
    let mut instance = office.start("refused");
    let exit = instance.wait_exit(PATIENCE);
    let said = instance.lines().join("\n");
    assert_eq!(exit, Exit::Code(78), "{said}");
    for text in expected {
        assert!(said.contains(text), "no {text:?} in {said}");
    }
    said
}

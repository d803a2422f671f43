//! `atcr-workers webhooks`: what an operator asks for, what they are told, and that secrets are shown once or never.

use std::io::Write;

use serde_json::Value;

use crate::support::place::{Kind, Place, on_both_databases};
use crate::support::process::Exit;
use crate::support::stage::Stage;

on_both_databases!(
    a_webhook_is_added_listed_disabled_enabled_and_removed,
    what_a_webhook_may_not_be_is_refused_with_the_reason,
    a_secret_comes_from_a_file_or_is_made_and_is_printed_once,
    without_an_instance_a_test_waits_and_that_is_said,
);

const USER: &str = "did:plc:ewvi7nxzyoun6zhxrhs64oiz";

/// A migrated database that knows one user, and nobody at work.
async fn stage(kind: Kind) -> Stage {
    let stage = Stage::bare(Place::fresh(kind).await).await;
    assert_eq!(stage.command(&["migrate"]).0, Exit::Code(0));
    let user = format!("INSERT INTO users (did, handle, first_seen) VALUES ('{USER}', 'alice.test', 1)");
    stage.place.execute(&user).await;
    stage
}

fn add<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["webhooks", "add", "--user", "alice.test", "--url", "https://ci.example/hook"], more].concat()
}

fn list(stage: &Stage) -> Vec<Value> {
    let (exit, text) = stage.command(&["webhooks", "list", "--json"]);
    assert_eq!(exit, Exit::Code(0), "{text}");
    serde_json::from_str(&text).unwrap()
}

async fn a_webhook_is_added_listed_disabled_enabled_and_removed(kind: Kind) {
    let stage = stage(kind).await;
    assert_eq!(stage.command(&add(&["--triggers", "push,scan:first"])), (Exit::Code(0), "1".to_owned()));
    let listed = list(&stage).remove(0);
    assert_eq!((&listed["user"], &listed["handle"]), (&USER.into(), &"alice.test".into()));
    assert_eq!(listed["triggers"], serde_json::json!(["push", "scan:first"]));
    for (arguments, said) in [
        (&["webhooks", "disable", "1", "--reason", "too loud"][..], "webhook 1 is disabled"),
        (&["webhooks", "enable", "1"], "webhook 1 is enabled"),
    ] {
        assert_eq!(stage.command(arguments), (Exit::Code(0), said.to_owned()));
        let is_disabled = said.ends_with("disabled");
        assert_eq!(list(&stage)[0]["disabled_reason"] == "too loud", is_disabled);
        let (_, text) = stage.command(&["webhooks"]);
        assert_eq!(text.contains("too loud"), is_disabled, "{text}");
        assert!(text.contains("alice.test") && text.contains("push,scan:first"), "{text}");
    }
    assert_eq!(stage.command(&["webhooks", "list", "--user", USER, "--json"]).0, Exit::Code(0));
    assert_eq!(stage.command(&["webhooks", "remove", "1"]).0, Exit::Code(0));
    assert!(list(&stage).is_empty());
    let (exit, said) = stage.command(&["webhooks", "remove", "1"]);
    assert_eq!((exit, said.contains("there is no webhook 1")), (Exit::Code(1), true), "{said}");
}

async fn what_a_webhook_may_not_be_is_refused_with_the_reason(kind: Kind) {
    let stage = stage(kind).await;
    let refused = |arguments: &[&str], code: i32, why: &str| {
        let (exit, said) = stage.command(arguments);
        assert!(exit == Exit::Code(code) && said.contains(why), "{arguments:?}: {exit:?} {said}");
    };
    refused(&add(&["--triggers", "pull"]), 78, "scan:changed");
    refused(&add(&["--triggers", "scan:all"]), 1, "does not have the trigger scan:all");
    let to = |url| ["webhooks", "add", "--user", USER, "--triggers", "push", "--url", url];
    refused(&to("ftp://ci.example/"), 78, "https");
    refused(&to("https://me:secret@ci.example/"), 78, "without a login");
    let of = |user| ["webhooks", "add", "--url", "https://ci.example/", "--triggers", "push", "--user", user];
    refused(&of("did:plc:nobody"), 1, "does not know this user");
    refused(&of("bob.test"), 1, "does not know this user");
    assert_eq!(stage.command(&add(&["--triggers", "push"])).0, Exit::Code(0));
    refused(&add(&["--triggers", "push"]), 1, "1 webhooks at most");
}

async fn a_secret_comes_from_a_file_or_is_made_and_is_printed_once(kind: Kind) {
    let stage = stage(kind).await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "correct-horse").unwrap();
    let path = file.path().to_str().unwrap();
    let (exit, said) = stage.command(&add(&["--triggers", "push", "--secret-file", path]));
    assert_eq!((exit, said.as_str()), (Exit::Code(0), "1"));
    let stored = stage.place.lines("SELECT secret AS line FROM webhooks").await;
    assert_eq!(stored, ["correct-horse"]);
    for arguments in [&["webhooks"][..], &["webhooks", "--json"]] {
        let (_, text) = stage.command(arguments);
        assert!(!text.contains("correct-horse"), "{text}");
    }
    assert_eq!(stage.command(&["webhooks", "remove", "1"]).0, Exit::Code(0));
    let (exit, said) = stage.command(&add(&["--triggers", "push", "--generate-secret"]));
    let stored = stage.place.lines("SELECT secret AS line FROM webhooks").await;
    assert_eq!(exit, Exit::Code(0), "{said}");
    assert_eq!(said.lines().map(str::to_owned).collect::<Vec<_>>(), ["1".to_owned(), stored[0].clone()]);
    assert!(stored[0].starts_with("whsec_"));
    let both = add(&["--triggers", "push", "--generate-secret", "--secret-file", path]);
    assert_eq!(stage.command(&both).0, Exit::Code(78));
}

async fn without_an_instance_a_test_waits_and_that_is_said(kind: Kind) {
    let stage = stage(kind).await;
    assert_eq!(stage.command(&add(&["--triggers", "push"])).0, Exit::Code(0));
    let (exit, said) = stage.command(&["webhooks", "test", "1"]);
    assert!(exit == Exit::Code(1) && said.contains("no instance is up"), "{said}");
    let (exit, said) = stage.command(&["webhooks", "test", "1", "--no-wait"]);
    assert!(exit == Exit::Code(0) && said.contains("whd_") && said.contains("no instance is up"), "{said}");
    let waiting =
        stage.place.lines("SELECT id AS line FROM webhook_deliveries WHERE status = 'pending'").await;
    assert_eq!(waiting.len(), 2);
    let (exit, said) = stage.command(&["webhooks", "redeliver", &waiting[0], "--no-wait"]);
    assert!(exit == Exit::Code(0) && said.contains(&waiting[0]), "{said}");
    let (exit, said) = stage.command(&["webhooks", "redeliver", "whd_none"]);
    assert!(exit == Exit::Code(1) && said.contains("there is no delivery"), "{said}");
    assert_eq!(stage.command(&["webhooks", "test", "7"]).0, Exit::Code(1));
}

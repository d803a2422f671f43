//! The commands that look, print and end.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{
    place::{Kind, Place, on_both_databases},
    process::{Exit, Instance},
    stage::{PATIENCE, Stage},
};

on_both_databases!(migrate_applies_what_its_check_lists);

async fn migrate_applies_what_its_check_lists(kind: Kind) {
    let stage = Stage::bare(Place::fresh(kind).await).await;
    let (exit, pending) = stage.command(&["migrate", "--check"]);
    assert_eq!(exit, Exit::Code(1), "{pending}");
    let names = |text: &str, word: &str| -> BTreeSet<String> {
        text.lines().filter_map(|line| line.strip_prefix(word)).map(str::to_owned).collect()
    };
    assert!(names(&pending, "pending ").len() >= 2, "{pending}");

    let (exit, applied) = stage.command(&["migrate"]);
    assert_eq!((exit, names(&applied, "applied ")), (Exit::Code(0), names(&pending, "pending ")));
    for arguments in [&["migrate", "--check"][..], &["migrate"]] {
        assert_eq!(
            stage.command(arguments),
            (Exit::Code(0), "the database is up to date".to_owned()),
            "{arguments:?}"
        );
    }
    let (exit, text) = stage.command(&["leases"]);
    assert!(exit == Exit::Code(0) && text.contains("no instance has run"), "{text}");
}

#[test]
fn settings_are_printed_with_their_origin_and_without_secrets() {
    let secrets = ["hunter2", "s3cr3t-token", "sk_live_4242"];
    let url = format!("postgres://atcr:{}@db.example/atcr?application_name=x", secrets[0]);
    let environment = [
        ("ATCR__DATABASE__URL", url.as_str()),
        ("ATCR__ADMIN__TOKEN", secrets[1]),
        ("ATCR__BILLING__STRIPE_SECRET_KEY", secrets[2]),
        ("ATCR__INSTANCE__LABEL", "shown"),
        ("ATCR__REGISTRY__DID", "did:web:registry.example"),
        ("ATCR__REGISTRY__SIGNING_KEY", "/run/key"),
    ];
    // Stripe's key alone is refused: billing needs tiers, which only a file can have.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, crate::billing::TIERS.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Instance::spawn(&[&["--settings", path], arguments].concat(), &environment);
        assert_eq!(command.wait_exit(PATIENCE), Exit::Code(0));
        let text = command.lines().join("\n");
        let shown: Vec<_> = secrets.iter().filter(|secret| text.contains(*secret)).collect();
        assert!(shown.is_empty(), "{shown:?} in\n{text}");
        text
    };
    let table = run(&["settings"]);
    assert!(
        table.contains("postgres://atcr:***@") && table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );

    let listed: Vec<Value> = serde_json::from_str(&run(&["settings", "--json"])).unwrap();
    let of = |key: &str| listed.iter().find(|entry| entry["key"] == key).unwrap();
    assert_eq!(of("instance.label")["value"], "shown");
    assert_eq!(of("instance.label")["origin"], "ATCR__INSTANCE__LABEL");
    assert_eq!(of("leases.ttl")["origin"], "default");
    assert_eq!(of("admin.token")["origin"], "ATCR__ADMIN__TOKEN");
}

#[test]
fn help_teaches_commands_exit_codes_and_where_settings_come_from() {
    let mut help = Instance::spawn(&["--help"], &[]);
    assert_eq!(help.wait_exit(PATIENCE), Exit::Code(0));
    let text = help.lines().join("\n");
    let expected = [
        "run",
        "leases",
        "migrate",
        "settings",
        "status",
        "--settings <FILE>",
        "ATCR__SECTION__KEY",
        "Exit codes",
        "75",
        "78",
        "130",
        "Examples",
        "ATCR__DATABASE__URL=postgres://",
    ];
    let missing: Vec<_> = expected.iter().filter(|part| !text.contains(**part)).collect();
    assert!(missing.is_empty(), "{missing:?} not in:\n{text}");
    for command in ["run", "leases", "migrate", "settings", "status"] {
        let mut help = Instance::spawn(&[command, "--help"], &[]);
        assert_eq!(help.wait_exit(PATIENCE), Exit::Code(0), "{command}");
    }
}

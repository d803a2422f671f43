//! An error of a command says what to do next.

use crate::support::place::{Kind, Place, on_both_databases};
use crate::support::process::Exit;
use crate::support::stage::{Stage, until_ready};

on_both_databases!(
    what_is_refused_is_told_with_what_there_is,
    a_database_without_a_schema_is_told_with_what_makes_one,
    a_drain_names_the_leases_that_leave_and_says_if_nobody_is_left,
);

#[track_caller]
fn refused(stage: &Stage, arguments: &[&str], says: &[&str]) {
    let (exit, said) = stage.command(arguments);
    let missing: Vec<_> = says.iter().filter(|part| !said.contains(**part)).collect();
    assert!(
        exit == Exit::Code(1) && missing.is_empty(),
        "{arguments:?}: {exit:?}, {missing:?} not in: {said}"
    );
}

async fn what_is_refused_is_told_with_what_there_is(kind: Kind) {
    let stage = Stage::new(kind).await;
    refused(&stage, &["leases", "drain", "web1"], &["no instance is up", "`atcr-workers run`"]);
    refused(&stage, &["leases", "pause", "jetstream"], &["no such lease", "none yet"]);
    refused(&stage, &["backfill", "--all"], &["no instance is up", "`atcr-workers run`", "the wish stands"]);
    let web = ["web", "web"].map(|label| stage.start(label));
    web.iter().for_each(until_ready);
    refused(&stage, &["leases", "drain", "web"], &["means several: web (", "), web (", "first digits"]);
    refused(&stage, &["leases", "drain", "other"], &["no instance \"other\"", "there are: web ("]);
    refused(&stage, &["leases", "move", "sweep", "web"], &["web"]);
    refused(&stage, &["leases", "resume", "sweep"], &["no such lease", "there are: jetstream"]);
    refused(&stage, &["leases", "history", "sweep"], &["no such lease", "there are: jetstream"]);
    refused(&stage, &["backfill", "--all"], &["set backfill.enabled = true on one", "the wish stands"]);
    refused(&stage, &["webhooks", "enable", "7"], &["no webhook 7", "`atcr-workers webhooks`"]);
    refused(&stage, &["webhooks", "redeliver", "whd_x"], &["no delivery", "X-ATCR-Delivery"]);
    // What changes something prints no list.
    for arguments in [&["leases", "--json", "drain", "web"][..], &["leases", "drain", "web", "--json"]] {
        assert_eq!(stage.command(arguments).0, Exit::Code(78), "{arguments:?}");
    }
}

async fn a_database_without_a_schema_is_told_with_what_makes_one(kind: Kind) {
    let stage = Stage::bare(Place::fresh(kind).await).await;
    let looks = [
        &["leases"][..],
        &["status"],
        &["webhooks"],
        &["backfill", "--all"],
        &["leases", "pause", "jetstream"],
    ];
    if kind == Kind::Sqlite {
        let path = stage.place.url().strip_prefix("sqlite://").unwrap().to_owned();
        for arguments in looks {
            refused(&stage, arguments, &["there is no database at", &path, "ATCR__DATABASE__URL"]);
        }
        assert!(!std::path::Path::new(&path).exists(), "a look has made a file");
        std::fs::write(path, "").unwrap();
    }
    for arguments in looks {
        refused(&stage, arguments, &["lacks this version's schema", "`atcr-workers migrate`"]);
    }
}

async fn a_drain_names_the_leases_that_leave_and_says_if_nobody_is_left(kind: Kind) {
    let stage = Stage::new(kind).await;
    let alone = stage.start("web1");
    stage.worker(&[&alone]);
    let (exit, said) = stage.command(&["leases", "drain", "web1"]);
    assert_eq!(exit, Exit::Code(0), "{said}");
    assert!(said.contains("takes no leases any more") && said.contains("nobody else is up"), "{said}");
    refused(&stage, &["leases", "move", "jetstream", "web1"], &["is draining", "leases undrain"]);
}

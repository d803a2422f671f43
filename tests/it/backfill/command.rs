//! `atcr-workers backfill`: what an operator asks for, and what they are told.

use localnet::network::{Fault, On, Site};

use super::processes::{idle, stage};
use crate::support::eventually::eventually;
use crate::support::place::{Kind, on_both_databases};
use crate::support::process::Exit;
use crate::support::stage::PATIENCE;

on_both_databases!(
    a_repository_is_read_again_when_it_is_asked_for,
    a_repository_that_cannot_be_read_is_told_with_the_reason,
    every_repository_is_read_again_when_it_is_asked_for,
    without_an_instance_the_wish_stands_and_that_is_said,
);

async fn a_repository_is_read_again_when_it_is_asked_for(kind: Kind) {
    let stage = stage(kind).await.with("ATCR__BACKFILL__INTERVAL", "0s");
    let _instance = stage.start("one");
    let (user, tag) = (stage.seeded.users[0].clone(), "io.atcr.tag");
    stage.says_what_the_source_says().await;
    stage.net.put_unseen(
        &user,
        tag,
        "unseen",
        serde_json::json!({
            "$type": tag, "repository": "app", "tag": "unseen", "createdAt": "2026-09-01T12:00:00Z",
            "manifest": format!("at://{user}/io.atcr.manifest/{}", "ab".repeat(32)),
        }),
    );
    let (exit, said) = stage.command(&["backfill", "--did", &user]);
    assert_eq!(exit, Exit::Code(0), "{said}");
    assert!(said.contains(&format!("{user} read")), "{said}");
    let unseen = stage.place.lines("SELECT did AS line FROM tags WHERE rkey = 'unseen'").await;
    assert_eq!(unseen, [user]);
}

async fn a_repository_that_cannot_be_read_is_told_with_the_reason(kind: Kind) {
    let stage = stage(kind).await.with("ATCR__BACKFILL__INTERVAL", "0s");
    let _instance = stage.start("one");
    let [one, other] = [0, 1].map(|at| stage.seeded.users[at].clone());
    eventually("the first run is over", PATIENCE, async || {
        let ended = stage.place.lines("SELECT reason AS line FROM backfill_run WHERE ended_at > 0").await;
        if ended.is_empty() { Err(ended) } else { Ok(()) }
    })
    .await;
    stage.net.set_fault(On::site(Site::Pds(0)), Fault::Status(500));
    let (exit, said) = stage.command(&["backfill", "--did", &one, &other]);
    assert_eq!(exit, Exit::Code(1), "{said}");
    assert!(said.contains(&format!("{one} failed: ")) && said.contains("500"), "{said}");
    assert!(said.contains("it is tried again"), "{said}");
}

async fn every_repository_is_read_again_when_it_is_asked_for(kind: Kind) {
    let stage = stage(kind).await.with("ATCR__BACKFILL__INTERVAL", "0s");
    let _instance = stage.start("one");
    stage.says_what_the_source_says().await;
    stage.place.execute("DELETE FROM tags").await;
    let (exit, said) = stage.command(&["backfill", "--all"]);
    assert_eq!(exit, Exit::Code(0), "{said}");
    assert!(said.contains("repositories read"), "{said}");
    stage.says_what_the_source_says().await;
    assert!(stage.place.lines("SELECT did AS line FROM backfill_request").await.is_empty());
}

async fn without_an_instance_the_wish_stands_and_that_is_said(kind: Kind) {
    let stage = idle(kind).await;
    let user = stage.seeded.users[0].clone();
    let (exit, said) = stage.command(&["backfill", "--did", &user]);
    assert_eq!(exit, Exit::Code(1), "{said}");
    assert!(said.contains("no instance is up") && said.contains("the wish stands"), "{said}");
    let (exit, said) = stage.command(&["backfill", "--all", "--no-wait"]);
    assert_eq!(exit, Exit::Code(0), "{said}");
    assert!(said.contains("asked for") && said.contains("no instance is up"), "{said}");
    for nonsense in
        [&["backfill"][..], &["backfill", "--all", "--did", &user], &["backfill", "--did", "alice"]]
    {
        assert_eq!(stage.command(nonsense).0, Exit::Code(78));
    }
    let asked = async || stage.place.lines("SELECT did AS line FROM backfill_request ORDER BY did").await;
    assert_eq!(asked().await, ["*".to_owned(), user]);
    let _instance = stage.start("one");
    eventually("both wishes are fulfilled", PATIENCE, async || {
        let asked = asked().await;
        if asked.is_empty() { Ok(()) } else { Err(asked) }
    })
    .await;
}

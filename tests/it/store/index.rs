//! The index: rows follow their records, and cursors and accounts only go forward.

use atcr_workers::atproto::{Collection, Did, Micros, State};
use atcr_workers::store::{Tx, WriteError};

use super::fixture::Fixture;
use super::on_both;
use super::samples::*;

const USER: &str = "did:plc:user";
const HOLD: &str = "did:web:hold.example";

on_both! {
    a_newer_version_replaces_all_rows_of_an_older_one
    an_older_or_equal_revision_changes_nothing
    of_one_batch_the_newest_revision_counts
    a_record_that_became_unreadable_is_shown_no_more
    authors_get_a_row_whose_identity_is_due
    the_annotations_of_a_repository_are_those_of_its_latest_manifest_that_has_any
    counts_beyond_the_limit_of_an_author_are_dropped
    a_cursor_never_goes_back
    an_account_follows_its_newest_event
    every_text_is_stored_as_it_is
}

async fn count(fixture: &Fixture, table: &str) -> String {
    fixture.lines(&format!("SELECT CAST(COUNT(*) AS TEXT) AS line FROM {table}")).await.remove(0)
}

async fn a_newer_version_replaces_all_rows_of_an_older_one(fixture: Fixture) {
    let term = fixture.term().await;
    fixture.apply(&term, &[present(USER, "m", 1, manifest("app", Some(HOLD), 3))]).await;
    for (table, rows) in [("layers", "3"), ("manifest_references", "3"), ("manifest_annotations", "3")] {
        assert_eq!(count(&fixture, table).await, rows, "{table}");
    }
    let applied = fixture.apply(&term, &[present(USER, "m", 2, manifest("app", Some(HOLD), 1))]).await;
    assert_eq!(applied.changed[&Collection::Manifest], 1);
    for table in ["manifests", "layers", "manifest_references", "manifest_annotations"] {
        assert_eq!(count(&fixture, table).await, "1", "{table}");
    }
    fixture.apply(&term, &[change(USER, "m", 3, Collection::Manifest, State::Absent)]).await;
    for table in ["manifests", "layers", "manifest_references", "manifest_annotations"] {
        assert_eq!(count(&fixture, table).await, "0", "{table}");
    }
    assert_eq!(
        fixture.lines("SELECT state || rev AS line FROM records").await,
        [format!("absent{}", rev(3))]
    );
}

async fn an_older_or_equal_revision_changes_nothing(fixture: Fixture) {
    let term = fixture.term().await;
    fixture.apply(&term, &[present(USER, "t", 5, tag("app", "latest", 5))]).await;
    for n in [5, 4] {
        let applied = fixture.apply(&term, &[present(USER, "t", n, tag("app", "old", 4))]).await;
        assert_eq!((applied.changed.len(), applied.unchanged), (0, 1));
    }
    fixture.apply(&term, &[change(USER, "t", 4, Collection::Tag, State::Absent)]).await;
    assert_eq!(fixture.lines("SELECT tag AS line FROM tags").await, ["latest"]);
}

async fn of_one_batch_the_newest_revision_counts(fixture: Fixture) {
    let term = fixture.term().await;
    let batch = [
        present(USER, "t", 2, tag("app", "two", 2)),
        present(USER, "t", 3, tag("app", "three", 3)),
        present(USER, "t", 3, tag("app", "three again", 3)),
        present(USER, "t", 1, tag("app", "one", 1)),
    ];
    let applied = fixture.apply(&term, &batch).await;
    assert_eq!((applied.changed[&Collection::Tag], applied.unchanged), (1, 3));
    assert_eq!(fixture.lines("SELECT tag AS line FROM tags").await, ["three"]);
}

async fn a_record_that_became_unreadable_is_shown_no_more(fixture: Fixture) {
    let term = fixture.term().await;
    fixture.apply(&term, &[present(USER, "t", 1, tag("app", "latest", 1))]).await;
    fixture.apply(&term, &[change(USER, "t", 2, Collection::Tag, State::Unreadable)]).await;
    assert_eq!(count(&fixture, "tags").await, "0");
    fixture.apply(&term, &[present(USER, "t", 1, tag("app", "latest", 1))]).await;
    assert_eq!(count(&fixture, "tags").await, "0");
}

async fn authors_get_a_row_whose_identity_is_due(fixture: Fixture) {
    let term = fixture.term().await;
    let batch = [present(USER, "t", 1, tag("app", "a", 1)), present(HOLD, "self", 1, captain(USER))];
    let applied = fixture.apply(&term, &batch).await;
    assert_eq!(applied.new_users, [did(USER), did(HOLD)]);
    assert!(fixture.apply(&term, &batch).await.new_users.is_empty());
    let mut known = fixture.database.known_dids().await.unwrap();
    known.sort();
    assert_eq!(known, [did(USER), did(HOLD)]);
    let due: Vec<Did> =
        fixture.database.due_identities(10).await.unwrap().into_iter().map(|due| due.did).collect();
    assert_eq!(due.len(), 2, "{due:?}");
    let handles = fixture.lines("SELECT handle || COALESCE(pds, '-') AS line FROM users").await;
    assert_eq!(handles, ["handle.invalid-", "handle.invalid-"]);
}

async fn the_annotations_of_a_repository_are_those_of_its_latest_manifest_that_has_any(fixture: Fixture) {
    let term = fixture.term().await;
    let batch = [
        present(USER, "a", 1, manifest("app", None, 2)),
        present(USER, "b", 2, manifest("app", None, 1)),
        present(USER, "c", 3, manifest("other", None, 3)),
        present(USER, "d", 4, manifest("app", None, 0)),
    ];
    fixture.apply(&term, &batch).await;
    let annotations =
        "SELECT repository || ' ' || key AS line FROM repository_annotations ORDER BY repository, key";
    assert_eq!(
        fixture.lines(annotations).await,
        ["app key0", "app key1", "other key0", "other key1", "other key2"]
    );
    fixture.apply(&term, &[change(USER, "a", 5, Collection::Manifest, State::Absent)]).await;
    assert_eq!(fixture.lines(annotations).await[0..2], ["app key0", "other key0"]);
}

async fn counts_beyond_the_limit_of_an_author_are_dropped(fixture: Fixture) {
    let term = fixture.term().await;
    let counts: Vec<_> =
        (0..10_002).map(|i| present(HOLD, &format!("s{i:05}"), 1, stats(USER, "app", i, 0))).collect();
    let (mut changed, mut over_limit) = (0, 0);
    for batch in counts.chunks(2_500) {
        let applied = fixture.apply(&term, batch).await;
        changed += applied.changed.get(&Collection::Stats).copied().unwrap_or(0);
        over_limit += applied.over_limit;
    }
    assert_eq!((changed, over_limit), (10_000, 2));
    // What is known may change; another collection and another author have limits of their own.
    let batch = [
        present(HOLD, "s00000", 2, stats(USER, "app", 1, 0)),
        present(HOLD, "scan", 2, scan(USER, "app", 1)),
        present(HOLD, "self", 2, captain(USER)),
        present(USER, "s00000", 2, stats(USER, "app", 1, 0)),
    ];
    let applied = fixture.apply(&term, &batch).await;
    assert_eq!((applied.changed.values().sum::<usize>(), applied.over_limit), (4, 0));
}

async fn a_cursor_never_goes_back(fixture: Fixture) {
    let term = fixture.term().await;
    assert_eq!(cursor(&fixture.database, "v1", "a").await, None);
    for (host, time_us) in [("a", 5), ("a", 3), ("b", 4)] {
        fixture
            .database
            .fenced(&term, async move |tx: &mut Tx| tx.save_cursor("v1", host, time_us).await)
            .await
            .unwrap();
    }
    assert_eq!(cursor(&fixture.database, "v1", "a").await, Some(5));
    assert_eq!(cursor(&fixture.database, "v1", "b").await, Some(4));
    assert_eq!(cursor(&fixture.database, "v2", "a").await, None);
}

async fn an_account_follows_its_newest_event(fixture: Fixture) {
    let term = fixture.term().await;
    fixture.apply(&term, &[present(USER, "t", 1, tag("app", "a", 1))]).await;
    let work = async |tx: &mut Tx| {
        let user = did(USER);
        let taken = tx.set_account(&user, false, Some("takendown"), Micros(20)).await?;
        let older = tx.set_account(&user, true, None, Micros(10)).await?;
        let stranger = tx.set_account(&did("did:plc:stranger"), false, None, Micros(20)).await?;
        Ok::<_, WriteError>((taken, older, stranger))
    };
    assert_eq!(fixture.database.fenced(&term, work).await.unwrap(), (true, false, false));
    let account = "SELECT did || COALESCE(status, '-') AS line FROM users WHERE active = FALSE";
    assert_eq!(fixture.lines(account).await, [format!("{USER}takendown")]);
    // What it writes is kept; what is hidden is a question for readers.
    fixture.apply(&term, &[present(USER, "t", 2, tag("app", "b", 1))]).await;
    assert_eq!(fixture.lines("SELECT tag AS line FROM tags").await, ["b"]);
}

/// Values are bound, never pasted: no text can be taken for SQL, for a place of a value, or for a word of a dialect.
async fn every_text_is_stored_as_it_is(fixture: Fixture) {
    let term = fixture.term().await;
    let text = "?'; DROP TABLE users; -- {rows} {now_us} $1 \u{1F980} \\";
    fixture.apply(&term, &[present(USER, "t", 1, tag(text, "{bytes}", 1))]).await;
    assert_eq!(
        fixture.lines("SELECT repository || tag AS line FROM tags").await,
        [format!("{text}{{bytes}}")]
    );
}

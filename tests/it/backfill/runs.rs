//! Runs: what they find, what fails in them, and what is asked for beside them.

use std::time::Duration;

use localnet::network::{Fault, On, Site};
use localnet::records;

use super::stage::{SOON, Stage};
use crate::store::fixture::Fixture;
use crate::store::on_both;
use crate::support::eventually::eventually;

on_both! {
    a_run_brings_what_no_stream_has_brought
    a_list_full_of_the_gone_comes_to_its_end
    what_failed_is_told_and_tried_again
    a_relay_that_is_down_holds_up_nothing_and_is_asked_again
    records_that_the_stream_should_have_brought_are_told
    a_run_that_is_cut_goes_on_from_its_place
    a_run_of_yesterday_is_given_up
    an_unchanged_repository_costs_one_request_and_no_record
    a_move_that_the_old_pds_does_not_show_is_noticed_by_its_event_or_within_a_day
    a_hidden_account_is_resolved_before_it_is_shown_again
    a_wish_about_one_repository_is_fulfilled_before_the_rest
    a_wish_about_every_repository_begins_a_run_and_is_taken_out_at_its_end
    a_database_that_refuses_one_repository_does_not_hold_up_the_others
}

// S11: singi-labs/sifa-workspace#394
// S27: bluesky-social/pds#359, #374
async fn a_run_brings_what_no_stream_has_brought(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let listed = stage.account("listed", 0);
    stage.run_once().await;
    // Throttled by the relay: in no list and in no stream, but known here.
    let known = stage.account("known", 0);
    stage.net.clear_relay(0);
    stage.fixture.execute(&format!("INSERT INTO users (did, first_seen) VALUES ('{known}', 1)")).await;
    // A hold that only a manifest names, and one of the settings.
    let [named, of_settings] = ["named", "settings"].map(|name| stage.net.add_web_account(name));
    for hold in [&named, &of_settings] {
        stage.net.put_unseen(
            hold,
            records::CAPTAIN,
            "self",
            records::captain(&listed, localnet::ids::now_us()),
        );
    }
    stage
        .fixture
        .execute(&format!(
            "INSERT INTO manifests (did, rkey, repository, digest, media_type, schema_version, hold_did, created_at)
             VALUES ('{known}', 'm', 'app', 'd', 't', 2, '{named}', 1)"
        ))
        .await;
    let mut worker = stage.worker();
    worker.seeds = vec![of_settings.parse().unwrap()];
    stage.run_once_with(worker).await;
    assert_eq!(stage.tags(&known).await, ["first"]);
    assert_eq!(stage.tags(&listed).await, ["first"], "known, and listed by nobody any more");
    let mut holds = [named, of_settings];
    holds.sort();
    let states = stage
        .lines("SELECT did || ' ' || state || COALESCE(last_error, '') AS line FROM backfill_repo")
        .await;
    assert_eq!(stage.lines("SELECT hold_did AS line FROM captains").await, holds, "{states:?}");
    // Nothing goes out to anybody's webhook because of it.
    assert_eq!(
        stage.lines("SELECT last_seen || '' AS line FROM users WHERE last_seen IS NOT NULL").await,
        [""; 0]
    );
}

// S22: indigo#1276
async fn a_list_full_of_the_gone_comes_to_its_end(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let good: Vec<String> = (0..14).map(|i| stage.account(&format!("good{i}"), 0)).collect();
    let gone: Vec<String> = (0..3).map(|i| stage.account(&format!("gone{i}"), 0)).collect();
    let dead: Vec<String> = (0..3).map(|i| stage.account(&format!("dead{i}"), 1)).collect();
    gone.iter().for_each(|did| stage.net.set_account(did, false, Some("deleted")));
    stage.net.set_fault(On::site(Site::Pds(1)), Fault::Status(500));
    let working = stage.start(stage.worker());
    stage.until_ended(1).await;
    for (dids, state) in [(&good, "read"), (&gone, "gone"), (&dead, "failed")] {
        for did in dids {
            assert_eq!(stage.state(did).await, state);
        }
    }
    // Of the gone nothing was here, so nothing of them is hidden or deleted.
    assert_eq!(stage.lines("SELECT did AS line FROM users").await.len(), good.len());
    // The dead are tried less and less often, and in the end by runs alone.
    let asked = stage.net.requests(&On::site(Site::Pds(1)));
    for _ in 0..12 {
        stage.let_it_be_due().await;
        stage.until("SELECT did AS line FROM backfill_repo WHERE next_at = 0", &[]).await;
    }
    working.stop().await;
    let waits = "SELECT did AS line FROM backfill_repo WHERE next_at IS NOT NULL";
    assert_eq!(stage.lines(waits).await, [""; 0], "tried without an end");
    assert!(stage.net.requests(&On::site(Site::Pds(1))) > asked);
}

// S24: indigo#1277
async fn what_failed_is_told_and_tried_again(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("sick", 0);
    stage.net.set_fault(On::site(Site::Pds(0)), Fault::Status(500));
    let working = stage.start(stage.worker());
    stage.until_ended(1).await;
    let failed = "SELECT state || ' ' || failures AS line FROM backfill_repo WHERE last_error LIKE '%500%'
                  AND next_at > 60000000";
    assert_eq!(stage.lines(failed).await, ["failed 1"]);
    stage.net.clear_faults();
    stage.let_it_be_due().await;
    stage
        .until(
            "SELECT state || ' ' || failures AS line FROM backfill_repo WHERE last_error IS NULL",
            &["read 0"],
        )
        .await;
    assert_eq!(stage.tags(&did).await, ["first"]);
    working.stop().await;
}

async fn a_relay_that_is_down_holds_up_nothing_and_is_asked_again(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (listed, known) = (stage.account("listed", 0), stage.account("known", 0));
    stage.fixture.execute(&format!("INSERT INTO users (did, first_seen) VALUES ('{known}', 1)")).await;
    stage.net.set_fault(On::site(Site::Relay(0)), Fault::Empty(500));
    let working = stage.start(stage.worker());
    stage.until_ended(1).await;
    assert_eq!((stage.tags(&known).await.len(), stage.tags(&listed).await.len()), (1, 0));
    assert!(stage.net.requests(&On::site(Site::Relay(0))) <= 3, "asked for each of its lists");
    stage.net.clear_faults();
    stage.fixture.execute("UPDATE backfill_list SET next_at = 0 WHERE next_at IS NOT NULL").await;
    stage.until("SELECT DISTINCT state AS line FROM backfill_list", &["read"]).await;
    stage.until(&format!("SELECT state AS line FROM backfill_repo WHERE did = '{listed}'"), &["read"]).await;
    assert_eq!(stage.tags(&listed).await, ["first"]);
    working.stop().await;
}

// S9: zzstoatzz/plyr.fm#1739
async fn records_that_the_stream_should_have_brought_are_told(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("quiet", 0);
    let worker = || {
        let mut worker = stage.worker();
        worker.missed_after = Duration::ZERO;
        worker
    };
    let missed = "SELECT changed || ' ' || missed AS line FROM backfill_run ORDER BY id";
    stage.run_once_with(worker()).await;
    // Accounts' events alone keep the stream's position moving.
    stage.tag_unseen(&did, "unseen");
    let passed = localnet::ids::now_us();
    let insert = "INSERT INTO stream_cursor (wire, host, time_us, saved_at) VALUES ('v1', 'here'";
    stage.fixture.execute(&format!("{insert}, {passed}, 1)")).await;
    stage.run_once_with(worker()).await;
    assert_eq!(stage.tags(&did).await, ["first", "unseen"]);
    // What was older than the index, no stream has brought. What comes while the stream is behind may come by it.
    assert_eq!(stage.fixture.lines(missed).await, ["1 0", "1 1"]);
    stage.tag_unseen(&did, "later");
    stage.run_once_with(stage.worker()).await;
    assert_eq!(stage.fixture.lines(missed).await, ["1 0", "1 1", "1 0"]);
}

async fn a_run_that_is_cut_goes_on_from_its_place(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let dids: Vec<String> = (0..12).map(|i| stage.account(&format!("one{i}"), 0)).collect();
    stage.net.set_fault(On::site(Site::Pds(0)).path("/xrpc/com.atproto.repo.listRecords"), Fault::Late(40));
    let mut worker = stage.worker();
    worker.concurrency = 1;
    let working = stage.start(worker);
    let read = async || stage.lines("SELECT did AS line FROM backfill_repo WHERE state = 'read'").await;
    let first = eventually("some are read", SOON, async || match read().await {
        some if some.len() >= 3 => Ok(some),
        some => Err(some),
    })
    .await;
    working.stop().await;
    let cut = read().await;
    assert!(cut.len() < dids.len(), "cut too late");
    assert!(cut.len() >= first.len());
    stage.net.clear_faults();
    let before = stage.net.requests(&On::site(Site::Pds(0)).path("/xrpc/com.atproto.sync.getLatestCommit"));
    let relay = stage.net.requests(&On::site(Site::Relay(0)));
    stage.run_once().await;
    assert_eq!(read().await.len(), dids.len());
    // One run, whose lists and repositories were not read twice.
    assert_eq!(stage.lines("SELECT reason AS line FROM backfill_run").await, ["start"]);
    let after = stage.net.requests(&On::site(Site::Pds(0)).path("/xrpc/com.atproto.sync.getLatestCommit"));
    // But for the one that was under way.
    let rest = (dids.len() - cut.len()) as u64;
    assert!((rest.saturating_sub(1)..=rest + 1).contains(&(after - before)), "{} of {rest}", after - before);
    assert!(stage.net.requests(&On::site(Site::Relay(0))) <= relay + 1);
}

async fn a_run_of_yesterday_is_given_up(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("one", 0);
    stage
        .fixture
        .execute("INSERT INTO backfill_run (id, reason, forced, started_at) VALUES (7, 'start', FALSE, 1)")
        .await;
    stage.run_once().await;
    let runs = "SELECT id || CASE WHEN given_up THEN ' given up' ELSE ' ended' END AS line FROM backfill_run";
    assert_eq!(stage.lines(runs).await, ["7 given up", "8 ended"]);
    assert_eq!(stage.tags(&did).await, ["first"]);
}

async fn an_unchanged_repository_costs_one_request_and_no_record(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (same, web) = (stage.account("same", 0), stage.net.add_web_account("web"));
    stage.tag(&web, "first");
    stage.net.put_unseen(&web, records::CAPTAIN, "self", records::captain(&same, localnet::ids::now_us()));
    let worker = || {
        let mut worker = stage.worker();
        worker.seeds = vec![web.parse().unwrap()];
        worker
    };
    stage.run_once_with(worker()).await;
    // To anybody but relays: PDSes, the directory, the hosts of handles and of did:web.
    let asked = || stage.net.visits().iter().filter(|visit| visit.site != Site::Relay(0)).count();
    let before = asked();
    let records = "SELECT did || rkey || ' ' || rev || ' ' || changed_at AS line FROM records";
    let rows = stage.lines(records).await;
    assert_eq!(rows.len(), 3);
    stage.run_once_with(worker()).await;
    assert_eq!(asked() - before, 2, "one for each of the two");
    assert_eq!(stage.lines(records).await, rows);
    assert_eq!(stage.lines("SELECT requests || '' AS line FROM backfill_run WHERE id = 2").await, ["2"]);
    // After a day it is listed all the same, and nothing is written: it is the same still.
    stage.fixture.execute("UPDATE backfill_repo SET listed_at = 1").await;
    stage.run_once_with(worker()).await;
    assert!(asked() - before > 2 * 9);
    assert_eq!(stage.lines(records).await, rows);
}

/// Its old PDS still serves it as it was: one that was not told, or does not care.
async fn a_move_that_the_old_pds_does_not_show_is_noticed_by_its_event_or_within_a_day(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("mover", 0);
    stage.run_once().await;
    let (pds, old, new) =
        ("SELECT pds AS line FROM users", "http://pds0.test".to_owned(), stage.net.pds_url_of(0));
    assert_eq!(stage.lines(pds).await, [old.as_str()]);
    stage.net.set_endpoint(&did, Some(&new));
    stage.run_once().await;
    assert_eq!(stage.lines(pds).await, [old.as_str()], "nobody was told, and nobody asked");
    for noticed in ["UPDATE users SET identity_due_at = 1", "UPDATE backfill_repo SET listed_at = 1"] {
        stage.fixture.execute(&format!("UPDATE users SET pds = '{old}'")).await;
        stage.fixture.execute(noticed).await;
        stage.run_once().await;
        assert_eq!(stage.lines(pds).await, [new.as_str()], "{noticed}");
    }
}

/// What hides an account is not taken back by a PDS that it may have left.
async fn a_hidden_account_is_resolved_before_it_is_shown_again(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("hidden", 0);
    stage.run_once().await;
    stage.fixture.execute("UPDATE users SET active = FALSE, status = 'suspended'").await;
    let plc = || stage.net.requests(&On::site(Site::Plc));
    let before = plc();
    stage.run_once().await;
    assert_eq!((stage.shown(&did).await, plc() - before), (vec!["shown".to_owned()], 1));
}

async fn a_wish_about_one_repository_is_fulfilled_before_the_rest(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let dids: Vec<String> = (0..40).map(|i| stage.account(&format!("one{i}"), 0)).collect();
    let wanted = stage.account("wanted", 1);
    stage.net.set_fault(On::site(Site::Pds(0)).path("/xrpc/com.atproto.repo.listRecords"), Fault::Late(100));
    let working = stage.start(stage.worker());
    let read = "SELECT did AS line FROM backfill_repo WHERE state = 'read'";
    eventually("the run is at work", SOON, async || {
        let read = stage.lines(read).await;
        if read.is_empty() { Err(read) } else { Ok(()) }
    })
    .await;
    stage.ask(Some(&wanted), "operator").await;
    stage.until("SELECT did AS line FROM backfill_request", &[]).await;
    assert_eq!(stage.tags(&wanted).await, ["first"]);
    assert!(stage.lines(read).await.len() < dids.len(), "the wish waited for all the others");
    working.stop().await;
}

async fn a_wish_about_every_repository_begins_a_run_and_is_taken_out_at_its_end(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("one", 0);
    let working = stage.start(stage.worker());
    stage.until_ended(1).await;
    // Rows that somebody has broken by hand are written anew, though the repository is unchanged.
    stage.fixture.execute("DELETE FROM tags").await;
    stage.ask(None, "operator").await;
    stage.until("SELECT did AS line FROM backfill_request", &[]).await;
    assert_eq!(stage.lines("SELECT reason AS line FROM backfill_run").await, ["operator", "start"]);
    assert_eq!(stage.tags(&did).await, ["first"]);
    working.stop().await;
}

async fn a_database_that_refuses_one_repository_does_not_hold_up_the_others(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (bad, good) = (stage.account("bad", 0), stage.account("good", 0));
    let refuse = match stage.fixture.database.backend() {
        atcr_workers::store::Backend::Sqlite => format!(
            "CREATE TRIGGER refuse BEFORE INSERT ON tags WHEN NEW.did = '{bad}' BEGIN SELECT RAISE(ABORT, 'refused'); END"
        ),
        atcr_workers::store::Backend::Postgres => {
            format!("ALTER TABLE tags ADD CONSTRAINT refused CHECK (did <> '{bad}')")
        }
    };
    stage.fixture.execute(&refuse).await;
    stage.run_once().await;
    assert_eq!((stage.state(&bad).await, stage.state(&good).await), ("failed".into(), "read".into()));
    assert_eq!(stage.tags(&good).await, ["first"]);
}

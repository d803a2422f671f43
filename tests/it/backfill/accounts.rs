//! Accounts that go, hide, come back and move.

use atcr_workers::atproto::{Did, Micros};
use atcr_workers::store::Tx;
use localnet::network::{Fault, On, Site};

use super::stage::Stage;
use crate::store::fixture::Fixture;
use crate::store::on_both;

on_both! {
    an_account_is_deleted_only_when_its_pds_has_said_so_twice_an_hour_apart
    a_deletion_that_is_taken_back_deletes_nothing
    a_hidden_account_is_kept_and_shown_again_with_what_it_holds_by_then
    an_account_that_moved_is_read_at_its_new_place
    trouble_at_a_pds_deletes_nobody
    a_handle_that_moves_is_taken_from_whoever_had_it
    what_the_stream_said_later_stays
}

const HOUR_US: i64 = 3_600_000_000;

impl Stage {
    /// The first time that it was said to be gone lies so much further back.
    async fn move_gone_back(&self, by_us: i64) {
        self.fixture
            .execute(&format!("UPDATE backfill_repo SET gone_at = gone_at - {by_us}, next_at = 0"))
            .await;
    }

    /// Waits until a worker whose run is over has worked off what was made due.
    async fn worked_off(&self) {
        self.until("SELECT did AS line FROM backfill_repo WHERE next_at = 0", &[]).await;
    }
}

// S21: happyview#88, shinolabs/PinkSea#45
async fn an_account_is_deleted_only_when_its_pds_has_said_so_twice_an_hour_apart(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (gone, stays) = (stage.account("gone", 0), stage.account("stays", 0));
    stage.run_once().await;
    assert_eq!(
        (stage.tags(&gone).await, stage.shown(&gone).await),
        (vec!["first".into()], vec!["shown".into()])
    );

    stage.net.set_account(&gone, false, Some("deleted"));
    let working = stage.start(stage.worker());
    stage.until_ended(2).await;
    assert_eq!(stage.shown(&gone).await, ["deleted"], "hidden at once");
    assert_eq!(stage.tags(&gone).await, ["first"], "and kept");
    // Fifty-nine minutes later it is not yet for long enough.
    stage.move_gone_back(HOUR_US - HOUR_US / 60).await;
    stage.worked_off().await;
    assert_eq!((stage.shown(&gone).await, stage.state(&gone).await), (vec!["deleted".into()], "gone".into()));
    stage.move_gone_back(HOUR_US / 60).await;
    stage.worked_off().await;
    working.stop().await;
    for table in ["users", "records", "tags", "backfill_repo"] {
        let left = stage.lines(&format!("SELECT did AS line FROM {table}")).await;
        assert_eq!(left, [stays.as_str()], "{table}");
    }
}

async fn a_deletion_that_is_taken_back_deletes_nothing(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("back", 0);
    stage.run_once().await;
    stage.net.set_account(&did, false, Some("deleted"));
    stage.run_once().await;
    stage.net.set_account(&did, true, None);
    stage.move_gone_back(2 * HOUR_US).await;
    stage.run_once().await;
    assert_eq!(
        (stage.shown(&did).await, stage.tags(&did).await),
        (vec!["shown".into()], vec!["first".into()])
    );
    // The next deletion begins anew.
    stage.net.set_account(&did, false, Some("deleted"));
    stage.run_once().await;
    assert_eq!(
        (stage.shown(&did).await, stage.tags(&did).await),
        (vec!["deleted".into()], vec!["first".into()])
    );
}

// S21: happyview#88, shinolabs/PinkSea#45
async fn a_hidden_account_is_kept_and_shown_again_with_what_it_holds_by_then(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("away", 0);
    stage.run_once().await;
    for status in ["deactivated", "takendown", "suspended"] {
        stage.net.set_account(&did, false, Some(status));
        stage.run_once().await;
        assert_eq!(
            (stage.shown(&did).await, stage.tags(&did).await),
            (vec![status.into()], vec!["first".into()])
        );
        // Its content may be purged without a new revision, so the one that is known stands for nothing any more.
        assert_eq!(
            stage.lines("SELECT did AS line FROM backfill_repo WHERE rev IS NULL").await,
            [did.as_str()]
        );
    }
    stage.net.delete_unseen(&did, "io.atcr.tag", "first");
    stage.tag_unseen(&did, "second");
    stage.net.set_account(&did, true, None);
    stage.run_once().await;
    assert_eq!(
        (stage.shown(&did).await, stage.tags(&did).await),
        (vec!["shown".into()], vec!["second".into()])
    );
}

// S25: indigo#1407
async fn an_account_that_moved_is_read_at_its_new_place(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("mover", 0);
    stage.run_once().await;
    let pds = async || stage.lines("SELECT pds AS line FROM users").await;
    assert_eq!(pds().await, ["http://pds0.test"]);
    stage.net.move_account(&did, 1);
    stage.tag_unseen(&did, "there");
    stage.run_once().await;
    assert_eq!(
        (pds().await, stage.tags(&did).await),
        (vec!["http://pds1.test".into()], vec!["first".into(), "there".into()])
    );
}

// S30: indigo#621
async fn trouble_at_a_pds_deletes_nobody(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("alive", 0);
    stage.run_once().await;
    for fault in [Fault::Empty(500), Fault::Html(404), Fault::Status(400), Fault::Redirect(1)] {
        stage.net.clear_faults();
        stage.net.set_fault(On::site(Site::Pds(0)), fault);
        for _ in 0..2 {
            stage.run_once().await;
            stage.move_gone_back(2 * HOUR_US).await;
        }
        assert_eq!(stage.state(&did).await, "failed", "{fault:?}");
        assert_eq!(
            (stage.shown(&did).await, stage.tags(&did).await),
            (vec!["shown".into()], vec!["first".into()])
        );
        // Its host has to be asked again for the next fault.
        stage.fixture.execute("UPDATE backfill_repo SET failures = 0").await;
    }
}

async fn a_handle_that_moves_is_taken_from_whoever_had_it(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let (one, two) = (stage.account("one", 0), stage.account("two", 0));
    stage.run_once().await;
    let handles = async || stage.lines("SELECT handle AS line FROM users").await;
    assert_eq!(handles().await, ["one.test", "two.test"]);
    stage.net.change_handle(&one, "elsewhere.test");
    stage.net.set_claim(&one, None);
    stage.net.change_handle(&two, "one.test");
    // What the stream does when it brings such an event.
    stage.fixture.execute("UPDATE users SET identity_due_at = 1").await;
    stage.run_once().await;
    let query = format!("SELECT handle AS line FROM users WHERE did = '{two}'");
    assert_eq!(stage.lines(&query).await, ["one.test"]);
    assert_eq!(handles().await.len(), 2);
    let due =
        "SELECT did AS line FROM users WHERE identity_due_at IS NOT NULL AND handle <> 'handle.invalid'";
    assert_eq!(stage.lines(due).await, Vec::<String>::new(), "asked, and still due");
}

async fn what_the_stream_said_later_stays(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let did = stage.account("late", 0);
    stage.run_once().await;
    let (who, soon) = (Did::parse(&did).unwrap(), Micros(Micros::now().0 + HOUR_US));
    let work = async move |tx: &mut Tx| tx.set_account(&who, false, Some("suspended"), soon).await;
    assert!(stage.fixture.database.fenced(&stage.term, work).await.unwrap());
    stage.run_once().await;
    assert_eq!(stage.shown(&did).await, ["suspended"]);
}

//! Repositories that share a transaction: that they do, that a bad one costs the others nothing, and that whatever ends the
//! work in between leaves each of them written whole or not at all.

use std::any::Any;

use atcr_workers::store::Backend;
use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use localnet::network::{Fault, On, Site};

use super::stage::{SOON, Stage};
use crate::store::fixture::Fixture;
use crate::store::on_both;
use crate::support::eventually::eventually;
use crate::support::working::Working;

on_both! {
    what_is_read_while_the_database_is_busy_shares_transactions
    a_bad_repository_costs_those_that_share_its_transaction_nothing
    what_was_not_committed_when_the_work_was_stopped_is_read_again
    of_what_the_fence_refuses_nothing_is_written_and_everything_is_still_due
    a_repository_that_lacks_more_than_a_transaction_may_delete_is_read_only_at_the_end
}

const REPOSITORIES: usize = 30;
/// Nine collections, and once more after the page that has the tag.
const PAGES: usize = 10;
const LIST: &str = "/xrpc/com.atproto.repo.listRecords";
const READ: &str = "SELECT did AS line FROM backfill_repo WHERE state = 'read'";

impl Stage {
    fn accounts(&self) -> Vec<String> {
        (0..REPOSITORIES).map(|i| self.account(&format!("one{i}"), 0)).collect()
    }

    /// A worker that has read every repository, and a database that was kept busy since it read the first.
    async fn read_and_not_written(&self) -> (Working, Box<dyn Any + Send>) {
        let on = On::site(Site::Pds(0)).path(LIST);
        self.net.set_fault(on.clone(), Fault::Late(50));
        let working = self.start(self.worker());
        let asked = async |least: usize| {
            eventually("they are read", SOON, async || match self.net.requests(&on) {
                asked if asked >= least as u64 => Ok(()),
                asked => Err(asked),
            })
            .await;
        };
        asked(1).await;
        let busy = self.fixture.block().await;
        self.net.clear_faults();
        asked(REPOSITORIES * PAGES).await;
        (working, busy)
    }

    /// Has the database count the transactions that conclude a repository: each adds to the run once.
    async fn count_transactions(&self) {
        let count = match self.fixture.database.backend() {
            Backend::Sqlite => {
                "CREATE TRIGGER counting AFTER UPDATE OF requests ON backfill_run BEGIN INSERT INTO counted VALUES ('1'); END"
            }
            Backend::Postgres => {
                "CREATE FUNCTION count_it() RETURNS TRIGGER LANGUAGE plpgsql AS
                     'BEGIN INSERT INTO counted VALUES (1); RETURN NULL; END';
                 CREATE TRIGGER counting AFTER UPDATE OF requests ON backfill_run
                     FOR EACH ROW EXECUTE FUNCTION count_it()"
            }
        };
        self.fixture.execute("CREATE TABLE counted (line TEXT)").await;
        self.fixture.execute(count).await;
    }

    /// Makes the database refuse the tags of this account.
    async fn refuse(&self, did: &str) {
        let refuse = match self.fixture.database.backend() {
            Backend::Sqlite => format!(
                "CREATE TRIGGER refuse BEFORE INSERT ON tags WHEN NEW.did = '{did}' BEGIN SELECT RAISE(ABORT, 'refused'); END"
            ),
            Backend::Postgres => format!("ALTER TABLE tags ADD CONSTRAINT refused CHECK (did <> '{did}')"),
        };
        self.fixture.execute(&refuse).await;
    }

    async fn transactions(&self) -> usize {
        self.lines("SELECT line FROM counted").await.len()
    }
}

async fn what_is_read_while_the_database_is_busy_shares_transactions(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let mut dids = stage.accounts();
    stage.count_transactions().await;
    let (working, busy) = stage.read_and_not_written().await;
    drop(busy);
    stage.until_ended(1).await;
    working.stop().await;
    dids.sort();
    assert_eq!(stage.lines(READ).await, dids);
    assert_eq!(stage.lines("SELECT did AS line FROM tags").await, dids);
    // The first for itself or with few, the others with all that had come by then.
    let transactions = stage.transactions().await;
    assert!((1..=REPOSITORIES / 3).contains(&transactions), "{transactions} transactions");
    let totals = "SELECT records || ' ' || changed || ' ' || requests AS line FROM backfill_run";
    assert_eq!(
        stage.lines(totals).await,
        [format!("{REPOSITORIES} {REPOSITORIES} {}", REPOSITORIES * (PAGES + 1))]
    );
}

async fn a_bad_repository_costs_those_that_share_its_transaction_nothing(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let mut good = stage.accounts();
    let bad = good.remove(REPOSITORIES / 2);
    stage.refuse(&bad).await;
    let (working, busy) = stage.read_and_not_written().await;
    drop(busy);
    stage.until_ended(1).await;
    working.stop().await;
    good.sort();
    assert_eq!(stage.lines(READ).await, good);
    assert_eq!(stage.lines("SELECT did AS line FROM tags").await, good);
    let failed = "SELECT did AS line FROM backfill_repo WHERE failures = 1 AND last_error LIKE '%refused%'";
    assert_eq!((stage.lines(failed).await, stage.state(&bad).await), (vec![bad.clone()], "failed".into()));
    assert_eq!(stage.lines("SELECT did AS line FROM users").await, good, "nothing of a refused transaction");
    // None was read twice for it.
    assert_eq!(stage.net.requests(&On::site(Site::Pds(0)).path(LIST)), (REPOSITORIES * PAGES) as u64);
}

async fn what_was_not_committed_when_the_work_was_stopped_is_read_again(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let mut dids = stage.accounts();
    dids.sort();
    let (working, busy) = stage.read_and_not_written().await;
    working.stop().await;
    drop(busy);
    // The one transaction that was under way may come to its end.
    let read = stage.lines(READ).await;
    assert!(read.len() < REPOSITORIES, "everything was written before the stop");
    stage.run_once().await;
    assert_eq!(stage.lines(READ).await, dids);
    assert_eq!(stage.lines("SELECT did AS line FROM tags").await, dids);
    assert_eq!(stage.lines("SELECT reason AS line FROM backfill_run").await, ["start"], "one run");
}

async fn of_what_the_fence_refuses_nothing_is_written_and_everything_is_still_due(fixture: Fixture) {
    let stage = Stage::new(fixture).await;
    let dids = stage.accounts();
    let (working, busy) = stage.read_and_not_written().await;
    // Another takes the lease while the database is busy, so that all of them come too late.
    end_busy(busy, "UPDATE lease SET epoch = epoch + 1; COMMIT").await;
    stage.until("SELECT CAST(COUNT(*) AS TEXT) AS line FROM lease WHERE epoch > 1", &["1"]).await;
    working.stop().await;
    let waiting = "SELECT did AS line FROM backfill_repo WHERE state = 'waiting' AND next_at > 0";
    assert_eq!(stage.lines(waiting).await.len(), dids.len());
    for table in ["users", "records", "tags"] {
        assert_eq!(stage.lines(&format!("SELECT did AS line FROM {table}")).await, [""; 0], "{table}");
    }
}

/// Ends what [`Fixture::block`] began, in its own transaction.
async fn end_busy(busy: Box<dyn Any + Send>, statements: &str) {
    match busy.downcast::<SqliteConnection>() {
        Ok(mut connection) => connection.batch_execute(statements).unwrap(),
        Err(busy) => {
            busy.downcast::<tokio_postgres::Client>().unwrap().batch_execute(statements).await.unwrap();
        }
    }
}

async fn a_repository_that_lacks_more_than_a_transaction_may_delete_is_read_only_at_the_end(
    fixture: Fixture,
) {
    let stage = Stage::new(fixture).await;
    let (large, small) = (stage.account("large", 0), stage.account("small", 0));
    let count = atcr_workers::store::MERGE_ROWS_MAX * 2 + 1;
    (0..count).for_each(|i| stage.tag_unseen(&large, &format!("t{i:04}")));
    stage.run_once().await;
    assert_eq!(stage.tags(&large).await.len(), count + 1);
    (0..count)
        .for_each(|i| drop(stage.net.delete_unseen(&large, localnet::records::TAG, &format!("t{i:04}"))));
    stage.tag_unseen(&small, "second");
    stage.count_transactions().await;
    stage.run_once().await;
    assert_eq!((stage.tags(&large).await, stage.tags(&small).await.len()), (vec!["first".into()], 2));
    let changed = "SELECT CAST(changed AS TEXT) AS line FROM backfill_run ORDER BY id";
    assert_eq!(stage.fixture.lines(changed).await, [(count + 2).to_string(), (count + 1).to_string()]);
    assert!(stage.transactions().await <= 2, "its deletions counted more than once");
}

//! A database that fails and heals: what came meanwhile is applied after all, and no position passes it.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use localnet::seed::{Seeded, Size, seed};
use tokio::time::{Instant, sleep};

use super::{
    rows::On,
    stage::{REFUSED, SOON, Stage},
};
use crate::support::{eventually::eventually, index};

/// How long the database is away: several of the tries that a batch gets meanwhile.
const AWAY: Duration = Duration::from_secs(3);

/// teal-fm/teal#193: the database fails on one event, the next succeeds and saves a higher cursor; the one is lost.
#[tokio::test]
async fn an_event_that_a_locked_file_refused_is_applied_after_all() {
    let (mut stage, seeded) = indexed(On::Sqlite).await;
    let mut lock = stage.rows.sqlite();
    lock.batch_execute("BEGIN EXCLUSIVE").unwrap();
    stays_where_it_is(&stage, &seeded).await;
    lock.batch_execute("ROLLBACK").unwrap();
    heals(&mut stage).await;
}

/// The same where the server ends every session again and again.
#[tokio::test]
async fn an_event_whose_sessions_were_ended_is_applied_after_all() {
    let (mut stage, seeded) = indexed(On::Postgres).await;
    let end_sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'atcr-workers'";
    stage.net.delete(&seeded.users[0], "io.atcr.sailor.profile", "self").unwrap();
    let until = Instant::now() + AWAY;
    let mut steps = 0;
    while Instant::now() < until {
        stage.rows.execute(end_sessions).await;
        seed_more(&stage, &seeded, steps);
        steps += 1;
        sleep(Duration::from_millis(20)).await;
    }
    heals(&mut stage).await;
}

/// The same where one table of those that an event needs is away, and all the others would take the rest of the batch.
#[tokio::test]
async fn an_event_whose_table_was_away_is_applied_after_all() {
    for on in [On::Sqlite, On::Postgres] {
        let (mut stage, seeded) = indexed(on).await;
        stage.rows.execute("ALTER TABLE manifests RENAME TO manifests_away").await;
        stays_where_it_is(&stage, &seeded).await;
        stage.rows.execute("ALTER TABLE manifests_away RENAME TO manifests").await;
        heals(&mut stage).await;
    }
}

/// The same kind at the start: without the known accounts, an event about one of them looks like a stranger's.
#[tokio::test]
async fn an_account_event_that_came_before_the_known_accounts_were_read_is_applied() {
    for on in [On::Sqlite, On::Postgres] {
        let (mut stage, seeded) = indexed(on).await;
        stage.stop().await;
        stage.net.set_account(&seeded.users[0], false, Some("deactivated"));
        stage.rows.execute("ALTER TABLE users RENAME TO users_away").await;
        stage.start_and_subscribe().await;
        stage.net.identity_event("did:plc:stranger");
        sleep(AWAY).await;
        stage.rows.execute("ALTER TABLE users_away RENAME TO users").await;
        heals(&mut stage).await;
    }
}

/// A worker at work, all of a seeded network in the index.
async fn indexed(on: On) -> (Stage, Seeded) {
    let mut stage = Stage::on(on).await;
    stage.start_and_subscribe().await;
    let seeded = seed(&stage.net, Size::default(), 1);
    stage.becomes_the_fold().await;
    stage.saves_the_newest_position().await;
    (stage, seeded)
}

/// Publishes while the database is away: refusals are counted, and neither rows nor position move.
async fn stays_where_it_is(stage: &Stage, seeded: &Seeded) {
    let position = stage.rows.cursor(&stage.key(0)).await;
    let refused = stage.metric(REFUSED, &[("reason", "database")]);
    for step in 0..20 {
        seed_more(stage, seeded, step);
        sleep(AWAY / 20).await;
    }
    eventually("refusals are counted", SOON, async || {
        let seen = stage.metric(REFUSED, &[("reason", "database")]) - refused;
        if seen >= 2.0 { Ok(()) } else { Err(seen) }
    })
    .await;
    assert_eq!(stage.rows.cursor(&stage.key(0)).await, position, "the position passed what is not in");
    assert_eq!(stage.failure(), None, "a database that is away is no reason to restart");
}

/// A tag and a manifest, and events that need no row: a position alone.
fn seed_more(stage: &Stage, seeded: &Seeded, step: usize) {
    let (owner, image) =
        (&seeded.users[step % seeded.users.len()], &seeded.images[step % seeded.images.len()]);
    let tag =
        localnet::records::tag(owner, &image.repository, "late", &image.digest, localnet::ids::now_us());
    stage.net.put(owner, localnet::records::TAG, &format!("late{step}"), tag);
    let rkey = localnet::records::digest_rkey(&image.digest);
    stage.net.delete(&image.owner, localnet::records::MANIFEST, rkey);
    stage.net.account_event("did:plc:stranger", true, None);
}

async fn heals(stage: &mut Stage) {
    stage.becomes_the_fold().await;
    stage.saves_the_newest_position().await;
    stage.rows.position_never_went_down(&stage.key(0)).await;
    let rows = index::read(&stage.rows.url(), index::CONTENT).await.unwrap();
    assert!(!rows["tags"].is_empty());
    stage.stop().await;
}

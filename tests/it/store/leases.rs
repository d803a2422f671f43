//! The leases in the database: the suite that any lease store must pass, and what only a database can show.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use atcr_workers::store::{Backend, Database, Options, SqlLeases};
use leased_actors::lease::{Ask, LeaseName, LeaseStore, Release, Renewal};

use super::fixture::{Fixture, ask, name, registration};
use super::on_both;
use crate::support::eventually::eventually;

mod suite_on_sqlite {
    use super::*;

    async fn fresh() -> leased_actors::testing::Store {
        Arc::new(Fixture::sqlite().await)
    }

    leased_actors::lease_store_suite!(fresh);
}

mod suite_on_postgres {
    use super::*;

    async fn fresh() -> leased_actors::testing::Store {
        Arc::new(Fixture::postgres().await)
    }

    leased_actors::lease_store_suite!(fresh);
}

on_both! {
    a_release_of_any_kind_passes_the_schema_and_frees_the_row_promptly
    a_carried_wait_outlives_claims_and_releases_until_it_was_waited_out
    nobody_claims_a_paused_lease
    every_acquire_and_its_end_is_in_the_history
    an_epoch_is_at_least_the_databases_clock
    an_epoch_rises_while_the_databases_clock_is_behind_it
    the_list_tells_the_states_apart
    each_operation_ends_in_time_while_others_block_the_database
}

/// A release of duration 0 was refused by validation, so that none ever came through.
// L6: kubernetes/client-go#754
async fn a_release_of_any_kind_passes_the_schema_and_frees_the_row_promptly(fixture: Fixture) {
    let cool = |wait, failures| Release::CoolDown { wait, failures };
    let year = Duration::from_secs(365 * 86_400);
    for how in [Release::Free, cool(Duration::ZERO, 0), cool(year, u32::MAX)] {
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            let term = fixture.acquire().await.term;
            let begun = Instant::now();
            assert!(fixture.leases.release(&term, how).await.unwrap(), "{how:?}");
            fastest = fastest.min(begun.elapsed());
            let row = "SELECT COALESCE(holder, 'free') AS line FROM lease WHERE name = 'work'";
            assert_eq!(fixture.lines(row).await, ["free"], "{how:?}");
        }
        // The fastest of five: a loaded machine may hold up any one of them.
        assert!(fastest < Duration::from_millis(50), "{how:?}: {fastest:?}");
    }
}

async fn a_carried_wait_outlives_claims_and_releases_until_it_was_waited_out(fixture: Fixture) {
    let first = fixture.acquire().await;
    assert_eq!(first.wait, Duration::ZERO);
    fixture.leases.release(&first.term, Release::Free).await.unwrap();
    fixture.execute("UPDATE lease SET owed_us = 600000000").await;
    let mut old = first.term;
    for _ in 0..2 {
        let claim = fixture.acquire().await;
        assert_eq!(claim.wait, Duration::from_secs(600));
        assert!(!fixture.leases.end_wait(&old).await.unwrap(), "by an old term");
        fixture.leases.release(&claim.term, Release::Free).await.unwrap();
        old = claim.term;
    }
    let waited = fixture.acquire().await.term;
    assert!(fixture.leases.end_wait(&waited).await.unwrap());
    fixture.leases.release(&waited, Release::Free).await.unwrap();
    assert_eq!(fixture.acquire().await.wait, Duration::ZERO);
}

async fn nobody_claims_a_paused_lease(fixture: Fixture) {
    let me = registration();
    fixture.leases.register(&me, &[name()]).await.unwrap();
    fixture.execute("INSERT INTO lease_wish (name, paused) VALUES ('work', TRUE)").await;
    assert!(fixture.leases.claim(&ask(me.incarnation)).await.unwrap().is_none());
    let Renewal::Alive(world) = fixture.leases.renew(me.incarnation).await.unwrap() else { panic!("dead") };
    assert!(world.leases[0].paused);
    fixture.execute("UPDATE lease_wish SET paused = FALSE").await;
    assert!(fixture.leases.claim(&ask(me.incarnation)).await.unwrap().is_some());
}

async fn every_acquire_and_its_end_is_in_the_history(fixture: Fixture) {
    let released = fixture.acquire().await.term;
    fixture.leases.release(&released, Release::Free).await.unwrap();
    let failed = fixture.acquire().await.term;
    let how = Release::CoolDown { wait: Duration::from_secs(1), failures: 1 };
    fixture.leases.release(&failed, how).await.unwrap();
    let expired = fixture.acquire().await.term;
    assert!(fixture.leases.declare_dead(expired.holder, 0).await.unwrap());
    let left = fixture.acquire().await.term;
    fixture.leases.depart(left.holder).await.unwrap();
    let events = fixture
        .lines("SELECT CAST(epoch AS TEXT) || ' ' || what AS line FROM lease_event ORDER BY epoch, what")
        .await;
    let of = |epoch, what| format!("{epoch} {what}");
    let expected = [
        of(released.epoch, "acquired"),
        of(released.epoch, "released"),
        of(failed.epoch, "acquired"),
        of(failed.epoch, "released after failures"),
        of(expired.epoch, "acquired"),
        of(expired.epoch, "expired"),
        of(left.epoch, "acquired"),
        of(left.epoch, "left"),
    ];
    assert_eq!(events, expected);
}

async fn an_epoch_is_at_least_the_databases_clock(fixture: Fixture) {
    let before = unix_ms();
    let claim = fixture.acquire().await;
    // Above it stands the timeline: a fresh PostgreSQL server's first one, none on SQLite.
    let (timeline, clock) = (claim.term.epoch.0 >> 42, claim.term.epoch.0 & ((1 << 42) - 1));
    assert!(clock >= before && clock < before + 600_000, "{}", claim.term);
    assert_eq!(timeline, i64::from(fixture.database.backend() == Backend::Postgres));
    // A clock that was set back must not bring epochs back.
    fixture.leases.release(&claim.term, Release::Free).await.unwrap();
    fixture.execute("UPDATE lease SET epoch = 9000000000000").await;
    assert_eq!(fixture.acquire().await.term.epoch.0, 9_000_000_000_001);
}

/// A clock that was set back must not bring an epoch twice.
async fn an_epoch_rises_while_the_databases_clock_is_behind_it(fixture: Fixture) {
    let first = fixture.acquire().await.term;
    fixture.leases.release(&first, Release::Free).await.unwrap();
    let ahead = first.epoch.0 + 3_600_000;
    fixture.execute(&format!("UPDATE lease SET epoch = {ahead}")).await;
    assert_eq!(fixture.acquire().await.term.epoch.0, ahead + 1);
}

async fn the_list_tells_the_states_apart(fixture: Fixture) {
    let me = registration();
    let names = ["cooling", "draining", "free", "orphaned", "paused", "running", "waiting"];
    let names: Vec<LeaseName> = names.iter().map(|name| name.parse().unwrap()).collect();
    fixture.leases.register(&me, &names).await.unwrap();
    let of = |lease: &LeaseName, me| Ask { name: lease.clone(), ..ask(me) };
    let [cooling, _, _, orphaned, _, running, waiting] = &names[..] else { panic!() };
    let term = fixture.leases.claim(&of(cooling, me.incarnation)).await.unwrap().unwrap().term;
    let how = Release::CoolDown { wait: Duration::from_secs(60), failures: 1 };
    fixture.leases.release(&term, how).await.unwrap();
    fixture.leases.claim(&of(running, me.incarnation)).await.unwrap().unwrap();
    fixture.leases.claim(&of(waiting, me.incarnation)).await.unwrap().unwrap();
    fixture.execute("UPDATE lease SET owed_us = 1 WHERE name = 'waiting'").await;
    fixture
        .execute("INSERT INTO lease_wish (name, paused, desired_holder) VALUES ('paused', TRUE, 'x')")
        .await;
    let (dead, draining) = (registration(), registration());
    for other in [&dead, &draining] {
        fixture.leases.register(other, &[]).await.unwrap();
    }
    fixture.leases.claim(&of(orphaned, dead.incarnation)).await.unwrap().unwrap();
    assert!(fixture.leases.declare_dead(dead.incarnation, 0).await.unwrap());
    fixture.leases.claim(&of(&names[1], draining.incarnation)).await.unwrap().unwrap();
    let drain = format!(
        "UPDATE lease_instance SET state = 'draining' WHERE incarnation = '{}'",
        draining.incarnation
    );
    fixture.execute(&drain).await;

    let list = fixture.leases.list().await.unwrap();
    let states: Vec<_> = list.iter().map(|lease| (lease.name.as_str(), lease.state)).collect();
    let expected = [
        ("cooling", "cooling"),
        ("draining", "stopping"),
        ("free", "free"),
        ("orphaned", "free"),
        ("paused", "paused"),
        ("running", "running"),
        ("waiting", "waiting"),
    ];
    assert_eq!(states, expected);
    assert!(list[3].holder.is_none() && list[3].since.is_none(), "the dead hold nothing");
    assert_eq!(list[4].desired.as_deref(), Some("x"));
    let since = chrono::DateTime::parse_from_rfc3339(list[5].since.as_ref().unwrap()).unwrap();
    assert!((since.timestamp_millis() - unix_ms()).abs() < 600_000, "{since}");
}

async fn each_operation_ends_in_time_while_others_block_the_database(fixture: Fixture) {
    let timeout = Duration::from_secs(2);
    let options = Options { renew_timeout: timeout, ..fixture.options.clone() };
    let (leases, me) = (SqlLeases::new(Database::open(&options).await.unwrap()), registration());
    leases.register(&me, &[name()]).await.unwrap();
    let term = leases.claim(&ask(me.incarnation)).await.unwrap().unwrap().term;
    assert!(matches!(leases.renew(term.holder).await, Ok(Renewal::Alive(_))));
    let block = fixture.block().await;
    for _ in 0..2 {
        let begun = Instant::now();
        let failed = leases.renew(term.holder).await.unwrap_err();
        assert!(begun.elapsed() < timeout + Duration::from_secs(2), "{:?}: {failed}", begun.elapsed());
        assert!(leases.claim(&ask(term.holder)).await.is_err());
        assert!(leases.release(&term, Release::Free).await.is_err());
    }
    drop(block);
    eventually("a renewal comes through", Duration::from_secs(30), async || {
        leases.renew(term.holder).await.map(drop)
    })
    .await;
    assert!(leases.release(&term, Release::Free).await.unwrap());
}

fn unix_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since_epoch.as_millis()).unwrap()
}

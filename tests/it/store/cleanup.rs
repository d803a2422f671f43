//! The `cleanup` worker on both databases: what has expired goes, what is young or still named stays.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use atcr_workers::cleanup::Cleanup;
use atcr_workers::store::{Backend, REGISTRY, SWEEP_ROWS_MAX, SWEEPS, Sweepable, Tx};
use leased_actors::clock::Clock;
use leased_actors::lease::{Ask, LeaseStore, Registration, Release, Term};
use leased_actors::worker::{Context, Progress, Worker};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fixture::{Fixture, ask, registration};
use super::on_both;
use crate::support::eventually::eventually;

/// For what takes milliseconds, on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

/// How long history is kept here.
const KEPT: Duration = Duration::from_secs(3_600);

on_both! {
    history_older_than_the_setting_goes_and_younger_stays
    a_dead_instance_goes_once_no_lease_and_no_kept_event_names_it
    a_cool_down_goes_when_it_is_long_over
    a_table_that_cannot_be_swept_does_not_keep_the_others
    ten_thousand_events_go_a_few_hundred_to_a_transaction
    a_sweep_under_a_term_that_is_over_deletes_nothing
    the_next_sweep_comes_by_itself_and_a_stop_is_prompt
    a_finished_delivery_goes_after_a_month_and_one_that_waits_stays
    what_has_expired_in_the_registrys_own_tables_goes
    a_table_of_the_registrys_that_is_absent_or_another_is_passed_over
}

/// What is swept holds no user's consent and nothing that the network said: those are the registry's, and the
/// backfill's.
#[test]
fn no_table_of_people_or_of_the_network_is_swept() {
    let swept: BTreeSet<_> = SWEEPS.iter().chain(REGISTRY).map(|sweep| sweep.table).collect();
    let never = [
        "devices",
        "users",
        "records",
        "manifests",
        "layers",
        "manifest_references",
        "manifest_annotations",
        "tags",
        "stars",
        "repo_pages",
        "profiles",
        "captains",
        "crew",
        "hold_repository_stats",
        "repository_stats",
        "scans",
        "stream_cursor",
        "lease",
        "lease_wish",
        "webhooks",
        "labeler_cursor",
        "billing_subscriptions",
    ];
    let wrong: Vec<_> = never.iter().filter(|table| swept.contains(**table)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(swept.len(), SWEEPS.len() + REGISTRY.len(), "a table twice");
}

/// A running worker.
struct Sweeping {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Sweeping {
    fn start(fixture: &Fixture, term: Term, interval: Duration) -> Self {
        let worker = Cleanup { database: fixture.database.clone(), interval, history_for: KEPT };
        let stop = CancellationToken::new();
        let context = Context { term, stop: stop.clone(), progress: Progress::new(Clock::boottime()) };
        let task = tokio::spawn(async move { worker.run(context).await.unwrap() });
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Sweeps once, until `gone` gives no line any more.
async fn sweep_until_gone(fixture: &Fixture, gone: &str) {
    let sweeping = Sweeping::start(fixture, fixture.term().await, SOON * 10);
    until_gone(fixture, gone).await;
    sweeping.stop().await;
}

async fn until_gone(fixture: &Fixture, gone: &str) {
    eventually("it is swept", SOON, async || {
        let left = fixture.lines(gone).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

/// Microseconds by the database's clock, so many seconds ago.
async fn ago(fixture: &Fixture, seconds: i64) -> i64 {
    let now = match fixture.database.backend() {
        Backend::Postgres => "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT::TEXT AS line",
        Backend::Sqlite => {
            "SELECT CAST(CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER) AS TEXT) AS line"
        }
    };
    fixture.lines(now).await[0].parse::<i64>().unwrap() - seconds * 1_000_000
}

/// An event of nobody's lease, so many seconds old.
async fn event(fixture: &Fixture, id: &str, seconds: i64) {
    let at = ago(fixture, seconds).await;
    let insert = format!("INSERT INTO lease_event VALUES ('{id}', {at}, 'gone', 1, 'whoever', 'released')");
    fixture.execute(&insert).await;
}

async fn history_older_than_the_setting_goes_and_younger_stays(fixture: Fixture) {
    event(&fixture, "old", 3_700).await;
    event(&fixture, "young", 3_400).await;
    sweep_until_gone(&fixture, "SELECT id AS line FROM lease_event WHERE id = 'old'").await;
    let left = fixture.lines("SELECT id AS line FROM lease_event WHERE name = 'gone'").await;
    assert_eq!(left, ["young"]);
}

/// A lease's dead holder is what says that it may be claimed, and that its old epoch is over.
async fn a_dead_instance_goes_once_no_lease_and_no_kept_event_names_it(fixture: Fixture) {
    let previous = fixture.acquire().await.term;
    assert!(fixture.leases.declare_dead(previous.holder, 0).await.unwrap());
    let [unnamed, young, in_an_event, alive] = std::array::from_fn(|_| registration());
    for who in [&unnamed, &young, &in_an_event, &alive] {
        fixture.leases.register(who, &["other".parse().unwrap()]).await.unwrap();
    }
    let holder = registration();
    fixture.leases.register(&holder, &[]).await.unwrap();
    let of = |who: &Registration| Ask { name: "other".parse().unwrap(), ..ask(who.incarnation) };
    fixture.leases.claim(&of(&holder)).await.unwrap().unwrap();
    for who in [&holder, &unnamed, &young, &in_an_event] {
        assert!(fixture.leases.declare_dead(who.incarnation, 0).await.unwrap());
    }
    let old = ago(&fixture, 3_700).await;
    let long_dead = format!(
        "UPDATE lease_instance SET dead_at = {old} WHERE state = 'dead' AND incarnation <> '{}'",
        young.incarnation
    );
    fixture.execute(&long_dead).await;
    // What the leases name stays although its history is gone.
    fixture.execute(&format!("UPDATE lease_event SET at = {old}")).await;
    let now = ago(&fixture, 0).await;
    let kept = format!(
        "INSERT INTO lease_event VALUES ('kept', {now}, 'gone', 1, '{}', 'released')",
        in_an_event.incarnation
    );
    fixture.execute(&kept).await;

    let gone = format!(
        "SELECT incarnation AS line FROM lease_instance WHERE incarnation = '{}'",
        unnamed.incarnation
    );
    sweep_until_gone(&fixture, &gone).await;
    let mut left = fixture.lines("SELECT incarnation AS line FROM lease_instance WHERE label = 'here'").await;
    let sweeper = fixture.lines("SELECT holder AS line FROM lease WHERE name = 'work'").await;
    left.retain(|who| !sweeper.contains(who));
    left.sort();
    let stay =
        [previous.holder, holder.incarnation, young.incarnation, in_an_event.incarnation, alive.incarnation];
    let mut stay = stay.map(|who| who.to_string());
    stay.sort();
    assert_eq!(left, stay);
    // The lease of the dead one goes on where it was.
    let next = registration();
    fixture.leases.register(&next, &[]).await.unwrap();
    assert_eq!(fixture.leases.claim(&of(&next)).await.unwrap().unwrap().after.reason, "ttl");
}

async fn a_cool_down_goes_when_it_is_long_over(fixture: Fixture) {
    for (process, seconds) in [("old", 90_000), ("yesterday", 80_000), ("now", -60)] {
        let until = ago(&fixture, seconds).await;
        fixture
            .execute(&format!("INSERT INTO lease_cooldown VALUES ('work', '{process}', {until}, 3)"))
            .await;
    }
    sweep_until_gone(&fixture, "SELECT process AS line FROM lease_cooldown WHERE process = 'old'").await;
    let left = fixture.lines("SELECT process AS line FROM lease_cooldown ORDER BY process").await;
    assert_eq!(left, ["now", "yesterday"]);
}

async fn a_table_that_cannot_be_swept_does_not_keep_the_others(fixture: Fixture) {
    event(&fixture, "stuck", 3_700).await;
    let until = ago(&fixture, 90_000).await;
    fixture.execute(&format!("INSERT INTO lease_cooldown VALUES ('work', 'old', {until}, 3)")).await;
    let refuse = match fixture.database.backend() {
        Backend::Postgres => {
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
             CREATE TRIGGER refuse BEFORE DELETE ON lease_event FOR EACH ROW EXECUTE FUNCTION refuse()"
        }
        Backend::Sqlite => {
            "CREATE TRIGGER refuse BEFORE DELETE ON lease_event BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        }
    };
    fixture.execute(refuse).await;
    let sweeping = Sweeping::start(&fixture, fixture.term().await, Duration::from_millis(50));
    until_gone(&fixture, "SELECT process AS line FROM lease_cooldown").await;
    let stuck = "SELECT id AS line FROM lease_event WHERE id = 'stuck'";
    assert_eq!(fixture.lines(stuck).await, ["stuck"]);
    // The worker has not failed: the next sweep finds the table in order again.
    let on = if fixture.database.backend() == Backend::Postgres { " ON lease_event" } else { "" };
    fixture.execute(&format!("DROP TRIGGER refuse{on}")).await;
    until_gone(&fixture, stuck).await;
    sweeping.stop().await;
}

async fn ten_thousand_events_go_a_few_hundred_to_a_transaction(fixture: Fixture) {
    let old = ago(&fixture, 3_700).await;
    let insert = format!(
        "INSERT INTO lease_event (id, at, name, epoch, incarnation, what)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         SELECT 'old' || i, {old}, 'gone', i, 'whoever', 'released' FROM n"
    );
    fixture.execute(&insert).await;
    let left = "SELECT CAST(COUNT(*) AS TEXT) AS line FROM lease_event WHERE name = 'gone'";
    let term = fixture.term().await;
    let events = SWEEPS.iter().find(|sweep| sweep.table == "lease_event").unwrap();
    let one = fixture.database.fenced(&term, async move |tx: &mut Tx| tx.sweep(events, KEPT).await);
    assert_eq!(one.await.unwrap(), SWEEP_ROWS_MAX);
    assert_eq!(fixture.lines(left).await, [(10_000 - SWEEP_ROWS_MAX).to_string()]);
    let sweeping = Sweeping::start(&fixture, term, SOON * 10);
    until_gone(&fixture, "SELECT id AS line FROM lease_event WHERE name = 'gone' LIMIT 1").await;
    sweeping.stop().await;
}

async fn a_sweep_under_a_term_that_is_over_deletes_nothing(fixture: Fixture) {
    let over = fixture.term().await;
    event(&fixture, "old", 3_700).await;
    fixture.leases.release(over.id(), Release::Free).await.unwrap();
    let sweeping = Sweeping::start(&fixture, over, Duration::from_millis(1));
    // One that is in order comes after it, and is not kept by it.
    let begun = Instant::now();
    eventually("it has had its time", SOON, async || {
        if begun.elapsed() > Duration::from_millis(500) { Ok(()) } else { Err(()) }
    })
    .await;
    assert!(!sweeping.task.is_finished(), "a worker that returns by itself counts as failed");
    sweeping.stop().await;
    let old = "SELECT id AS line FROM lease_event WHERE id = 'old'";
    assert_eq!(fixture.lines(old).await, ["old"]);
    sweep_until_gone(&fixture, old).await;
}

async fn the_next_sweep_comes_by_itself_and_a_stop_is_prompt(fixture: Fixture) {
    let term = fixture.term().await;
    let sweeping = Sweeping::start(&fixture, term.clone(), Duration::from_millis(50));
    let gone = "SELECT id AS line FROM lease_event WHERE name = 'gone'";
    for id in ["first", "second"] {
        event(&fixture, id, 3_700).await;
        until_gone(&fixture, gone).await;
    }
    sweeping.stop().await;
    // While it rests, and while the database keeps it waiting.
    event(&fixture, "third", 3_700).await;
    let resting = Sweeping::start(&fixture, term.clone(), SOON * 10);
    until_gone(&fixture, gone).await;
    let block = fixture.block().await;
    let waiting = Sweeping::start(&fixture, term, SOON * 10);
    for sweeping in [resting, waiting] {
        let begun = Instant::now();
        sweeping.stop().await;
        assert!(begun.elapsed() < Duration::from_millis(750), "{:?}", begun.elapsed());
    }
    drop(block);
}

const DAY: i64 = 86_400;

async fn a_finished_delivery_goes_after_a_month_and_one_that_waits_stays(fixture: Fixture) {
    let user = "INSERT INTO users (did, first_seen) VALUES ('did:plc:user', 1)";
    let webhook = "INSERT INTO webhooks (id, user_did, url, triggers, created_at, updated_at)
        VALUES (1, 'did:plc:user', 'https://ci.example', 8, 1, 1)";
    fixture.execute(user).await;
    fixture.execute(webhook).await;
    let (old, young) = (ago(&fixture, 31 * DAY).await, ago(&fixture, 29 * DAY).await);
    for (id, status, finished) in [
        ("old", "delivered", old.to_string()),
        ("withheld", "withheld", old.to_string()),
        ("young", "failed", young.to_string()),
        ("waits", "pending", "NULL".to_owned()),
    ] {
        let insert = format!(
            "INSERT INTO webhook_deliveries (id, webhook_id, trigger, dedupe_key, repository, digest, tag, event, status,
                 created_at, asked_at, finished_at)
             VALUES ('{id}', 1, 'push', '{id}', '', '', '', '', '{status}', 1, 1, {finished})"
        );
        fixture.execute(&insert).await;
    }
    sweep_until_gone(&fixture, "SELECT id AS line FROM webhook_deliveries WHERE id IN ('old', 'withheld')")
        .await;
    let left = fixture.lines("SELECT id AS line FROM webhook_deliveries ORDER BY id").await;
    assert_eq!(left, ["waits", "young"]);
}

/// The registry's tables, the column that tells their age, and for how long a row stays after it (seconds).
const OF_REGISTRY: [(&str, &str, i64); 6] = [
    ("oauth_auth_requests", "created_at", 600),
    ("pending_device_auth", "expires_at", 0),
    ("ui_sessions", "expires_at", 0),
    ("oauth_sessions", "updated_at", 90 * DAY),
    ("hold_crew_approvals", "expires_at", 0),
    ("hold_crew_denials", "next_retry_at", DAY),
];

async fn what_has_expired_in_the_registrys_own_tables_goes(fixture: Fixture) {
    fixture.execute("CREATE TABLE devices (id TEXT PRIMARY KEY, expires_at BIGINT)").await;
    let mut gone = vec!["SELECT id AS line FROM lease_event WHERE id = 'none'".to_owned()];
    for (table, column, keep) in OF_REGISTRY {
        fixture.execute(&format!("CREATE TABLE {table} (id TEXT PRIMARY KEY, {column} BIGINT)")).await;
        let (old, young) = (ago(&fixture, keep + 60).await, ago(&fixture, keep - 600).await);
        // Seconds must not pass for times long past.
        for (id, at) in [("old", old), ("young", young), ("seconds", old / 1_000_000), ("never", 0)] {
            fixture.execute(&format!("INSERT INTO {table} VALUES ('{id}', {at})")).await;
        }
        gone.push(format!("SELECT id AS line FROM {table} WHERE id = 'old'"));
    }
    fixture.execute("INSERT INTO devices VALUES ('old', 1700000000000000)").await;
    sweep_until_gone(&fixture, &gone.join(" UNION ALL ")).await;
    for (table, ..) in OF_REGISTRY {
        let left = fixture.lines(&format!("SELECT id AS line FROM {table} ORDER BY id")).await;
        assert_eq!(left, ["never", "seconds", "young"], "{table}");
    }
    assert_eq!(fixture.lines("SELECT id AS line FROM devices").await, ["old"]);
}

async fn a_table_of_the_registrys_that_is_absent_or_another_is_passed_over(fixture: Fixture) {
    fixture.execute("CREATE TABLE ui_sessions (id TEXT PRIMARY KEY, expires_at TEXT)").await;
    fixture.execute("CREATE TABLE oauth_sessions (id TEXT PRIMARY KEY, used BIGINT)").await;
    fixture.execute("INSERT INTO ui_sessions VALUES ('old', '2001-01-01')").await;
    let term = fixture.term().await;
    let mut found = Vec::new();
    for sweep in REGISTRY {
        let look = fixture.database.fenced(&term, async move |tx: &mut Tx| tx.sweepable(sweep).await);
        match look.await.unwrap() {
            Sweepable::Absent => {}
            other => found.push((sweep.table, other)),
        }
    }
    let without = Sweepable::Without;
    assert_eq!(found, [("ui_sessions", without("expires_at")), ("oauth_sessions", without("updated_at"))]);
    // A table that is in order is swept beside them.
    fixture.execute("CREATE TABLE pending_device_auth (id TEXT PRIMARY KEY, expires_at BIGINT)").await;
    let old = ago(&fixture, 60).await;
    fixture.execute(&format!("INSERT INTO pending_device_auth VALUES ('old', {old})")).await;
    let sweeping = Sweeping::start(&fixture, term, SOON * 10);
    until_gone(&fixture, "SELECT id AS line FROM pending_device_auth").await;
    sweeping.stop().await;
    assert_eq!(fixture.lines("SELECT id AS line FROM ui_sessions").await, ["old"]);
}

//! The beacon on PostgreSQL: who is without one is found at once, and its lease goes to the next in one step.

use std::time::Duration;

use atcr_workers::store::{Database, OpenError, Options, SqlLeases};
use leased_actors::lease::{Ask, Claim, Incarnation, LeaseStore, News, Registration, Release, Renewal};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;
use tokio_postgres::NoTls;

use super::fixture::{Fixture, ask, name, registration};
use crate::support::eventually::eventually;
use crate::support::postgres::Postgres;

/// For what takes milliseconds, on a loaded machine.
const SOON: Duration = Duration::from_secs(20);

/// One instance: a process with its own pools and sessions.
struct Instance {
    leases: SqlLeases,
    registration: Registration,
}

impl Instance {
    async fn join(options: &Options) -> Self {
        let leases = SqlLeases::new(Database::open(options).await.unwrap());
        let instance = Self { leases, registration: registration() };
        instance.register().await;
        instance
    }

    async fn register(&self) {
        self.leases.register(&self.registration, &[name()]).await.unwrap();
        assert!(self.renew().await, "dead at birth");
    }

    /// The same process, registered anew.
    async fn again(&mut self) {
        self.registration.incarnation = Incarnation::new();
        self.register().await;
    }

    fn me(&self) -> Incarnation {
        self.registration.incarnation
    }

    /// Whether it is alive.
    async fn renew(&self) -> bool {
        matches!(self.leases.renew(self.me()).await.unwrap(), Renewal::Alive(_))
    }

    async fn claim(&self, grace_seconds: u64, beaconless: Option<Incarnation>) -> Option<Claim> {
        let grace = Duration::from_secs(grace_seconds);
        self.leases.claim(&Ask { grace, beaconless, ..ask(self.me()) }).await.unwrap()
    }

    /// The number of its lock.
    async fn key(&self, fixture: &Fixture) -> i64 {
        let select =
            format!("SELECT beacon_key::TEXT FROM lease_instance WHERE incarnation = '{}'", self.me());
        fixture.lines(&select).await[0].parse().unwrap()
    }

    /// Waits for all of this news, in whatever order.
    async fn hears(&self, wanted: &[News]) {
        let mut missing = wanted.to_vec();
        let hear = async {
            while !missing.is_empty() {
                let news = self.leases.news(self.me()).await;
                missing.retain(|wanted| *wanted != news);
            }
        };
        assert!(timeout(SOON, hear).await.is_ok(), "not heard: {missing:?}");
    }

    /// Ends the session that is its beacon, as an administrator or a firewall does.
    async fn lose_session(&self, fixture: &Fixture) {
        let backend = format!(
            "pg_locks k JOIN lease_instance i ON k.objsubid = 2 AND k.mode = 'ExclusiveLock'
             AND k.classid::BIGINT = i.beacon_key >> 32 AND k.objid::BIGINT = i.beacon_key & 4294967295
             WHERE i.incarnation = '{}'",
            self.me()
        );
        fixture.execute(&format!("SELECT pg_terminate_backend(k.pid) FROM {backend}")).await;
        eventually("the lock is gone", SOON, async || {
            let locks = fixture.lines(&format!("SELECT k.pid::TEXT FROM {backend}")).await;
            if locks.is_empty() { Ok(()) } else { Err(locks) }
        })
        .await;
    }
}

async fn two() -> (Fixture, Instance, Instance) {
    let fixture = Fixture::postgres().await;
    let (a, b) = (Instance::join(&fixture.options).await, Instance::join(&fixture.options).await);
    // Each sees the other.
    assert!(a.renew().await && b.renew().await);
    (fixture, a, b)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_is_news_and_its_lease_is_claimed_in_one_step() {
    let (fixture, a, b) = two().await;
    let old = a.claim(0, None).await.unwrap();
    assert!(b.claim(0, Some(a.me())).await.is_none(), "a beacon that is lit was taken for gone");
    a.lose_session(&fixture).await;
    b.hears(&[News::Beaconless(a.me())]).await;
    let new = b.claim(0, Some(a.me())).await.unwrap();
    assert_eq!((new.after.reason, new.wait), ("beacon", Duration::ZERO));
    assert!(new.term.epoch > old.term.epoch);
    for _ in 0..2 {
        assert!(!a.renew().await, "renewed without a session");
    }
    assert!(a.leases.release(&old.term, Release::Free).await.is_err());
    assert!(a.claim(0, None).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_departed_instance_leaves_no_session_behind() {
    let (fixture, a, b) = two().await;
    a.leases.depart(a.me()).await.unwrap();
    b.hears(&[News::Beaconless(a.me())]).await;
    assert_eq!(b.leases.bury(b.me()).await.unwrap(), []);
    let query = "SELECT dead_reason FROM lease_instance WHERE state = 'dead'";
    assert_eq!(fixture.lines(query).await, ["left"]);
}

/// A step back of the server's clock made a wait of it, as long as the step; found by `faults run --seed 3`.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_without_a_grace_owes_nobody_a_wait() {
    let (fixture, a, b) = two().await;
    a.claim(0, None).await.unwrap();
    a.lose_session(&fixture).await;
    b.claim(0, Some(a.me())).await.unwrap();
    let owed = fixture.lines("SELECT owed_us::TEXT FROM lease WHERE name = 'work'").await;
    assert_eq!(owed, ["0"]);
}

// L35: patroni/patroni#2070
/// patroni#2070: the session of a process that still works may end; its successor must not start beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_rival_that_acts_outside_waits_the_grace_and_the_same_process_does_not() {
    let (fixture, mut a, b) = two().await;
    a.claim(30, None).await.unwrap();
    a.lose_session(&fixture).await;
    let claim = b.claim(30, Some(a.me())).await.unwrap();
    assert_eq!(claim.wait, Duration::from_secs(30));
    // A wait once owed stays, whoever comes next.
    assert!(b.leases.release(&claim.term, Release::Free).await.unwrap());
    a.again().await;
    let carried = a.claim(0, None).await.unwrap();
    assert_eq!(carried.wait, Duration::from_secs(30), "in full");
    assert!(a.leases.end_wait(&carried.term).await.unwrap());

    a.lose_session(&fixture).await;
    assert!(!a.renew().await);
    a.again().await;
    let claim = a.claim(30, None).await.unwrap();
    assert_eq!((claim.after.reason, claim.wait), ("beacon", Duration::ZERO));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimer_that_did_not_declare_the_death_waits_the_whole_grace() {
    let (fixture, a, b) = two().await;
    a.claim(0, None).await.unwrap();
    a.lose_session(&fixture).await;
    assert_eq!(b.leases.bury(b.me()).await.unwrap(), [a.me()]);
    fixture.execute("UPDATE lease_instance SET dead_at = 0 WHERE state = 'dead'").await;
    let claim = b.claim(30, None).await.unwrap();
    assert_eq!(claim.wait, Duration::from_secs(30));
}

/// Those who watch a beacon wait for its lock in share mode, and have it for a moment; other programs take locks, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_only_looks_like_a_beacon_keeps_nobody_alive() {
    let (fixture, mut a, b) = two().await;
    let elsewhere = Postgres::shared().fresh_database().await;
    let here = fixture.options.url.clone();
    for (what, url, lock) in [
        ("a shared lock", &here, "SELECT pg_advisory_lock_shared({high}, {low})"),
        ("a lock by one number", &here, "SELECT pg_advisory_lock({key})"),
        ("a lock in another database", &elsewhere, "SELECT pg_advisory_lock({high}, {low})"),
    ] {
        let key = a.key(&fixture).await;
        a.lose_session(&fixture).await;
        let _impostor = locked(url, lock, key).await;
        assert_eq!(b.leases.bury(b.me()).await.unwrap(), [a.me()], "{what} passes for a beacon");
        a.again().await;
    }
    // Whoever waits for a lock has none.
    let key = a.key(&fixture).await;
    a.lose_session(&fixture).await;
    let _shared = locked(&here, "SELECT pg_advisory_lock_shared({high}, {low})", key).await;
    let waiting =
        tokio::spawn(async move { locked(&here, "SELECT pg_advisory_lock({high}, {low})", key).await });
    eventually("it waits", SOON, async || {
        let waits =
            "SELECT mode FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND NOT granted
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let waits = fixture.lines(waits).await;
        if waits.is_empty() { Err(()) } else { Ok(()) }
    })
    .await;
    assert_eq!(b.leases.bury(b.me()).await.unwrap(), [a.me()], "who waits for the lock passes for a beacon");
    waiting.abort();
}

/// Behind a pooler a lock may be granted to a backend that is anybody's: it proves nothing about this session.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_proved_by_its_own_sessions_lock_and_no_other() {
    let (fixture, a, _b) = two().await;
    let key = a.key(&fixture).await ^ 1;
    let _other = locked(&fixture.options.url, "SELECT pg_advisory_lock({high}, {low})", key).await;
    let moved = format!("UPDATE lease_instance SET beacon_key = {key} WHERE incarnation = '{}'", a.me());
    fixture.execute(&moved).await;
    assert!(!a.renew().await, "renewed by another session's lock");
}

/// A session of some other program that has taken a lock.
async fn locked(url: &str, lock: &str, key: i64) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let (high, low) = (key >> 32, i64::from(key as i32));
    let lock = lock.replace("{key}", &key.to_string());
    let lock = lock.replace("{high}", &high.to_string()).replace("{low}", &format!("({low})"));
    client.batch_execute(&lock).await.unwrap();
    client
}

/// oban#847: a notification that nobody hears must cost no more than the poll.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_without_a_beacon_is_found_without_any_news() {
    let (fixture, a, b) = two().await;
    a.claim(0, None).await.unwrap();
    assert_eq!(b.leases.bury(b.me()).await.unwrap(), [], "buried alive");
    let c = Instance::join(&fixture.options).await;
    let forget = format!("UPDATE lease_instance SET beacon_key = NULL WHERE incarnation = '{}'", c.me());
    fixture.execute(&forget).await;
    drop(c);
    a.lose_session(&fixture).await;
    assert_eq!(b.leases.bury(b.me()).await.unwrap(), [a.me()], "a row without a key is left to its TTL");
    assert_eq!(b.leases.bury(b.me()).await.unwrap(), []);
    assert!(b.claim(0, None).await.is_some());
    let events = "SELECT what FROM lease_event WHERE what = 'beacon lost'";
    assert_eq!(fixture.lines(events).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_told_to_the_others_and_not_to_oneself() {
    let (_fixture, a, b) = two().await;
    for (from, to) in [(&a, &b), (&b, &a)] {
        // Both listen by now.
        to.hears(&[News::Look]).await;
        let term = from.claim(0, None).await.unwrap().term;
        assert!(from.leases.release(&term, Release::Free).await.unwrap());
        to.hears(&[News::Freed(name())]).await;
    }
    let echo = timeout(Duration::from_millis(300), b.hears(&[News::Freed(name())])).await;
    assert!(echo.is_err(), "an own release came back");
}

// L24: timgit/pg-boss#850, #851; bensheldon/good_job#303, #1417
/// pg-boss#850, good_job#303: a listener that lost its session was deaf for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_lost_its_session_hears_again() {
    let (fixture, a, b) = two().await;
    b.hears(&[News::Look]).await;
    let listeners = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE datname = current_database() AND query = 'LISTEN atcr_lease'";
    fixture.execute(listeners).await;
    // Once for the loss, which may be the beacon's as well, and once when it listens again.
    b.hears(&[News::Look]).await;
    b.hears(&[News::Look]).await;
    let term = a.claim(0, None).await.unwrap().term;
    assert!(a.leases.release(&term, Release::Free).await.unwrap());
    b.hears(&[News::Freed(name())]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ring_goes_on_to_the_next_one() {
    let (fixture, a, b) = two().await;
    let c = Instance::join(&fixture.options).await;
    assert!(a.renew().await && b.renew().await);
    for instance in [&a, &b] {
        instance.lose_session(&fixture).await;
    }
    c.hears(&[News::Beaconless(a.me()), News::Beaconless(b.me())]).await;
}

/// A pooler in transaction mode gives each statement another backend: the lock stays with one of them.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_lock_to_show_an_instance_goes_on_with_the_ttl_only() {
    let (fixture, a, mut b) = two().await;
    let move_lock =
        format!("UPDATE lease_instance SET beacon_key = beacon_key # 1 WHERE incarnation = '{}'", b.me());
    fixture.execute(&move_lock).await;
    assert!(!b.renew().await, "renewed without a lock");
    b.again().await;
    let keys = format!(
        "SELECT COALESCE(beacon_key::TEXT, 'none') FROM lease_instance WHERE incarnation = '{}'",
        b.me()
    );
    assert_eq!(fixture.lines(&keys).await, ["none"]);
    b.hears(&[News::Look]).await;
    a.lose_session(&fixture).await;
    assert_eq!(b.leases.bury(b.me()).await.unwrap(), [], "judged by locks that it does not trust");
    assert!(b.renew().await);
}

/// The lock of a backend that hangs stays; its instance must not wait for it for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_whose_backend_hangs_registers_anew() {
    let fixture = Fixture::postgres().await;
    let options = Options { renew_timeout: Duration::from_secs(2), ..fixture.options.clone() };
    let mut a = Instance::join(&options).await;
    a.claim(0, None).await.unwrap();
    let query =
        "SELECT k.pid::TEXT FROM pg_locks k WHERE k.mode = 'ExclusiveLock' AND k.locktype = 'advisory'
                 AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let backend = Pid::from_raw(fixture.lines(query).await[0].parse().unwrap()).unwrap();
    kill_process(backend, Signal::STOP).unwrap();
    eventually("the session is given up", SOON, async || match a.leases.renew(a.me()).await {
        Ok(Renewal::Dead) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    a.again().await;
    let claim = a.claim(30, None).await;
    kill_process(backend, Signal::CONT).unwrap();
    assert_eq!(claim.unwrap().wait, Duration::ZERO);
}

/// On a hot standby advisory locks succeed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_is_refused_with_the_reason() {
    let fixture = Fixture::postgres().await;
    let database = fixture.options.url.rsplit('/').next().unwrap().to_owned();
    let read_only = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
    Postgres::shared().execute(&read_only).await;
    let options = Options { renew_timeout: SOON, stop_within: SOON, ..fixture.options.clone() };
    let Err(OpenError::Connect(reason)) = Database::open(&options).await else { panic!("opened") };
    assert!(reason.contains("hot standby") && reason.contains("primary"), "{reason}");
    let refused = fixture.leases.register(&registration(), &[]).await.unwrap_err();
    assert!(refused.reason.contains("hot standby"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_one_statement() {
    let settings = [("log_statement", "all"), ("log_line_prefix", "[%p] "), ("fsync", "off")];
    let server = Postgres::private_with(&settings);
    let fixture = Fixture::on(&server).await;
    let a = Instance::join(&fixture.options).await;
    let query = "SELECT pid::TEXT FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'";
    let backend = format!("[{}] LOG:  ", fixture.lines(query).await.concat());
    let statements = || {
        let log = std::fs::read_to_string(server.directory().join("server.log")).unwrap();
        let said = log.lines().filter_map(|line| line.strip_prefix(&backend));
        said.filter(|what| what.starts_with("execute") || what.starts_with("statement")).count()
    };
    let before = statements();
    assert!(before > 0, "the log does not show statements");
    for _ in 0..10 {
        assert!(a.renew().await);
    }
    assert_eq!(statements() - before, 10);
}

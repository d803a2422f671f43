//! Beacons and wake-ups on SQLite. An open database stands for a process here: dropping it closes its files, as the end
//! of a process does. `processes` has real ones.

mod processes;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use atcr_workers::store::{Database, SqlLeases};
use leased_actors::lease::{
    Ask, Claim, Incarnation, LeaseStore, News, Registration, Release, Renewal, TermId,
};
use tokio::time::timeout;

use super::fixture::{Fixture, ask, name, registration};
use crate::support::eventually::eventually;

/// For what takes a millisecond, on a loaded machine.
const SOON: Duration = Duration::from_secs(10);

/// An imagined process that has the lease `work`.
struct Other {
    leases: SqlLeases,
    term: TermId,
}

impl Other {
    async fn start(fixture: &Fixture) -> Self {
        let leases = SqlLeases::new(Database::open(&fixture.options).await.unwrap());
        let me = registration();
        leases.register(&me, &[name()]).await.unwrap();
        let term = leases.claim(&ask(me.incarnation)).await.unwrap().unwrap().term;
        Self { leases, term }
    }

    fn who(&self) -> Incarnation {
        self.term.holder
    }

    /// Ends it as a crash would.
    fn crash(self) -> Incarnation {
        self.term.holder
    }
}

async fn register(fixture: &Fixture) -> Incarnation {
    let me = registration();
    fixture.leases.register(&me, &[name()]).await.unwrap();
    me.incarnation
}

async fn claim_from(fixture: &Fixture, me: Incarnation, beaconless: Incarnation) -> Option<Claim> {
    let grace = Duration::from_secs(60);
    fixture.leases.claim(&Ask { beaconless: Some(beaconless), grace, ..ask(me) }).await.unwrap()
}

fn database(fixture: &Fixture) -> PathBuf {
    fixture.options.url.strip_prefix("sqlite://").unwrap().into()
}

fn beacon(fixture: &Fixture, who: Incarnation) -> PathBuf {
    let directory = format!("{}.beacons", database(fixture).display());
    PathBuf::from(directory).join(who.to_string())
}

/// The database of the crashed closes its files in the background.
async fn claimed_from(fixture: &Fixture, me: Incarnation, crashed: Incarnation) -> Claim {
    eventually("its lock is free", SOON, async || {
        claim_from(fixture, me, crashed).await.ok_or("still locked")
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_beacon_gives_its_leases_at_once_and_without_a_grace() {
    let fixture = Fixture::sqlite().await;
    let (me, other) = (register(&fixture).await, Other::start(&fixture).await);
    assert!(claim_from(&fixture, me, other.who()).await.is_none(), "the living were robbed");
    assert_eq!(fixture.leases.bury(me).await.unwrap(), []);
    let old = other.term.clone();
    let crashed = other.crash();
    let claim = claimed_from(&fixture, me, crashed).await;
    assert_eq!((claim.after.reason, claim.wait), ("beacon", Duration::ZERO));
    assert!(claim.term.epoch > old.epoch);
    assert!(!beacon(&fixture, crashed).exists(), "the dead one's file stays");
    assert!(beacon(&fixture, me).exists(), "the living one's file is gone");
    assert!(matches!(fixture.leases.renew(crashed).await, Ok(Renewal::Dead)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_poll_buries_whoever_has_no_lock_any_more() {
    let fixture = Fixture::sqlite().await;
    let (me, other) = (register(&fixture).await, Other::start(&fixture).await);
    let crashed = other.crash();
    let buried = eventually("it is buried", SOON, async || {
        let buried = fixture.leases.bury(me).await.unwrap();
        if buried.is_empty() { Err("nobody") } else { Ok(buried) }
    });
    assert_eq!(buried.await, [crashed]);
    assert_eq!(fixture.leases.bury(me).await.unwrap(), [], "buried twice");
    assert_eq!(fixture.leases.claim(&ask(me)).await.unwrap().unwrap().after.reason, "beacon");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_or_missing_beacon_proves_nothing() {
    let fixture = Fixture::sqlite().await;
    let (me, other) = (register(&fixture).await, Other::start(&fixture).await);
    let file = beacon(&fixture, other.who());
    let copy = file.with_extension("copy");
    fs::copy(&file, &copy).unwrap();
    fs::rename(&copy, &file).unwrap();
    assert_eq!(fixture.leases.bury(me).await.unwrap(), [], "by a copy");
    assert!(claim_from(&fixture, me, other.who()).await.is_none(), "by a copy");
    fs::remove_file(&file).unwrap();
    assert_eq!(fixture.leases.bury(me).await.unwrap(), [], "by nothing");
    assert!(claim_from(&fixture, me, other.who()).await.is_none(), "by nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_beacon_was_replaced_loses_everything_and_may_register_again() {
    let fixture = Fixture::sqlite().await;
    let other = Other::start(&fixture).await;
    assert!(matches!(other.leases.renew(other.who()).await, Ok(Renewal::Alive(_))));
    let (file, aside) = (beacon(&fixture, other.who()), database(&fixture).with_extension("aside"));
    fs::rename(&file, &aside).unwrap();
    assert!(matches!(other.leases.renew(other.who()).await, Ok(Renewal::Dead)));
    fs::rename(&aside, &file).unwrap();
    assert!(matches!(other.leases.renew(other.who()).await, Ok(Renewal::Dead)), "it came back");
    let me = register(&fixture).await;
    assert!(claim_from(&fixture, me, other.who()).await.is_none(), "it still runs: its lock must stay");
    let again = registration();
    other.leases.register(&again, &[name()]).await.unwrap();
    assert!(matches!(other.leases.renew(again.incarnation).await, Ok(Renewal::Alive(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_replaced_database_everything_is_lost_and_nobody_registers() {
    let fixture = Fixture::sqlite().await;
    let me = fixture.acquire().await.term.holder;
    let (file, aside) = (database(&fixture), database(&fixture).with_extension("aside"));
    fs::rename(&file, &aside).unwrap();
    fs::copy(&aside, &file).unwrap();
    assert!(matches!(fixture.leases.renew(me).await, Ok(Renewal::Dead)));
    let refused = fixture.leases.register(&registration(), &[name()]).await.unwrap_err();
    assert!(refused.reason.contains("no longer the file that was opened"), "{refused}");
    fs::rename(&aside, &file).unwrap();
    assert!(matches!(fixture.leases.renew(me).await, Ok(Renewal::Dead)), "what is lost came back");
    register(&fixture).await;
}

// L41: cq27-dev/rag-rat#409, #410; tox-dev/filelock#634
/// cq27-dev/rag-rat#409 and tox-dev/filelock#634: a child kept its parent's lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_does_not_keep_its_parents_beacon() {
    let fixture = Fixture::sqlite().await;
    let (me, other) = (register(&fixture).await, Other::start(&fixture).await);
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let crashed = other.crash();
    let claim = timeout(SOON, claimed_from(&fixture, me, crashed)).await;
    assert!(child.try_wait().unwrap().is_none(), "the child ended too early to show anything");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(claim.unwrap().after.reason, "beacon");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_heard_by_the_others() {
    let fixture = Fixture::sqlite().await;
    let (me, other) = (register(&fixture).await, Other::start(&fixture).await);
    other.leases.release(&other.term, Release::Free).await.unwrap();
    hear(&fixture, me, &News::Freed(name())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_heard_by_the_one_before_it_in_the_ring() {
    let fixture = Fixture::sqlite().await;
    let (me, other) = (register(&fixture).await, Other::start(&fixture).await);
    assert!(matches!(fixture.leases.renew(me).await, Ok(Renewal::Alive(_))));
    let crashed = other.crash();
    hear(&fixture, me, &News::Beaconless(crashed)).await;
    assert_eq!(claimed_from(&fixture, me, crashed).await.after.reason, "beacon");
}

#[tokio::test(flavor = "multi_thread")]
async fn ears_survive_the_loss_of_the_notify_file() {
    let fixture = Fixture::sqlite().await;
    let (me, other) = (register(&fixture).await, Other::start(&fixture).await);
    fs::remove_file(format!("{}.notify", database(&fixture).display())).unwrap();
    hear(&fixture, me, &News::Look).await;
    other.leases.release(&other.term, Release::Free).await.unwrap();
    hear(&fixture, me, &News::Freed(name())).await;
}

/// Waits for this news; there may be other before it.
async fn hear(fixture: &Fixture, me: Incarnation, wanted: &News) {
    let heard = timeout(SOON, async { while fixture.leases.news(me).await != *wanted {} });
    heard.await.unwrap_or_else(|_| panic!("{wanted:?} was not heard"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_departs_leaves_no_file_and_who_registers_sweeps_what_others_left() {
    let fixture = Fixture::sqlite().await;
    let me = register(&fixture).await;
    fixture.leases.depart(me).await.unwrap();
    assert!(!beacon(&fixture, me).exists());
    let (living, never) = (register(&fixture).await, Incarnation::new());
    let crashed = Other::start(&fixture).await;
    // Of a process that crashed between lighting its beacon and inserting its row; and what is none of ours.
    fs::write(beacon(&fixture, never), "").unwrap();
    let foreign = beacon(&fixture, never).with_file_name("README");
    fs::write(&foreign, "").unwrap();
    let crashed = crashed.crash();
    register(&fixture).await;
    assert!(!beacon(&fixture, never).exists(), "an orphan stays");
    assert!(beacon(&fixture, living).exists() && foreign.exists(), "swept too much");
    assert!(beacon(&fixture, crashed).exists(), "swept before its row was dead: the proof is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_who_reach_the_file_by_whatever_path_see_the_same_beacons() {
    let fixture = Fixture::sqlite().await;
    let me = register(&fixture).await;
    let link = database(&fixture).with_extension("link");
    std::os::unix::fs::symlink(database(&fixture), &link).unwrap();
    let mut options = fixture.options.clone();
    options.url = format!("sqlite://{}", link.display());
    let by_link = SqlLeases::new(Database::open(&options).await.unwrap());
    let other: Registration = registration();
    by_link.register(&other, &[name()]).await.unwrap();
    drop(by_link);
    eventually("it is buried", SOON, async || {
        let buried = fixture.leases.bury(me).await.unwrap();
        if buried == [other.incarnation] { Ok(()) } else { Err(buried) }
    })
    .await;
}

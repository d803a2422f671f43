//! The words of named leases and the contract with a store.
//!
//! A **lease** is a named right to run one worker; one row. An **instance** is one process; an **incarnation** is one
//! registration of it. The row names its **holder**, an incarnation, and carries the **epoch**, which rises at every
//! acquire and is never reused. A **term** is (name, holder, epoch). A lease is a hint; the fence, which the
//! application's database checks in each transaction, is the lock.

pub mod acquire;
pub mod instance;
pub mod keep;
mod names;
pub mod release;
pub mod slot;
pub mod spread;
mod term;
pub mod timing;
pub mod watch;

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

pub use names::{BadId, BadLeaseName, Epoch, Incarnation, LeaseName, ProcessId, TermId};
pub use term::{Term, Trust};

/// Where a worker's effects go. It decides how a successor may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effects {
    /// All effects are rows written through a fenced transaction: may be taken over at once.
    Fenced,
    /// It also acts outside the database: stops by itself in time, and its successor waits the grace.
    External,
}

/// What an instance tells the others about itself when it registers.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The new incarnation.
    pub incarnation: Incarnation,
    /// Its process.
    pub process: ProcessId,
    /// Shown to people; never an identity.
    pub label: String,
    /// Host name, for display.
    pub host: String,
    /// Process number, for display.
    pub pid: u32,
    /// Where its status page is served, if it is.
    pub admin_address: Option<String>,
    /// F + S: after a lost session this instance has certainly stopped by then.
    pub stop_bound: Duration,
    /// Its TTL. Rivals use the larger of their own and this, so that a rolling change of settings is safe.
    pub ttl: Duration,
}

/// The reply to one renewal: enough to decide everything, whatever the number of leases.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    /// Every lease.
    pub leases: Vec<LeaseRow>,
    /// Every instance that is not dead, this one included.
    pub peers: Vec<Peer>,
}

/// A lease as a renewal shows it.
#[derive(Clone, Debug)]
pub struct LeaseRow {
    /// Its name.
    pub name: LeaseName,
    /// Its latest epoch; 0 = never acquired.
    pub epoch: Epoch,
    /// Who the row names.
    pub holder: Option<Incarnation>,
    /// Whether that holder is alive in the database's eyes. A claim succeeds where there is none, or it is dead.
    pub holder_alive: bool,
    /// An operator's wish: nobody acquires it.
    pub paused: bool,
    /// An operator's wish: this living instance has it.
    pub desired: Option<Incarnation>,
    /// How long the asking instance has to stay away after failures; zero = it may claim.
    pub cool_down: Duration,
    /// How often in a row the asking instance gave it up for failures.
    pub failures: u32,
}

/// What one asks for when claiming a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The lease.
    pub name: LeaseName,
    /// For whom.
    pub me: Incarnation,
    /// G: how long the start has to wait if the old holder lost its beacon and may still be at work. Zero for workers
    /// whose effects the fence protects.
    pub grace: Duration,
    /// An instance whose beacon the caller has seen gone. If the store finds it gone too, it is declared dead in the
    /// claim's own transaction: one commit from the crash to the new term.
    pub beaconless: Option<Incarnation>,
    /// An operator wished for an instance to have it: with this claim the wish is over, fulfilled or not.
    pub ends_wish: bool,
}

/// What a store tells without being asked. News may be lost and may come twice: beside it, everything is looked at
/// again at each renewal and each poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The lease came free.
    Freed(LeaseName),
    /// The instance's beacon is gone: it crashed, or lost its session.
    Beaconless(Incarnation),
    /// Something changed, or news may have been lost: look.
    Look,
}

/// Another instance, or this one, as a renewal shows it.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Raised by each of its renewals.
    pub renew_seq: i64,
    /// Its TTL.
    pub ttl: Duration,
    /// Whether it takes leases: false while an operator drains it.
    pub up: bool,
}

/// What a renewal found.
#[derive(Clone, Debug)]
pub enum Renewal {
    /// Alive, and this is the world.
    Alive(Heartbeat),
    /// Nothing matched: this incarnation is dead (or gone), or its session and with it its beacon is lost. It stays so:
    /// register anew.
    Dead,
}

/// An acquired term, and how long its holder has to wait before it *starts*, from the reply's receipt: a grace that
/// somebody is owed, in full, whoever began to wait for it before.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The term.
    pub term: TermId,
    /// The wait; zero = start now.
    pub wait: Duration,
    /// How the lease came free, and how long it stood still before this claim.
    pub after: HandOver,
}

/// How a lease came free, for the hand-over metric and the log. By the database's clock: for display only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// `first`, `released`, `left`, `ttl` or `beacon`.
    pub reason: &'static str,
    /// From the release, or the dead holder's last renewal, to the claim.
    pub gap: Duration,
}

/// How a lease is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Cleanly: anybody may acquire it.
    Free,
    /// After failures: this process stays away for so long (another on the same host may try at once), with this count of failures in a row.
    CoolDown {
        /// How long.
        wait: Duration,
        /// Failures in a row.
        failures: u32,
    },
}

/// A lease and its holder, for people: the list command and the status page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseView {
    /// Its name.
    pub name: LeaseName,
    /// Its latest epoch; 0 = never acquired.
    pub epoch: Epoch,
    /// `free`, `waiting`, `running`, `stopping`, `paused` or `cooling`.
    pub state: &'static str,
    /// Who has it, or null.
    pub holder: Option<HolderView>,
    /// Since when (RFC 3339, UTC), or null.
    pub since: Option<String>,
    /// Whether an operator paused it.
    pub paused: bool,
    /// The incarnation that an operator wants it to move to, or null.
    pub desired: Option<String>,
}

/// A holder, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HolderView {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its label.
    pub label: String,
    /// Its host name.
    pub host: String,
    /// Its process number.
    pub pid: u32,
}

/// A store's failure. Which operation, on what, and why; whether to try again is the caller's, by the operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {reason}")]
pub struct StoreError {
    /// What was attempted, e.g. `renew` or `claim jetstream`.
    pub operation: String,
    /// What the database or the network said.
    pub reason: String,
}

/// Where leases live. Every operation is scoped to an incarnation or a term; none trusts anybody's wall clock for a
/// decision; each ends by itself, with an error if need be, within the renew timeout (T).
///
/// Not cancel-safe: a dropped call may or may not have happened. The supervisor never drops one.
///
/// ```
/// use std::time::Duration;
///
/// use leased_actors::clock::Clock;
/// use leased_actors::lease::{Ask, Incarnation, LeaseName, LeaseStore, ProcessId, Registration, Release};
/// use leased_actors::memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new(Clock::boottime());
/// let name: LeaseName = "sweep".parse()?;
/// let register = async |label: &str| {
///     let incarnation = Incarnation::new();
///     let me = Registration {
///         incarnation,
///         process: ProcessId::new(),
///         label: label.to_owned(),
///         host: "here".to_owned(),
///         pid: 1,
///         admin_address: None,
///         stop_bound: Duration::from_secs(3),
///         ttl: Duration::from_secs(5),
///     };
///     store.register(&me, &[name.clone()]).await.map(|()| incarnation)
/// };
/// let (one, two) = (register("one").await?, register("two").await?);
/// let ask =
///     |me| Ask { name: name.clone(), me, grace: Duration::ZERO, beaconless: None, ends_wish: false };
///
/// let first = store.claim(&ask(one)).await?.expect("it was free");
/// assert!(store.claim(&ask(two)).await?.is_none(), "its holder is alive");
/// assert!(store.release(&first.term, Release::Free).await?, "this is the acknowledgement");
/// let second = store.claim(&ask(two)).await?.expect("it is free again");
/// assert!(second.term.epoch > first.term.epoch);
/// assert!(!store.release(&first.term, Release::Free).await?, "that term is over");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Adds the incarnation, alive, and a row for each of `names` that has none.
    async fn register(&self, me: &Registration, names: &[LeaseName]) -> Result<(), StoreError>;

    /// Raises `renew_seq` where the incarnation is not dead, and reads the world. Never acquires anything.
    async fn renew(&self, me: Incarnation) -> Result<Renewal, StoreError>;

    /// Declares `who` dead, once and for good, if its `renew_seq` is still `seen`. True: this call did it.
    async fn declare_dead(&self, who: Incarnation, seen: i64) -> Result<bool, StoreError>;

    /// Declares every instance without a beacon dead, in one statement: the poll beside [`LeaseStore::news`]. Says whom.
    /// A store without beacons buries nobody.
    async fn bury(&self, me: Incarnation) -> Result<Vec<Incarnation>, StoreError>;

    /// Acquires a lease: where not paused, the asker is up, and the holder is nobody or dead. None: refused.
    async fn claim(&self, ask: &Ask) -> Result<Option<Claim>, StoreError>;

    /// Forgets the wait that came with the claim, where name, holder and epoch all match: its holder has waited it out.
    /// Until then the lease carries it through releases, claims and deaths, and each claimer waits it in full.
    async fn end_wait(&self, term: &TermId) -> Result<bool, StoreError>;

    /// Clears the holder where name, holder and epoch all match; leaves a carried wait. True: the acknowledgement.
    async fn release(&self, term: &TermId, how: Release) -> Result<bool, StoreError>;

    /// Ends the incarnation after its last release, so that nobody waits for its TTL.
    async fn depart(&self, me: Incarnation) -> Result<(), StoreError>;

    /// Waits for news of the registered incarnation. Cancel-safe. A store that has none waits for ever.
    async fn news(&self, me: Incarnation) -> News;

    /// Every lease, by name.
    async fn list(&self) -> Result<Vec<LeaseView>, StoreError>;
}

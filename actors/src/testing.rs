//! The suite that any [`LeaseStore`] must pass. A store's tests expand [`lease_store_suite!`] with a function that
//! gives a fresh, empty store, and get one test per claim.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::{
    Ask, Claim, Epoch, Heartbeat, Incarnation, LeaseName, LeaseRow, LeaseStore, ProcessId, Registration,
    Release, Renewal, TermId,
};

/// A store under test, shared by several imagined instances.
pub type Store = Arc<dyn LeaseStore>;

/// Expands to one test per claim of the suite. `$fresh` is an `async fn() -> Store` that gives an empty store.
#[macro_export]
macro_rules! lease_store_suite {
    ($fresh:path) => {
        $crate::lease_store_suite!(@tests $fresh:
            a_fresh_lease_is_free_and_claimed_once
            a_claim_beside_a_living_holder_is_refused
            epochs_rise_at_every_acquire
            a_release_frees_the_lease_for_others
            a_release_of_another_term_changes_nothing
            a_replayed_release_does_not_touch_a_later_term
            no_renewal_succeeds_after_death
            a_renewal_never_acquires
            a_declaration_is_void_if_the_renewals_have_moved
            death_is_declared_once_and_is_final
            the_dead_holders_lease_is_claimed_at_once
            the_dead_claim_nothing
            the_departed_leave_their_leases_free
            a_renewal_shows_every_living_instance_and_lease
            a_cool_down_is_remembered_for_the_process_and_cleared_by_a_clean_release
            claims_at_the_same_time_have_one_winner
            registering_again_keeps_the_epoch
            the_list_names_the_holder
        );
    };
    (@tests $fresh:path: $($claim:ident)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $claim() {
            $crate::testing::$claim($fresh().await).await;
        }
    )* };
}

/// A registration as the suite's imagined instances use it.
pub fn registration(label: &str) -> Registration {
    Registration {
        incarnation: Incarnation::new(),
        process: ProcessId::new(),
        label: label.into(),
        host: "host".into(),
        pid: 7,
        admin_address: None,
        stop_bound: Duration::from_secs(3),
        ttl: Duration::from_secs(5),
    }
}

/// The lease that the suite works with.
pub fn name() -> LeaseName {
    "work".parse().expect("a good name")
}

async fn join(store: &Store, label: &str) -> Incarnation {
    let me = registration(label);
    store.register(&me, &[name()]).await.expect("register");
    me.incarnation
}

async fn claim(store: &Store, me: Incarnation) -> Option<Claim> {
    store.claim(&ask(me)).await.expect("claim")
}

fn ask(me: Incarnation) -> Ask {
    Ask { name: name(), me, grace: Duration::ZERO, beaconless: None, ends_wish: false }
}

async fn term(store: &Store, me: Incarnation) -> TermId {
    claim(store, me).await.expect("the lease is free").term
}

async fn world(store: &Store, me: Incarnation) -> Heartbeat {
    match store.renew(me).await.expect("renew") {
        Renewal::Alive(world) => world,
        Renewal::Dead => panic!("{me} is dead"),
    }
}

async fn row(store: &Store, me: Incarnation) -> LeaseRow {
    let world = world(store, me).await;
    world.leases.into_iter().find(|row| row.name == name()).expect("the lease is listed")
}

async fn seq(store: &Store, observer: Incarnation, who: Incarnation) -> i64 {
    let peers = world(store, observer).await.peers;
    peers.iter().find(|peer| peer.incarnation == who).expect("listed as alive").renew_seq
}

async fn release(store: &Store, term: &TermId) -> bool {
    store.release(term, Release::Free).await.expect("release")
}

async fn kill(store: &Store, observer: Incarnation, who: Incarnation) -> bool {
    let seen = seq(store, observer, who).await;
    store.declare_dead(who, seen).await.expect("declare")
}

/// See the name.
pub async fn a_fresh_lease_is_free_and_claimed_once(store: Store) {
    let a = join(&store, "a").await;
    assert_eq!(row(&store, a).await.holder, None);
    let first = claim(&store, a).await.expect("free");
    assert_eq!((first.term.holder, first.wait, first.after.reason), (a, Duration::ZERO, "first"));
    assert!(first.term.epoch > Epoch(0));
    assert!(claim(&store, a).await.is_none(), "claimed twice");
}

/// See the name.
pub async fn a_claim_beside_a_living_holder_is_refused(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    term(&store, a).await;
    assert!(claim(&store, b).await.is_none());
    let seen = row(&store, b).await;
    assert_eq!((seen.holder, seen.holder_alive), (Some(a), true));
}

/// See the name.
pub async fn epochs_rise_at_every_acquire(store: Store) {
    let a = join(&store, "a").await;
    let mut last = Epoch(0);
    for _ in 0..5 {
        let term = term(&store, a).await;
        assert!(term.epoch > last, "{} after {last}", term.epoch);
        last = term.epoch;
        assert!(release(&store, &term).await);
    }
}

/// See the name.
pub async fn a_release_frees_the_lease_for_others(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    let old = term(&store, a).await;
    assert!(release(&store, &old).await, "not acknowledged");
    assert_eq!(row(&store, b).await.holder, None);
    let new = claim(&store, b).await.expect("free");
    assert_eq!((new.term.holder, new.after.reason), (b, "released"));
    assert!(new.term.epoch > old.epoch);
}

/// See the name.
pub async fn a_release_of_another_term_changes_nothing(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    let ours = term(&store, a).await;
    let wrong_epoch = TermId { epoch: Epoch(ours.epoch.0 - 1), ..ours.clone() };
    let wrong_holder = TermId { holder: b, ..ours.clone() };
    let wrong_name = TermId { name: "other".parse().expect("a name"), ..ours.clone() };
    for wrong in [wrong_epoch, wrong_holder, wrong_name] {
        assert!(!release(&store, &wrong).await, "{wrong:?} was released");
    }
    assert_eq!(row(&store, b).await.holder, Some(a));
}

/// See the name. A delayed resign of an old term hit a new term of the same client.
// L17: riverqueue/river#1213 (PR; earlier #134 #199 #217 #219)
pub async fn a_replayed_release_does_not_touch_a_later_term(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    let old = term(&store, a).await;
    assert!(release(&store, &old).await);
    let between = term(&store, b).await;
    assert!(release(&store, &between).await);
    let new = term(&store, a).await;
    assert!(!release(&store, &old).await);
    let seen = row(&store, a).await;
    assert_eq!((seen.holder, seen.epoch), (Some(a), new.epoch));
}

/// See the name.
pub async fn no_renewal_succeeds_after_death(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    assert!(kill(&store, b, a).await);
    for _ in 0..3 {
        assert!(matches!(store.renew(a).await, Ok(Renewal::Dead)));
    }
    assert!(matches!(store.renew(Incarnation::new()).await, Ok(Renewal::Dead)), "an unknown one renewed");
}

/// See the name.
pub async fn a_renewal_never_acquires(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    let before = row(&store, a).await;
    row(&store, b).await;
    let after = row(&store, a).await;
    assert_eq!((after.holder, after.epoch), (None, before.epoch));
}

/// See the name.
pub async fn a_declaration_is_void_if_the_renewals_have_moved(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    let seen = seq(&store, b, a).await;
    world(&store, a).await;
    assert!(!store.declare_dead(a, seen).await.expect("declare"));
    world(&store, a).await;
}

/// See the name.
pub async fn death_is_declared_once_and_is_final(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    let seen = seq(&store, b, a).await;
    assert!(store.declare_dead(a, seen).await.expect("declare"));
    assert!(!store.declare_dead(a, seen).await.expect("declare"), "declared twice");
    let peers = world(&store, b).await.peers;
    assert!(peers.iter().all(|peer| peer.incarnation != a), "the dead are listed as living");
}

/// See the name.
pub async fn the_dead_holders_lease_is_claimed_at_once(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    let old = term(&store, a).await;
    assert!(kill(&store, b, a).await);
    let seen = row(&store, b).await;
    assert_eq!((seen.holder, seen.holder_alive), (Some(a), false));
    let new = claim(&store, b).await.expect("the holder is dead");
    assert_eq!((new.wait, new.after.reason), (Duration::ZERO, "ttl"));
    assert!(new.term.epoch > old.epoch);
    assert!(!release(&store, &old).await, "the dead one's release touched the new term");
}

/// See the name.
pub async fn the_dead_claim_nothing(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    assert!(kill(&store, b, a).await);
    assert!(claim(&store, a).await.is_none());
    assert!(claim(&store, Incarnation::new()).await.is_none(), "an unknown one claimed");
}

/// See the name.
pub async fn the_departed_leave_their_leases_free(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    term(&store, a).await;
    store.depart(a).await.expect("depart");
    store.depart(a).await.expect("a second departure is no error");
    assert_eq!(claim(&store, b).await.expect("free").after.reason, "left");
    assert!(matches!(store.renew(a).await, Ok(Renewal::Dead)));
}

/// See the name.
pub async fn a_renewal_shows_every_living_instance_and_lease(store: Store) {
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    let other: LeaseName = "other".parse().expect("a name");
    store.register(&registration("c"), std::slice::from_ref(&other)).await.expect("register");
    let world = world(&store, a).await;
    assert_eq!(world.peers.len(), 3);
    assert!(world.peers.iter().any(|peer| peer.incarnation == b && peer.ttl == Duration::from_secs(5)));
    let names: Vec<_> = world.leases.iter().map(|row| row.name.clone()).collect();
    assert!(names.contains(&name()) && names.contains(&other), "{names:?}");
    let before = seq(&store, b, a).await;
    row(&store, a).await;
    assert!(seq(&store, b, a).await > before, "a renewal must raise renew_seq");
}

/// See the name.
pub async fn a_cool_down_is_remembered_for_the_process_and_cleared_by_a_clean_release(store: Store) {
    let me = registration("a");
    store.register(&me, &[name()]).await.expect("register");
    // The same label, as on one host by default: it must be free to try.
    let (a, b) = (me.incarnation, join(&store, "a").await);
    let failed = term(&store, a).await;
    let how = Release::CoolDown { wait: Duration::from_secs(60), failures: 2 };
    assert!(store.release(&failed, how).await.expect("release"));
    let (mine, theirs) = (row(&store, a).await, row(&store, b).await);
    assert!(mine.cool_down > Duration::from_secs(50) && mine.cool_down <= Duration::from_secs(60));
    assert_eq!((mine.failures, theirs.failures, theirs.cool_down), (2, 0, Duration::ZERO));
    let again = Registration { incarnation: Incarnation::new(), ..me };
    store.register(&again, &[name()]).await.expect("register");
    let again = again.incarnation;
    assert!(!row(&store, again).await.cool_down.is_zero(), "a new incarnation must remember");
    let clean = term(&store, again).await;
    assert!(release(&store, &clean).await);
    let seen = row(&store, again).await;
    assert_eq!((seen.cool_down, seen.failures), (Duration::ZERO, 0));
}

/// See the name.
pub async fn claims_at_the_same_time_have_one_winner(store: Store) {
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..8 {
        let (store, me) = (store.clone(), join(&store, &format!("i{i}")).await);
        tasks.spawn(async move { claim(&store, me).await });
    }
    let won = tasks.join_all().await.into_iter().flatten().count();
    assert_eq!(won, 1);
}

/// See the name.
pub async fn registering_again_keeps_the_epoch(store: Store) {
    let a = join(&store, "a").await;
    let old = term(&store, a).await;
    let again = join(&store, "a").await;
    let seen = row(&store, again).await;
    assert_eq!((seen.epoch, seen.holder), (old.epoch, Some(a)));
    assert!(claim(&store, again).await.is_none(), "the first incarnation is still alive");
}

/// See the name.
pub async fn the_list_names_the_holder(store: Store) {
    let a = join(&store, "a").await;
    let free = store.list().await.expect("list");
    assert_eq!((free[0].name.clone(), free[0].state, free[0].holder.is_none()), (name(), "free", true));
    let term = term(&store, a).await;
    let taken = store.list().await.expect("list");
    let holder = taken[0].holder.clone().expect("a holder");
    assert_eq!((taken[0].epoch, taken[0].state, holder.incarnation), (term.epoch, "running", a));
    assert_eq!((holder.label.as_str(), holder.host.as_str(), holder.pid), ("a", "host", 7));
}

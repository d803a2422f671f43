//! The worker with holds and an index that do as they are told, in paused time.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use tokio::task::JoinHandle;
use tokio::time::advance;

use super::ask::Outcome;
use super::holds::WISHES_PER_SECOND;
use super::*;

/// What each hold says, and after how long; those that are not in it panic.
#[derive(Default)]
struct World {
    says: Mutex<BTreeMap<String, (Outcome, Duration)>>,
    asked: Mutex<Vec<String>>,
    now: AtomicUsize,
    most: AtomicUsize,
    /// What the index names; `None`: it does not answer.
    index: Mutex<Option<Vec<Did>>>,
}

struct Holding(Arc<World>);

#[async_trait]
impl Ask for Holding {
    async fn ask(&self, hold: &Did) -> Outcome {
        let world = &self.0;
        world.asked.lock().unwrap().push(hold.to_string());
        let said = world.says.lock().unwrap().get(hold.as_str()).cloned();
        let (outcome, after) = said.expect("the hold is in the world");
        world.most.fetch_max(world.now.fetch_add(1, SeqCst) + 1, SeqCst);
        sleep(after).await;
        world.now.fetch_sub(1, SeqCst);
        outcome
    }
}

#[async_trait]
impl Source for World {
    async fn known_holds(&self) -> Result<KnownHolds, String> {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let captained = index.clone().ok_or("the database is away")?;
        Ok(KnownHolds { captained, named: Vec::new() })
    }
}

fn did(name: &str) -> Did {
    Did::parse(&format!("did:web:{name}.example")).unwrap()
}

fn down() -> Outcome {
    Outcome::Unreachable { kind: "status", error: "it answered with status 500".to_owned() }
}

fn trouble() -> Outcome {
    Outcome::Unknown { error: "the directory is away".to_owned() }
}

impl World {
    /// Holds that answer at once.
    fn of(names: &[&str]) -> Arc<Self> {
        let world = Arc::new(Self::default());
        names.iter().for_each(|name| world.says(name, Outcome::Reachable, Duration::ZERO));
        world.names(names);
        world
    }

    fn says(&self, name: &str, outcome: Outcome, after: Duration) {
        self.says.lock().unwrap().insert(did(name).to_string(), (outcome, after));
    }

    fn names(&self, names: &[&str]) {
        *self.index.lock().unwrap() = Some(names.iter().map(|name| did(name)).collect());
    }

    fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| **asked == did(name).to_string()).count()
    }

    /// A worker at work, its holds, and its end.
    fn work(
        self: &Arc<Self>,
        concurrency: usize,
        own: &[&str],
    ) -> (Holds, CancellationToken, JoinHandle<()>) {
        let of_registry = own.iter().map(|name| did(name)).collect();
        let options = Options { interval: MINUTE * 15, concurrency, of_registry };
        let health = HoldHealth::with(self.clone(), Holding(self.clone()), options);
        let (holds, stop) = (health.holds(), CancellationToken::new());
        (holds, stop.clone(), tokio::spawn(health.run(stop)))
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn states(holds: &Holds) -> Vec<(String, State)> {
    holds.list().holds.into_iter().map(|hold| (hold.did.to_string(), hold.state)).collect()
}

fn all(of: &[(&str, State)]) -> Vec<(String, State)> {
    of.iter().map(|(name, state)| (did(name).to_string(), *state)).collect()
}

#[tokio::test(start_paused = true)]
async fn everybody_is_asked_soon_after_the_start_and_then_each_interval() {
    let world = World::of(&["a", "b"]);
    world.says("b", down(), Duration::ZERO);
    let (holds, ..) = world.work(10, &[]);
    sleep(SECOND * 4).await;
    assert_eq!((world.asked("a"), states(&holds).len()), (0, 0));
    sleep(SECOND * 2).await;
    assert_eq!(states(&holds), all(&[("a", State::Reachable), ("b", State::Unreachable)]));
    let list = holds.list();
    assert!(list.round_ended_at.is_some() && list.holds.iter().all(|hold| hold.checked_at.is_some()));
    assert_eq!(list.holds[1].error.as_deref(), Some("it answered with status 500"));
    assert_eq!([list.holds[0].reachable, list.holds[1].reachable], [true, false]);
    for round in 2..4 {
        sleep(MINUTE * 15).await;
        assert_eq!((world.asked("a"), world.asked("b")), (round, round));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_it_in_a_wait_and_in_a_round() {
    for at in [2, 6, 60] {
        let world = World::of(&["a"]);
        world.says("a", down(), SECOND * 10);
        let (_, stop, task) = world.work(10, &[]);
        sleep(SECOND * at).await;
        stop.cancel();
        let begun = Instant::now();
        task.await.unwrap();
        assert!(begun.elapsed() < SECOND, "at {at} s");
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_are_asked_at_once_than_the_setting_says() {
    let names: Vec<String> = (0..35).map(|n| format!("h{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::of(&names);
    names.iter().for_each(|name| world.says(name, down(), SECOND));
    let (holds, ..) = world.work(10, &[]);
    sleep(FIRST_AFTER + SECOND * 4 + SECOND / 2).await;
    assert_eq!((world.most.load(SeqCst), world.asked.lock().unwrap().len()), (10, 35));
    assert!(holds.list().round_ended_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_index_names_no_more_is_forgotten_and_the_registrys_own_are_not() {
    let world = World::of(&["a", "own"]);
    world.names(&["a"]);
    let (holds, ..) = world.work(10, &["own"]);
    sleep(SECOND * 6).await;
    assert_eq!(states(&holds), all(&[("a", State::Reachable), ("own", State::Reachable)]));
    world.names(&[]);
    sleep(MINUTE * 15).await;
    assert_eq!(states(&holds), all(&[("own", State::Reachable)]));
}

#[tokio::test(start_paused = true)]
async fn while_the_database_is_away_the_holds_of_before_are_asked() {
    let world = World::of(&["a", "own"]);
    *world.index.lock().unwrap() = None;
    let (holds, ..) = world.work(10, &["own"]);
    sleep(SECOND * 6).await;
    assert_eq!(states(&holds), all(&[("own", State::Reachable)]));
    world.names(&["a"]);
    sleep(MINUTE * 15).await;
    *world.index.lock().unwrap() = None;
    world.says("a", down(), Duration::ZERO);
    sleep(MINUTE * 15).await;
    assert_eq!(states(&holds), all(&[("a", State::Unreachable), ("own", State::Reachable)]));
}

#[tokio::test(start_paused = true)]
async fn trouble_of_ours_takes_no_answers_place_until_that_is_too_old() {
    let world = World::of(&["a", "b"]);
    world.says("a", down(), Duration::ZERO);
    world.says("b", trouble(), Duration::ZERO);
    let (holds, ..) = world.work(10, &[]);
    sleep(SECOND * 6).await;
    assert_eq!(states(&holds), all(&[("a", State::Unreachable), ("b", State::Unknown)]));
    world.says("a", trouble(), Duration::ZERO);
    sleep(MINUTE * 29).await;
    assert_eq!(states(&holds)[0].1, State::Unreachable);
    sleep(MINUTE * 2).await;
    let hold = holds.list().holds.remove(0);
    assert_eq!((hold.state, hold.reachable), (State::Unknown, true));
}

/// The only place is taken for 8 s by a hold that does not answer, so nobody has asked the other one.
async fn busy_world() -> (Arc<World>, Holds, CancellationToken) {
    let world = World::of(&["slow", "b"]);
    world.says("slow", down(), SECOND * 8);
    let (holds, stop, _) = world.work(1, &["slow"]);
    sleep(FIRST_AFTER + SECOND * 3).await;
    assert_eq!((world.asked("slow"), world.asked("b")), (1, 0));
    (world, holds, stop)
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_nobody_has_asked_yet_is_asked_once_for_all_who_want_to_know() {
    let (world, holds, _) = busy_world().await;
    world.says("b", down(), SECOND);
    let ask = || async { holds.one(&did("b")).await.state };
    let told = futures_util::future::join_all((0..20).map(|_| ask())).await;
    assert_eq!((told, world.asked("b")), (vec![State::Unreachable; 20], 1));
    assert_eq!(holds.one(&did("b")).await.state, State::Unreachable);
    // The round finds it asked already.
    sleep(MINUTE).await;
    assert_eq!(world.asked("b"), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_for_an_answer_than_a_hold_may_take() {
    let (world, holds, _) = busy_world().await;
    world.says("b", down(), SECOND * 10);
    let begun = Instant::now();
    let hold = holds.one(&did("b")).await;
    assert_eq!((hold.state, hold.reachable, begun.elapsed()), (State::Unknown, true, SECOND * 6));
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_unknown_and_asked_by_nobody() {
    let world = World::of(&["a"]);
    let (holds, ..) = world.work(10, &[]);
    sleep(SECOND * 6).await;
    assert_eq!(holds.one(&did("stranger")).await, HoldState::unknown(did("stranger")));
    assert_eq!(world.asked("stranger"), 0);
}

#[tokio::test(start_paused = true)]
async fn wishes_make_us_ask_few_holds_in_a_second() {
    let names: Vec<String> = (0..30).map(|n| format!("h{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::of(&names);
    names.iter().for_each(|name| world.says(name, trouble(), Duration::ZERO));
    let (holds, stop, _) = world.work(10, &[]);
    sleep(SECOND * 6).await;
    stop.cancel();
    // What could not be found out may be asked again, but not at once.
    let wish = async || {
        world.asked.lock().unwrap().clear();
        for name in &names {
            holds.one(&did(name)).await;
        }
        world.asked.lock().unwrap().len()
    };
    assert_eq!(wish().await, 0);
    advance(MINUTE).await;
    assert_eq!(wish().await, WISHES_PER_SECOND as usize);
    assert_eq!(wish().await, 0);
    advance(SECOND).await;
    assert_eq!(wish().await, WISHES_PER_SECOND as usize);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_is_started_again_after_a_while() {
    let world = World::of(&["a"]);
    world.names(&["a", "nowhere"]);
    let (holds, stop, task) = world.work(10, &[]);
    sleep(SECOND * 6).await;
    assert!(!task.is_finished());
    let before = world.asked("nowhere");
    assert_eq!(before, 1);
    world.says("nowhere", Outcome::Reachable, Duration::ZERO);
    sleep(SECOND * 7).await;
    assert_eq!(states(&holds), all(&[("a", State::Reachable), ("nowhere", State::Reachable)]));
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_goes_on_to_panic_is_started_less_and_less_often() {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let (seen, stop) = (starts.clone(), CancellationToken::new());
    let begun = Instant::now();
    let start = move || {
        seen.lock().unwrap().push(begun.elapsed().as_secs());
        async { panic!("on purpose") }
    };
    let inner = stop.clone();
    let task = tokio::spawn(async move { restart::keep_running(&inner, start).await });
    sleep(SECOND * 70).await;
    assert_eq!(*starts.lock().unwrap(), [0, 1, 3, 7, 15, 31, 63]);
    stop.cancel();
    task.await.unwrap();
}

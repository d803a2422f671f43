//! With the runtime's clock stopped, and a source that does as it is told.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::advance;

use super::*;
use crate::atproto::handle::Handle;
use crate::atproto::identity::HandleCheck;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// What the source answers next; the last answer stays.
#[derive(Clone)]
struct Source {
    answers: Arc<Mutex<VecDeque<Result<Identity, IdentityError>>>>,
    asked: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

#[async_trait]
impl LookUp for Source {
    async fn look_up(&self, did: &Did) -> Result<Identity, IdentityError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        // What is true when the question arrives, not when the answer does.
        let answer = {
            let mut answers = self.answers.lock().unwrap();
            if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() }
        };
        self.gate.acquire().await.unwrap().forget();
        answer.map(|identity| Identity { did: did.clone(), ..identity })
    }
}

impl Source {
    fn new(answers: impl IntoIterator<Item = Result<Identity, IdentityError>>) -> (Self, IdentityCache) {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        let source = Self { answers, asked: Arc::default(), gate: Arc::new(Semaphore::new(1_000_000)) };
        (source.clone(), IdentityCache::new(source))
    }

    fn closed(self) -> Self {
        self.gate.forget_permits(1_000_000);
        self
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn alice() -> Did {
    Did::parse("did:plc:alice").unwrap()
}

fn at(pds: &str, handle: HandleCheck) -> Result<Identity, IdentityError> {
    Ok(Identity { did: alice(), handle, pds: Some(pds.to_owned()) })
}

fn good(pds: &str) -> Result<Identity, IdentityError> {
    at(pds, HandleCheck::Valid(Handle::parse("alice.test").unwrap()))
}

fn trouble() -> Result<Identity, IdentityError> {
    Err(IdentityError::Temporary("down".to_owned()))
}

async fn pds(cache: &IdentityCache) -> String {
    cache.get(&alice()).await.unwrap().identity.pds.clone().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_given_for_an_hour_with_its_age() {
    let (source, cache) = Source::new([good("a"), good("b")]);
    assert_eq!(pds(&cache).await, "a");
    advance(59 * MINUTE).await;
    let known = cache.get(&alice()).await.unwrap();
    assert_eq!((known.age, source.asked()), (59 * MINUTE, 1));
    advance(MINUTE).await;
    assert_eq!(pds(&cache).await, "b");
    assert_eq!(source.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_is_not_proven_is_looked_at_again_after_five_minutes() {
    for unproven in [HandleCheck::Invalid, HandleCheck::Unknown("down".to_owned())] {
        let (source, cache) = Source::new([at("a", unproven), good("a")]);
        pds(&cache).await;
        advance(4 * MINUTE).await;
        pds(&cache).await;
        assert_eq!(source.asked(), 1);
        advance(MINUTE).await;
        assert!(matches!(cache.get(&alice()).await.unwrap().identity.handle, HandleCheck::Valid(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_cannot_be_checked_stays_proven_for_a_day() {
    let (_, cache) = Source::new([good("a"), at("a", HandleCheck::Unknown("down".to_owned()))]);
    pds(&cache).await;
    let handle = async || cache.get(&alice()).await.unwrap().identity.handle.clone();
    for _ in 0..23 {
        advance(HOUR).await;
        assert!(matches!(handle().await, HandleCheck::Valid(_)));
    }
    advance(2 * HOUR).await;
    assert!(matches!(handle().await, HandleCheck::Unknown(_)));
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_is_not_valid_any_more_is_told_at_once() {
    let (_, cache) =
        Source::new([good("a"), at("a", HandleCheck::Invalid), at("a", HandleCheck::Unknown(String::new()))]);
    pds(&cache).await;
    advance(HOUR).await;
    assert_eq!(cache.get(&alice()).await.unwrap().identity.handle, HandleCheck::Invalid);
    advance(HOUR).await;
    assert!(matches!(cache.get(&alice()).await.unwrap().identity.handle, HandleCheck::Unknown(_)));
}

#[tokio::test(start_paused = true)]
async fn a_source_in_trouble_leaves_the_older_answer_in_place_for_a_day() {
    let (source, cache) = Source::new([good("a"), trouble()]);
    pds(&cache).await;
    advance(HOUR).await;
    let known = cache.get(&alice()).await.unwrap();
    assert_eq!((known.identity.pds.as_deref(), known.age), (Some("a"), HOUR));
    // It is left alone for half a minute, whoever asks.
    advance(Duration::from_secs(29)).await;
    assert!(cache.get(&alice()).await.is_ok());
    assert_eq!(source.asked(), 2);
    advance(Duration::from_secs(1)).await;
    assert!(cache.get(&alice()).await.is_ok());
    assert_eq!(source.asked(), 3);
    advance(23 * HOUR).await;
    assert!(cache.get(&alice()).await.unwrap_err().is_temporary());
}

#[tokio::test(start_paused = true)]
async fn trouble_without_an_older_answer_is_told_as_trouble() {
    let (source, cache) = Source::new([trouble(), good("a")]);
    assert!(cache.get(&alice()).await.unwrap_err().is_temporary());
    assert!(cache.get(&alice()).await.unwrap_err().is_temporary());
    assert_eq!(source.asked(), 1);
    advance(MINUTE).await;
    assert_eq!(pds(&cache).await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_certain_failure_takes_the_place_of_an_answer_for_five_minutes() {
    let (source, cache) =
        Source::new([good("a"), Err(IdentityError::Deleted(alice())), trouble(), good("b")]);
    pds(&cache).await;
    advance(HOUR).await;
    for _ in 0..2 {
        assert_eq!(cache.get(&alice()).await.unwrap_err(), IdentityError::Deleted(alice()));
    }
    assert_eq!(source.asked(), 2);
    advance(5 * MINUTE).await;
    assert!(cache.get(&alice()).await.unwrap_err().is_temporary());
    advance(MINUTE).await;
    assert_eq!(pds(&cache).await, "b");
}

#[tokio::test(start_paused = true)]
async fn many_who_ask_at_once_cost_one_look_up() {
    let (source, cache) = Source::new([good("a")]);
    let source = source.closed();
    let did = alice();
    let asking = futures_util::future::join_all((0..50).map(|_| cache.get(&did)));
    let open = async { source.gate.add_permits(1) };
    let (known, ()) = tokio::join!(asking, open);
    assert!(known.iter().all(Result::is_ok));
    assert_eq!(source.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_who_ask_at_once_hear_of_one_failure() {
    let (source, cache) = Source::new([trouble()]);
    let did = alice();
    let known = futures_util::future::join_all((0..50).map(|_| cache.get(&did))).await;
    assert!(known.iter().all(Result::is_err));
    assert_eq!(source.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_asks_when_the_one_who_was_asking_gives_up() {
    let (source, cache) = Source::new([good("a")]);
    let source = source.closed();
    let did = alice();
    let (mut first, mut second) = (Box::pin(cache.get(&did)), Box::pin(cache.get(&did)));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    drop(first);
    source.gate.add_permits(1);
    assert!(second.await.is_ok());
    assert_eq!(source.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_changed_is_asked_again_and_stands_in_until_then() {
    let (source, cache) = Source::new([good("a"), trouble(), good("b")]);
    pds(&cache).await;
    cache.forget(&alice());
    assert_eq!(pds(&cache).await, "a");
    assert_eq!(source.asked(), 2);
    cache.forget(&alice());
    assert_eq!(pds(&cache).await, "b");
    cache.forget(&Did::parse("did:plc:nobody").unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_a_change_is_not_kept() {
    let (source, cache) = Source::new([good("a"), good("b")]);
    let source = source.closed();
    let did = alice();
    let mut first = Box::pin(cache.get(&did));
    assert!((&mut first).now_or_never().is_none());
    cache.forget(&did);
    source.gate.add_permits(2);
    assert_eq!(first.await.unwrap().identity.pds.as_deref(), Some("a"));
    assert_eq!(pds(&cache).await, "b");
    assert_eq!(pds(&cache).await, "b");
    assert_eq!(source.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_memory_of_accounts_has_a_bound_and_keeps_those_in_use() {
    let (source, cache) = Source::new([good("a")]);
    let did = |i: usize| Did::parse(&format!("did:plc:{i}")).unwrap();
    for i in 0..ENTRIES_MAX {
        cache.get(&did(i)).await.unwrap();
        advance(Duration::from_millis(1)).await;
    }
    cache.get(&did(0)).await.unwrap();
    cache.get(&did(ENTRIES_MAX)).await.unwrap();
    assert_eq!(cache.lock().len(), ENTRIES_MAX - FORGET_AT_ONCE + 1);
    let asked = source.asked();
    cache.get(&did(0)).await.unwrap();
    cache.get(&did(ENTRIES_MAX - 1)).await.unwrap();
    assert_eq!(source.asked(), asked);
    cache.get(&did(1)).await.unwrap();
    assert_eq!(source.asked(), asked + 1);
}

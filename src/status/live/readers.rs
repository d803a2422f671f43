//! Who reads, and what they are told: server-sent events, to so many pages at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{LOOK_EVERY, Live};

/// Pages that are open at once.
const READERS_MAX: usize = 32;

/// How long a page waits before it comes back. At double, it stays stale for a second longer.
const RETRY: Duration = Duration::from_secs(1);

/// What is told to a reader, and when that was so.
#[derive(Clone)]
pub(super) struct Told {
    at: Instant,
    what: Result<Seen, Arc<str>>,
}

/// The parts, as JSON. A reader gets what is the same as before only once.
#[derive(Clone)]
struct Seen {
    history: Arc<str>,
    curves: Arc<str>,
    state: Arc<str>,
}

impl Told {
    pub(super) fn state(state: &Value, history: &Value, curves: &Value) -> Self {
        let text = |value: &Value| value.to_string().into();
        let seen = Seen { history: text(history), curves: text(curves), state: text(state) };
        Self { at: Instant::now(), what: Ok(seen) }
    }

    /// The database does not answer.
    pub(super) fn away(error: String) -> Self {
        Self { at: Instant::now(), what: Err(error.replace(['\r', '\n'], " ").into()) }
    }
}

/// Everybody who reads.
pub(super) struct Readers {
    count: watch::Sender<usize>,
    told: watch::Sender<Option<Told>>,
}

impl Default for Readers {
    fn default() -> Self {
        Self { count: watch::Sender::new(0), told: watch::Sender::new(None) }
    }
}

impl Readers {
    /// How many there are.
    pub(super) fn count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    pub(super) fn tell(&self, told: Told) {
        self.told.send_replace(Some(told));
    }

    /// Takes another one, if there is a place.
    fn enter(&self) -> Option<Reader> {
        let is_in = self.count.send_if_modified(|count| {
            let is_free = *count < READERS_MAX;
            *count += usize::from(is_free);
            is_free
        });
        let mut told = self.told.subscribe();
        let is_fresh = told.borrow().as_ref().is_some_and(|told| told.at.elapsed() < LOOK_EVERY);
        if is_fresh {
            told.mark_changed();
        }
        is_in.then(|| Reader { told, before: None, _place: Place(self.count.clone()) })
    }
}

struct Reader {
    told: watch::Receiver<Option<Told>>,
    before: Option<Seen>,
    _place: Place,
}

/// Gives the place back when the page is closed.
struct Place(watch::Sender<usize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Reader {
    /// What is new, once there is something.
    async fn next(&mut self) -> Option<Vec<Event>> {
        self.told.changed().await.ok()?;
        let told = self.told.borrow_and_update().clone();
        Some(match told.map(|told| told.what) {
            None => Vec::new(),
            Some(Err(error)) => vec![Event::default().event("away").data(&*error)],
            Some(Ok(seen)) => {
                let before = self.before.replace(seen.clone());
                let is_new = |part: fn(&Seen) -> &Arc<str>| {
                    before.as_ref().is_none_or(|before| part(before) != part(&seen))
                };
                let mut events = Vec::new();
                if is_new(|seen| &seen.history) {
                    events.push(Event::default().event("history").data(&*seen.history));
                }
                if is_new(|seen| &seen.curves) {
                    events.push(Event::default().event("curves").data(&*seen.curves));
                }
                events.push(Event::default().event("state").data(&*seen.state));
                events
            }
        })
    }
}

/// `/events`: the state, again and again.
pub(in crate::status) async fn events(State(live): State<Arc<Live>>) -> Response {
    match live.readers.enter() {
        Some(reader) => Sse::new(told(reader)).keep_alive(KeepAlive::default()).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "as many pages as may be are open\n").into_response(),
    }
}

/// What is told, for as long as the page is open.
fn told(reader: Reader) -> impl Stream<Item = Result<Event, Infallible>> {
    let next = async |mut reader: Reader| Some((reader.next().await?, reader));
    let begin = stream::once(async { Event::default().retry(RETRY) });
    begin.chain(stream::unfold(reader, next).flat_map(stream::iter)).map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told_at(state: &str) -> Told {
        Told::state(&state.into(), &"history".into(), &"curves".into())
    }

    #[tokio::test]
    async fn a_reader_is_told_at_once_what_is_fresh_and_what_is_the_same_only_once() {
        let readers = Readers::default();
        let mut first = readers.enter().unwrap();
        readers.tell(told_at("a"));
        assert_eq!(first.next().await.unwrap().len(), 3);
        readers.tell(told_at("b"));
        assert_eq!(first.next().await.unwrap().len(), 1);
        let mut second = readers.enter().unwrap();
        assert_eq!(second.next().await.unwrap().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_comes_after_a_while_is_not_told_what_is_old() {
        let readers = Readers::default();
        readers.tell(told_at("a"));
        tokio::time::advance(LOOK_EVERY * 2).await;
        let mut late = readers.enter().unwrap();
        assert!(tokio::time::timeout(LOOK_EVERY, late.next()).await.is_err());
    }

    #[test]
    fn no_more_than_so_many_read_and_who_leaves_makes_place() {
        let readers = Readers::default();
        let mut all: Vec<_> = (0..READERS_MAX).map_while(|_| readers.enter()).collect();
        assert_eq!((all.len(), readers.enter().is_none()), (READERS_MAX, true));
        assert_eq!(*readers.count().borrow(), READERS_MAX);
        all.pop();
        assert!(readers.enter().is_some());
    }
}

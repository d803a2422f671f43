//! What the page shows, live: one look at the database for all readers, twice a second while there is one, and at each
//! change of this instance at once. Owns the curves of the streams' lag, which it samples all the time.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, SecondsFormat};
use futures_util::{Stream, StreamExt, stream};
use leased_actors::lease::LeaseStore;
use leased_actors::supervisor::Snapshot;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::neighbours;
use super::report::{HoldsOf, StatusReport};
use crate::atproto::Micros;
use crate::atproto::guard::Guarded;
use crate::store::{Backend, Database, SqlLeases};

/// At half, a reader costs the database twice as much; at double, a hand-over can be on the page a second late.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A point of a curve. With it, three hours are 360 of them.
const SAMPLE_EVERY: Duration = Duration::from_secs(30);
const SAMPLES_MAX: usize = 360;

/// Streams that have a curve: more hosts than any settings have.
const CURVES_MAX: usize = 16;

/// Pages that are open at once.
const READERS_MAX: usize = 32;

/// Events of leases that the timeline is drawn of.
const EVENTS_MAX: u32 = 500;

/// What is told to a reader.
#[derive(Clone, Debug)]
enum Told {
    /// The state, as JSON.
    State(Arc<str>),
    /// The database does not answer.
    Away(Arc<str>),
}

/// The page's source.
pub struct Live {
    database: Database,
    instance: watch::Receiver<Snapshot>,
    label: String,
    host: String,
    client: Guarded,
    told: watch::Sender<Option<Told>>,
    readers: Arc<Semaphore>,
    kept: Mutex<Kept>,
}

/// What is not looked at anew each time.
#[derive(Default)]
struct Kept {
    /// By wire and host: milliseconds since the Unix epoch, seconds behind.
    lag: BTreeMap<String, VecDeque<(i64, f64)>>,
    /// What the instances on this machine said of the holds.
    holds: Vec<HoldsOf>,
}

impl Live {
    /// For this instance, which shows `label`.
    ///
    /// # Errors
    /// If the client for the other instances on this machine cannot be made.
    pub fn new(
        database: Database,
        instance: watch::Receiver<Snapshot>,
        label: &str,
        user_agent: &str,
    ) -> Result<Arc<Self>, crate::atproto::guard::GuardError> {
        Ok(Arc::new(Self {
            database,
            instance,
            label: label.to_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            client: neighbours::client(user_agent)?,
            told: watch::Sender::new(None),
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            kept: Mutex::default(),
        }))
    }

    /// Samples, and looks for whoever reads, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut changes = self.instance.clone();
        let mut sample_at = Instant::now();
        loop {
            let due = Instant::now() >= sample_at;
            let is_read = self.told.receiver_count() > 0;
            if due {
                sample_at = Instant::now() + SAMPLE_EVERY;
            }
            let look = async {
                if due {
                    self.sample().await;
                }
                if is_read {
                    self.look().await;
                }
            };
            if stop.run_until_cancelled(look).await.is_none() {
                return;
            }
            let next = sample_at.min(Instant::now() + LOOK_EVERY);
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep_until(next) => {}
                changed = changes.changed(), if is_read => if changed.is_err() { return },
            }
        }
    }

    async fn look(&self) {
        let told = match self.state().await {
            Ok(state) => Told::State(state.into()),
            Err(error) => Told::Away(error.into()),
        };
        self.told.send_replace(Some(told));
    }

    /// A point of each curve, and what the instances on this machine say of the holds. A database that is away leaves a gap.
    async fn sample(&self) {
        let Ok(status) = self.database.status().await else { return };
        let mut report = StatusReport::new(status, Vec::new());
        neighbours::ask(&self.client, &self.host, &mut report).await;
        let now_ms = Micros::now().0 / 1_000;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).sample(now_ms, report);
    }

    /// The state as JSON, or why there is none.
    async fn state(&self) -> Result<String, String> {
        let leases = SqlLeases::new(self.database.clone());
        let listed = leases.list().await.map_err(|error| error.to_string())?;
        let events = leases.history(None, EVENTS_MAX).await.map_err(|error| error.to_string())?;
        let status = self.database.status().await.map_err(|error| error.to_string())?;
        let mut report = StatusReport::new(status, listed);
        let now =
            DateTime::from_timestamp_micros(Micros::now().0).ok_or("this machine's clock is out of range")?;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.fill(&mut report);
        let state = json!({
            "at": now.to_rfc3339_opts(SecondsFormat::Millis, true),
            "version": env!("CARGO_PKG_VERSION"),
            "label": self.label,
            "incarnation": self.instance.borrow().incarnation,
            "database": match self.database.backend() { Backend::Sqlite => "SQLite", Backend::Postgres => "PostgreSQL" },
            "report": report,
            "events": events,
            "lag": { "every_seconds": SAMPLE_EVERY.as_secs(), "streams": kept.lag },
        });
        Ok(state.to_string())
    }
}

impl Kept {
    fn sample(&mut self, now_ms: i64, report: StatusReport) {
        self.holds = report.holds;
        for stream in report.streams.iter().take(CURVES_MAX) {
            let curve = self.lag.entry(format!("{} {}", stream.wire, stream.host)).or_default();
            if curve.len() == SAMPLES_MAX {
                curve.pop_front();
            }
            curve.push_back((now_ms, stream.position_seconds_ago.max(0.0)));
        }
    }

    /// Puts in what is known of the instances that are still there.
    fn fill(&self, report: &mut StatusReport) {
        for holds in &mut report.holds {
            if let Some(known) = self.holds.iter().find(|known| known.incarnation == holds.incarnation) {
                holds.clone_from(known);
            }
        }
    }
}

/// `/status.json`: the state once.
pub(super) async fn once(State(live): State<Arc<Live>>) -> Response {
    let json = [(axum::http::header::CONTENT_TYPE, "application/json"), super::NO_STORE];
    match live.state().await {
        Ok(state) => (json, state).into_response(),
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, json, json!({ "error": error }).to_string()).into_response()
        }
    }
}

/// `/events`: the state, again and again.
pub(super) async fn events(State(live): State<Arc<Live>>) -> Response {
    let Ok(place) = live.readers.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "as many pages as may be are open\n").into_response();
    };
    Sse::new(told(live.told.subscribe(), place)).keep_alive(KeepAlive::default()).into_response()
}

/// What is told, for as long as the page is open.
fn told(
    told: watch::Receiver<Option<Told>>,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let next = async |(mut told, place): (watch::Receiver<Option<Told>>, OwnedSemaphorePermit)| {
        told.changed().await.ok()?;
        let event = match &*told.borrow_and_update() {
            Some(Told::State(state)) => Event::default().event("state").data(&**state),
            Some(Told::Away(error)) => Event::default().event("away").data(error.replace(['\r', '\n'], " ")),
            None => Event::default().comment("nothing yet"),
        };
        Some((event, (told, place)))
    };
    stream::unfold((told, place), next).map(Ok)
}

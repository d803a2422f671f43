//! What the page shows, live: one look at the database for all readers, at once when one comes, twice a second while there is
//! one, and at each change of this instance. While nobody reads, only the curves get a point now and then.

mod kept;
mod readers;

pub(super) use readers::events;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, SecondsFormat};
use leased_actors::lease::LeaseStore;
use leased_actors::supervisor::Snapshot;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::kept::{Kept, SAMPLE_EVERY};
use self::readers::{Readers, Told};
use super::neighbours;
use super::report::StatusReport;
use crate::atproto::Micros;
use crate::atproto::guard::Guarded;
use crate::store::{Backend, Database, SqlLeases};

/// At half, a reader costs the database twice as much; at double, a hand-over can be on the page a second late.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// From one look to the next, whatever happens: an instance whose state flutters costs no more than this.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// How often the other instances here are asked, and labels counted, while somebody reads.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// Events of leases that the timeline is drawn of.
const EVENTS_MAX: u32 = 500;

/// The page's source.
pub struct Live {
    database: Database,
    instance: watch::Receiver<Snapshot>,
    label: String,
    host: String,
    client: Guarded,
    is_open: bool,
    readers: Readers,
    kept: Mutex<Kept>,
    /// When the neighbours were asked last; held while they are.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

/// The state, in parts that change at different rates.
struct Parts {
    state: Value,
    events: Value,
    lag: Value,
}

impl Live {
    /// For this instance, which shows `label`; `is_open`: whether there is a token to act with.
    ///
    /// # Errors
    /// If the client for the other instances on this machine cannot be made.
    pub fn new(
        database: Database,
        instance: watch::Receiver<Snapshot>,
        label: &str,
        user_agent: &str,
        is_open: bool,
    ) -> Result<Arc<Self>, crate::atproto::guard::GuardError> {
        Ok(Arc::new(Self {
            database,
            instance,
            label: label.to_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            client: neighbours::client(user_agent)?,
            is_open,
            readers: Readers::default(),
            kept: Mutex::default(),
            asked: tokio::sync::Mutex::default(),
        }))
    }

    /// Samples, and looks for whoever reads, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let all = async { tokio::join!(self.look_for_readers(), self.ask_for_readers(), self.sample()) };
        let _ = stop.run_until_cancelled(all).await;
    }

    async fn look_for_readers(&self) {
        let (mut changes, mut readers) = (self.instance.clone(), self.readers.count());
        loop {
            if readers.wait_for(|count| *count > 0).await.is_err() {
                return;
            }
            changes.mark_unchanged();
            let told = self.state().await.map_or_else(Told::away, |parts| {
                let Parts { state, events, lag } = parts;
                Told::state(&state, &json!({ "events": events }), &json!({ "lag": lag }))
            });
            self.readers.tell(told);
            sleep(LOOK_AFTER).await;
            tokio::select! {
                () = sleep(LOOK_EVERY - LOOK_AFTER) => {}
                _ = readers.changed() => {}
                Ok(()) = changes.changed() => {}
            }
        }
    }

    async fn ask_for_readers(&self) {
        let mut readers = self.readers.count();
        while readers.wait_for(|count| *count > 0).await.is_ok() {
            self.ask().await;
            sleep(ASK_EVERY).await;
        }
    }

    /// A point of each curve. A database that is away leaves a gap.
    async fn sample(&self) {
        loop {
            if let Ok(streams) = self.database.streams_status().await {
                self.kept().sample(Micros::now().0 / 1_000, streams);
            }
            sleep(SAMPLE_EVERY).await;
        }
    }

    /// Asks what is only in the memory of the instances on this machine, unless that was done lately.
    async fn ask(&self) {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|at| at.elapsed() < ASK_EVERY / 2) {
            return;
        }
        if let Ok(labels) = self.database.labels_status().await {
            self.kept().labels = Some(labels);
        }
        if let Ok(mut report) = self.report().await {
            neighbours::ask(&self.client, &self.host, &mut report).await;
            self.kept().told(report);
        }
        *asked = Some(Instant::now());
    }

    async fn report(&self) -> Result<StatusReport, String> {
        let listed = SqlLeases::new(self.database.clone()).list().await.map_err(|error| error.to_string())?;
        let status = self.database.status().await.map_err(|error| error.to_string())?;
        let known = self.kept().labels.clone();
        let labels = match known {
            Some(labels) => labels,
            None => self.database.labels_status().await.map_err(|error| error.to_string())?,
        };
        Ok(StatusReport::new(status, labels, listed))
    }

    /// The state, or why there is none.
    async fn state(&self) -> Result<Parts, String> {
        let leases = SqlLeases::new(self.database.clone());
        let events = leases.history(None, EVENTS_MAX).await.map_err(|error| error.to_string())?;
        let mut report = self.report().await?;
        let now =
            DateTime::from_timestamp_micros(Micros::now().0).ok_or("this machine's clock is out of range")?;
        let kept = self.kept();
        kept.fill(&mut report);
        let instance = self.instance.borrow();
        let state = json!({
            "at": now.to_rfc3339_opts(SecondsFormat::Millis, true),
            "version": env!("CARGO_PKG_VERSION"),
            "label": self.label,
            "incarnation": instance.incarnation,
            "database": match self.database.backend() { Backend::Sqlite => "SQLite", Backend::Postgres => "PostgreSQL" },
            "actions": self.is_open,
            "here": instance.leases,
            "report": report,
        });
        let lag = json!({ "every_seconds": SAMPLE_EVERY.as_secs(), "streams": kept.curves() });
        Ok(Parts { state, events: json!(events), lag })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `/status.json`: the state once.
pub(super) async fn once(State(live): State<Arc<Live>>) -> Response {
    live.ask().await;
    let json = [(axum::http::header::CONTENT_TYPE, "application/json"), super::NO_STORE];
    match live.state().await {
        Ok(Parts { mut state, events, lag }) => {
            (state["events"], state["lag"]) = (events, lag);
            (json, state.to_string()).into_response()
        }
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, json, json!({ "error": error }).to_string()).into_response()
        }
    }
}

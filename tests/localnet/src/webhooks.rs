//! A receiver of webhooks: an endpoint for every path, each answering as it was told to. It keeps what it was sent.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::http::{self, Answer, Listener, Manner, Request};
use crate::lock;

/// Requests that are kept whole; later ones are answered and only counted.
const KEPT_MAX: usize = 200_000;

/// How an endpoint answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// 200 at once.
    #[default]
    Fine,
    /// 200 so many milliseconds later.
    Slow(u32),
    /// Hangs up without a word.
    Down,
    /// Never; the connection stays open.
    Never,
    /// This status.
    Status(u16),
    /// This status with `Retry-After` in seconds.
    RetryAfter(u16, u32),
    /// 302 to this address.
    Redirect(String),
    /// 200 with a body without end.
    Endless,
    /// 200 with a body that comes a byte each 100 ms.
    Drip,
    /// 200 with so many headers.
    Headers(usize),
}

/// A request that came, and how it was answered.
#[derive(Clone, Debug)]
pub struct Received {
    /// When its head and body had come.
    pub at: Instant,
    /// The same by the wall clock, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// Without its query.
    pub path: String,
    /// Names in lower case, in the order of arrival.
    pub headers: Vec<(String, String)>,
    /// As it came.
    pub body: Vec<u8>,
    /// What is, or would be, answered; 0: nothing.
    pub status: u16,
}

impl Received {
    /// The first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The delivery's id.
    pub fn id(&self) -> &str {
        self.header("x-atcr-delivery").unwrap_or_default()
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A running receiver. Dropping it ends it.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
    listener: Listener,
}

#[derive(Debug, Default)]
struct Shared {
    endpoints: Mutex<BTreeMap<String, Endpoint>>,
    received: Mutex<Vec<Received>>,
}

#[derive(Debug, Default)]
struct Endpoint {
    behaviour: Behaviour,
    /// Answers in place of it, the first next.
    scripted: Vec<Behaviour>,
    requests: u64,
    at_once: usize,
    most_at_once: usize,
}

impl Receiver {
    /// Starts on 127.0.0.1 (`port` 0: any free one).
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn start(port: u16) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let serve = move |stream| {
            let shared = Arc::clone(&serving);
            http::serve(stream, move |request| shared.respond(request))
        };
        Ok(Self { shared, listener: Listener::start(port, serve).await? })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.listener.address())
    }

    /// `127.0.0.1:PORT`, for the settings that tell a chat's host.
    pub fn host(&self) -> String {
        self.listener.address().to_string()
    }

    /// How the endpoint of this path behaves from now on.
    pub fn behave(&self, path: &str, behaviour: Behaviour) {
        self.shared.endpoint(path, |endpoint| endpoint.behaviour = behaviour);
    }

    /// How it answers the next requests, one after the other; then as before.
    pub fn script(&self, path: &str, answers: impl IntoIterator<Item = Behaviour>) {
        self.shared.endpoint(path, |endpoint| endpoint.scripted.extend(answers));
    }

    /// Every request so far, in order of arrival.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.shared.received).clone()
    }

    /// Those to this path.
    pub fn received_at(&self, path: &str) -> Vec<Received> {
        lock(&self.shared.received).iter().filter(|received| received.path == path).cloned().collect()
    }

    /// How many came to this path, those that are not kept included.
    pub fn requests(&self, path: &str) -> u64 {
        self.shared.endpoint(path, |endpoint| endpoint.requests)
    }

    /// The most requests that were at this path at the same time.
    pub fn most_at_once(&self, path: &str) -> usize {
        self.shared.endpoint(path, |endpoint| endpoint.most_at_once)
    }

    /// Forgets requests and behaviour.
    pub fn reset(&self) {
        lock(&self.shared.endpoints).clear();
        lock(&self.shared.received).clear();
    }

    /// What came, for the control interface: the newest so many.
    pub(crate) fn listing(&self, newest: usize) -> Value {
        let received = lock(&self.shared.received);
        let from = received.len().saturating_sub(newest);
        let one = |received: &Received| {
            let body = String::from_utf8_lossy(&received.body);
            json!({
                "time_us": received.time_us, "path": received.path, "headers": received.headers, "body": body,
                "status": received.status,
            })
        };
        json!({ "count": received.len(), "received": received[from..].iter().map(one).collect::<Vec<_>>() })
    }
}

/// A request whose answer is not written yet.
struct Present {
    shared: Arc<Shared>,
    path: String,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.shared.endpoint(&self.path, |endpoint| endpoint.at_once = endpoint.at_once.saturating_sub(1));
    }
}

impl Shared {
    fn endpoint<T>(&self, path: &str, act: impl FnOnce(&mut Endpoint) -> T) -> T {
        act(lock(&self.endpoints).entry(path.to_owned()).or_default())
    }

    fn respond(self: &Arc<Self>, request: &Request) -> (Answer, Present) {
        let behaviour = self.endpoint(&request.path, |endpoint| {
            endpoint.requests += 1;
            endpoint.at_once += 1;
            endpoint.most_at_once = endpoint.most_at_once.max(endpoint.at_once);
            if endpoint.scripted.is_empty() {
                endpoint.behaviour.clone()
            } else {
                endpoint.scripted.remove(0)
            }
        });
        let answer = behaviour.answer();
        let status = if matches!(answer.manner, Manner::Never | Manner::HangUp) { 0 } else { answer.status };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let mut received = lock(&self.received);
        if received.len() < KEPT_MAX {
            received.push(Received {
                at: Instant::now(),
                time_us: i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
                path: request.path.clone(),
                headers: request.headers().to_vec(),
                body: request.body.clone(),
                status,
            });
        }
        (answer, Present { shared: Arc::clone(self), path: request.path.clone() })
    }
}

impl Behaviour {
    fn answer(self) -> Answer {
        let ok = |manner| Answer::text(200, "ok").in_manner(manner);
        match self {
            Self::Fine => ok(Manner::Plain),
            Self::Slow(millis) => ok(Manner::Late { millis }),
            Self::Down => ok(Manner::HangUp),
            Self::Never => ok(Manner::Never),
            Self::Status(status) => Answer::text(status, ""),
            Self::RetryAfter(status, seconds) => {
                Answer::text(status, "").with_header("retry-after", seconds.to_string())
            }
            Self::Redirect(to) => Answer::text(302, "").with_header("location", to),
            Self::Endless => ok(Manner::Overlong { bytes: usize::MAX }),
            Self::Drip => Answer::text(200, "x".repeat(10_000)).in_manner(Manner::Slow),
            Self::Headers(count) => {
                (0..count).fold(ok(Manner::Plain), |answer, i| answer.with_header("x-flood", i.to_string()))
            }
        }
    }
}

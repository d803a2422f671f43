//! The HTTP side: the page at `/`, `/metrics`, `/healthz`, `/readyz`, `/holds`. Reads what the instance publishes and what is in
//! the database; changes nothing but by `/actions`, which asks for a token.

mod actions;
mod guard;
mod holds;
mod labeler;
mod live;
pub mod neighbours;
mod page;
pub mod report;

pub use holds::Told;
pub use labeler::Hearing;
pub use live::Live;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use leased_actors::supervisor::Snapshot;
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::actions::Actions;
use self::guard::OnLoopback;
use crate::health::Holds;
use crate::settings::{Listen, Secret};
use crate::store::SqlLeases;

/// The ports that `auto` tries, in order: several instances on one machine each find one.
const AUTO_PORTS: std::ops::RangeInclusive<u16> = 9464..=9479;

/// What the pages show.
#[derive(Clone)]
pub struct Shown {
    /// The metrics.
    pub metrics: PrometheusHandle,
    /// This instance; replaced once it runs.
    pub instance: watch::Receiver<Snapshot>,
    /// Which holds answer. `None`: nobody asks them.
    pub holds: Option<Holds>,
    /// What the page shows.
    pub live: Arc<Live>,
    /// Where wishes go.
    pub leases: SqlLeases,
    /// Who shows it may change something. `None`: nobody may.
    pub token: Option<Secret>,
}

/// Opens the address of the settings. None: off.
///
/// # Errors
/// If the address, or each of the automatic ports, is taken or not ours.
pub async fn bind(listen: Listen) -> std::io::Result<Option<TcpListener>> {
    match listen {
        Listen::Off => Ok(None),
        Listen::At(address) => TcpListener::bind(address).await.map(Some),
        Listen::Auto => {
            let mut last = None;
            for port in AUTO_PORTS {
                match TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await {
                    Ok(listener) => return Ok(Some(listener)),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
        }
    }
}

/// Serves until `stop`, then ends the requests under way.
///
/// # Errors
/// If the listener fails.
pub async fn serve(listener: TcpListener, shown: Shown, stop: CancellationToken) -> std::io::Result<()> {
    let on = OnLoopback(listener.local_addr()?.ip().is_loopback());
    let actions = Actions::new(shown.token.clone(), shown.leases.clone());
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/holds", get(holds::holds))
        .route("/labeler", get(labeler::labeler))
        .with_state(shown.clone())
        .route("/actions", get(actions::check).post(actions::act))
        .layer(DefaultBodyLimit::max(actions::BODY_BYTES_MAX))
        .with_state(actions)
        .route("/status.json", get(live::once))
        .route("/events", get(live::events))
        .with_state(shown.live)
        .route("/", get(page::index))
        .route("/{name}", get(page::named))
        .layer(from_fn_with_state(on, guard::guarded));
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// Prometheus' text format.
async fn metrics(State(shown): State<Shown>) -> impl IntoResponse {
    shown.instance.borrow().observe();
    if let Some(holds) = &shown.holds {
        holds.observe();
    }
    plain("text/plain; version=0.0.4; charset=utf-8", shown.metrics.render())
}

/// Alive: the process answers. Whether it can work is `/readyz`.
async fn healthz() -> impl IntoResponse {
    plain("text/plain; charset=utf-8", "ok\n".to_owned())
}

/// Ready: registered in the database and trusted. Standing by, with no worker here, is ready too.
async fn readyz(State(shown): State<Shown>) -> impl IntoResponse {
    let snapshot = shown.instance.borrow().clone();
    let trusted = !snapshot.trust_remaining().is_zero();
    let status = if trusted { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let running: Vec<_> =
        snapshot.leases.iter().filter(|lease| lease.state == "running").map(|lease| &lease.name).collect();
    let body = json!({
        "ready": trusted,
        "reason": if trusted { None } else { Some("no renewal is acknowledged: is the database away?") },
        "incarnation": snapshot.incarnation,
        "running": running,
        "standing_by": trusted && running.is_empty(),
        "leases": snapshot.leases,
    });
    (status, [NO_STORE], Json(body))
}

const NO_STORE: (HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

fn plain(content_type: &'static str, body: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, content_type), NO_STORE], body)
}

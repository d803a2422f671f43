//! `/holds`: which holds answer, as this instance found it, for the registry beside it.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{NO_STORE, Shown};
use crate::atproto::Did;
use crate::health::{HoldList, HoldState};

/// What is asked for.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    /// One hold; `None`: all that are looked after.
    did: Option<String>,
}

/// The answer about all of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    /// Whose cache it is; null until it is registered.
    pub incarnation: Option<String>,
    /// The program's.
    pub version: String,
    /// Whether holds are asked at all (`hold_health.enabled`).
    pub enabled: bool,
    /// What is known.
    #[serde(flatten)]
    pub list: HoldList,
}

/// All holds at once, or the one of `?did=`, which is asked first if nothing is known of it.
pub(super) async fn holds(State(shown): State<Shown>, Query(which): Query<Which>) -> Response {
    let Some(text) = which.did else {
        let told = Told {
            incarnation: shown.instance.borrow().incarnation.map(|id| id.to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            enabled: shown.holds.is_some(),
            list: shown.holds.map(|holds| holds.list()).unwrap_or_default(),
        };
        return ([NO_STORE], Json(told)).into_response();
    };
    let Ok(did) = Did::parse(&text) else {
        let error = json!({ "error": "did: expected a DID such as \"did:web:hold.example\"" });
        return (StatusCode::BAD_REQUEST, [NO_STORE], Json(error)).into_response();
    };
    let state = match shown.holds {
        Some(holds) => holds.one(&did).await,
        None => HoldState::unknown(did),
    };
    ([NO_STORE], Json(state)).into_response()
}

//! `/actions`: what operators may ask for over HTTP, with the token of `admin.token`. Writes wishes; the instances carry them out.
//! There are no cookies, so a browser shows the token to nobody by itself.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::NO_STORE;
use crate::atproto::Did;
use crate::settings::Secret;
use crate::store::SqlLeases;
use crate::wishes::{self, Refused, named};

/// The longest of a wish, which has two names in it.
pub(super) const BODY_BYTES_MAX: usize = 4 << 10;

/// A wrong token is answered so late, and so many at a time: eight guesses a second, however many ask. At half, twice as many;
/// at double, who mistyped it waits for a second.
const WRONG_AFTER: Duration = Duration::from_millis(500);
const WRONG_AT_ONCE: usize = 4;

/// What is needed to carry out a wish.
pub(super) struct Actions {
    /// None: read-only.
    token: Option<Secret>,
    leases: SqlLeases,
    wrong: Semaphore,
}

/// A wish, as it is sent. `instance` is a label, or the first digits of an incarnation.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Wish {
    Drain {
        instance: String,
    },
    Undrain {
        instance: String,
    },
    Move {
        lease: String,
        instance: String,
    },
    Pause {
        lease: String,
    },
    Resume {
        lease: String,
    },
    Backfill {
        did: Option<String>,
        #[serde(default)]
        all: bool,
    },
}

impl Actions {
    pub(super) fn new(token: Option<Secret>, leases: SqlLeases) -> Arc<Self> {
        Arc::new(Self { token, leases, wrong: Semaphore::new(WRONG_AT_ONCE) })
    }

    /// Whether the request may change something; if not, the answer to it.
    async fn allow(&self, headers: &HeaderMap) -> Result<(), Response> {
        let Some(token) = &self.token else {
            let text = "read-only: admin.token is not set, so nothing that changes state is served";
            return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, text, Some((header::ALLOW, ""))));
        };
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(shown) = shown.and_then(|value| value.strip_prefix("Bearer ")) else {
            let text = "show the token of admin.token: `Authorization: Bearer TOKEN`";
            return Err(refuse(StatusCode::UNAUTHORIZED, text, Some((header::WWW_AUTHENTICATE, "Bearer"))));
        };
        if is_same(shown, token.reveal()) {
            return Ok(());
        }
        tracing::warn!("a request at the admin address showed a wrong token");
        let Ok(_turn) = self.wrong.try_acquire() else {
            return Err(refuse(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens at once", None));
        };
        sleep(WRONG_AFTER).await;
        let error = (header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"");
        Err(refuse(StatusCode::UNAUTHORIZED, "that is not the token of admin.token", Some(error)))
    }

    async fn carry_out(&self, wish: Wish) -> Result<String, Refused> {
        let leases = &self.leases;
        let lease =
            |name: String| name.parse().map_err(|error| Refused::Unknown(format!("lease {name:?}: {error}")));
        Ok(match wish {
            Wish::Drain { instance } => {
                let who = wishes::drain(leases, &instance, true).await?;
                format!("{} gives its leases up and takes none", named(&who))
            }
            Wish::Undrain { instance } => {
                let who = wishes::drain(leases, &instance, false).await?;
                format!("{} takes leases again", named(&who))
            }
            Wish::Move { lease: name, instance } => {
                let name = lease(name)?;
                let who = wishes::hand(leases, &name, &instance).await?;
                format!("{name} moves to {}", named(&who))
            }
            Wish::Pause { lease: name } => {
                let name = lease(name)?;
                wishes::pause(leases, &name, true).await?;
                format!("{name} is stopped on every instance until it is resumed")
            }
            Wish::Resume { lease: name } => {
                let name = lease(name)?;
                wishes::pause(leases, &name, false).await?;
                format!("{name} may run again")
            }
            Wish::Backfill { did: None, all: true } => {
                leases.ask_backfill(None).await?;
                "every repository is asked to be read again".to_owned()
            }
            Wish::Backfill { did: Some(did), all: false } => {
                let did =
                    Did::parse(&did).map_err(|error| Refused::Unknown(format!("did {did:?}: {error}")))?;
                leases.ask_backfill(Some(&did)).await?;
                format!("{did} is asked to be read again")
            }
            Wish::Backfill { .. } => {
                return Err(Refused::Conflict("say either `did` or `\"all\": true`".to_owned()));
            }
        })
    }
}

/// `GET /actions`: whether the token is the right one.
pub(super) async fn check(State(actions): State<Arc<Actions>>, headers: HeaderMap) -> Response {
    match actions.allow(&headers).await {
        Ok(()) => done("the token is right"),
        Err(refused) => refused,
    }
}

/// `POST /actions`: a wish.
pub(super) async fn act(
    State(actions): State<Arc<Actions>>,
    headers: HeaderMap,
    wish: Result<Json<Wish>, JsonRejection>,
) -> Response {
    if let Err(refused) = actions.allow(&headers).await {
        return refused;
    }
    let wish = match wish {
        Ok(Json(wish)) => wish,
        Err(rejection) => return refuse(rejection.status(), &rejection.body_text(), None),
    };
    let asked = format!("{wish:?}");
    match actions.carry_out(wish).await {
        Ok(said) => {
            tracing::info!(asked, said, "asked for at the admin address");
            done(&said)
        }
        Err(refused) => {
            let status = match refused {
                Refused::Unknown(_) => StatusCode::NOT_FOUND,
                Refused::Conflict(_) => StatusCode::CONFLICT,
                Refused::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            refuse(status, &refused.to_string(), None)
        }
    }
}

/// In the same time whatever differs: their digests are compared, and those to their end.
fn is_same(shown: &str, token: &str) -> bool {
    let (shown, token) = (Sha256::digest(shown), Sha256::digest(token));
    shown.iter().zip(&token).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn done(said: &str) -> Response {
    ([NO_STORE], Json(json!({ "done": said }))).into_response()
}

fn refuse(status: StatusCode, error: &str, more: Option<(axum::http::HeaderName, &'static str)>) -> Response {
    let mut response = (status, [NO_STORE], Json(json!({ "error": error }))).into_response();
    if let Some((name, value)) = more {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

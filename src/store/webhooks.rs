//! Webhooks as operators see and set them. What they ask for stands in the database, so it works from any machine.

use leased_actors::lease::StoreError;
use serde::Serialize;

use super::leases::SqlLeases;
use super::queries::webhook_deliveries::{insert_test, new_id};
use super::queries::{billing, due_deliveries, users, webhooks};
use super::session::Session;
use crate::atproto::{Did, Handle};
use crate::outbox::{Gate, Tiers, Trigger, Withheld};
use crate::settings::Secret;

/// Whose webhook it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// By DID.
    Did(Did),
    /// By handle.
    Handle(Handle),
}

/// A webhook to be added.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    /// Whose.
    pub user: User,
    /// Where it leads, checked.
    pub url: String,
    /// What its deliveries are signed with.
    pub secret: Option<Secret>,
    /// When it is told.
    pub triggers: Vec<Trigger>,
}

/// What came of adding one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It has this number.
    As(i64),
    /// The user is not in the index.
    UnknownUser,
    /// The user's tier has no more of them.
    TooMany(Gate),
    /// The user's tier has no such trigger.
    Paid(Trigger),
}

/// A webhook. Its secret is not shown, only whether there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it; times are RFC 3339")]
pub struct WebhookView {
    pub id: i64,
    pub user: String,
    pub handle: Option<String>,
    pub url: String,
    pub triggers: Vec<&'static str>,
    pub created_at: String,
    pub disabled_at: Option<String>,
    pub disabled_reason: Option<String>,
    pub last_attempt_at: Option<String>,
    pub last_status: Option<i64>,
    pub last_error: Option<String>,
    pub failing_since: Option<String>,
    /// Deliveries that wait.
    pub waiting: i64,
    /// Deliveries that were failed because too many were waiting.
    pub dropped: i64,
}

/// How a delivery stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `pending`, `delivered`, `failed` or `withheld`.
    pub status: String,
    /// Why it is withheld.
    pub reason: Option<String>,
    /// Attempts made.
    pub attempts: i64,
    /// The latest answer.
    pub code: Option<i64>,
    /// What went wrong in it.
    pub error: Option<String>,
}

/// Whether a delivery was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is due, under this number.
    As(String),
    /// There is no such webhook or delivery.
    Unknown,
    /// Its webhook is disabled.
    Disabled,
}

impl SqlLeases {
    /// Adds a webhook, if the user's tier allows it.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn add_webhook(&self, new: NewWebhook, tiers: Tiers) -> Result<Added, StoreError> {
        let add = async move |session: &mut Session| {
            let user = match &new.user {
                User::Did(did) => users::identity(session, did).await?.map(|_| did.to_string()),
                User::Handle(handle) => users::of_handle(session, handle.as_str()).await?,
            };
            let Some(user) = user else { return Ok(Added::UnknownUser) };
            if let Ok(did) = Did::parse(&user) {
                // Two that add at once would each see room for one.
                users::lock(session, &[did]).await?;
            }
            let ranks = billing::ranks(session, std::slice::from_ref(&user)).await?;
            let gate = tiers.gate(ranks.first().and_then(|(_, rank)| u32::try_from(*rank).ok()));
            if let Some(paid) = new.triggers.iter().find(|trigger| !gate.all_triggers && trigger.is_paid()) {
                return Ok(Added::Paid(*paid));
            }
            if webhooks::count_of(session, &user).await? >= i64::from(gate.webhooks_max) {
                return Ok(Added::TooMany(gate));
            }
            let bits = new.triggers.iter().fold(0, |bits, trigger| bits | trigger.bit());
            let secret = new.secret.as_ref().map(Secret::reveal);
            let id = webhooks::insert(session, &user, &new.url, secret, bits).await?;
            Ok(id.map_or(Added::UnknownUser, Added::As))
        };
        self.transact(None, "add a webhook".to_owned(), add).await
    }

    /// Webhooks in the order of their numbers: all, or those of one user.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn webhooks(&self, user: Option<User>) -> Result<Vec<WebhookView>, StoreError> {
        let list = async move |session: &mut Session| {
            let user = match &user {
                None => return webhooks::list(session, None).await,
                Some(User::Did(did)) => Some(did.to_string()),
                Some(User::Handle(handle)) => users::of_handle(session, handle.as_str()).await?,
            };
            match user {
                Some(user) => webhooks::list(session, Some(&user)).await,
                None => Ok(Vec::new()),
            }
        };
        Ok(self.read("list webhooks", list).await?.into_iter().map(view).collect())
    }

    /// Removes a webhook with its deliveries. Whether there was one.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn remove_webhook(&self, id: i64) -> Result<bool, StoreError> {
        let remove = async move |session: &mut Session| webhooks::delete(session, id).await;
        self.transact(None, format!("remove webhook {id}"), remove).await
    }

    /// Enables a webhook, whoever disabled it. What was withheld meanwhile stays so. Whether there is one.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn enable_webhook(&self, id: i64) -> Result<bool, StoreError> {
        let enable = async move |session: &mut Session| webhooks::enable(session, id).await;
        self.transact(None, format!("enable webhook {id}"), enable).await
    }

    /// Disables a webhook: what waits is withheld, and nothing more is put in for it. Whether there is one.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn disable_webhook(&self, id: i64, reason: String) -> Result<bool, StoreError> {
        let disable = async move |session: &mut Session| {
            // In the order in which the sender locks them.
            due_deliveries::withhold_all(session, id, Withheld::Disabled).await?;
            webhooks::disable(session, id, &reason).await
        };
        self.transact(None, format!("disable webhook {id}"), disable).await
    }

    /// Puts a test into the outbox.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn test_webhook(&self, id: i64) -> Result<Asked, StoreError> {
        let test = async move |session: &mut Session| {
            let Some((.., disabled_at, _)) = webhooks::endpoints(session, &[id]).await?.pop() else {
                return Ok(Asked::Unknown);
            };
            if disabled_at.is_some() {
                return Ok(Asked::Disabled);
            }
            let delivery = new_id();
            insert_test(session, id, &delivery).await?;
            Ok(Asked::As(delivery))
        };
        self.transact(None, format!("test webhook {id}"), test).await
    }

    /// Makes a delivery due again, under its own number and with its own bytes.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn redeliver(&self, delivery: String) -> Result<Asked, StoreError> {
        let operation = format!("redeliver {delivery}");
        let ask = async move |session: &mut Session| {
            match due_deliveries::standing(session, &delivery).await? {
                None => return Ok(Asked::Unknown),
                Some((.., Some(_))) => return Ok(Asked::Disabled),
                Some(_) => {}
            }
            let webhook = due_deliveries::redeliver(session, &delivery).await?;
            Ok(webhook.map_or(Asked::Unknown, |_| Asked::As(delivery)))
        };
        self.transact(None, operation, ask).await
    }

    /// How a delivery stands.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn delivery(&self, id: &str) -> Result<Option<Standing>, StoreError> {
        let id = id.to_owned();
        let read = async move |session: &mut Session| due_deliveries::standing(session, &id).await;
        let row = self.read("read a delivery", read).await?;
        Ok(row.map(|(_, status, reason, attempts, code, error, _)| Standing {
            status,
            reason,
            attempts,
            code,
            error,
        }))
    }
}

fn view(row: webhooks::ViewRow) -> WebhookView {
    let (id, user, handle, url, triggers, created, disabled, disabled_reason, last, last_status, ..) =
        row.clone();
    let (.., last_error, failing_since, dropped, waiting) = row;
    let at = |us: i64| {
        let at = chrono::DateTime::from_timestamp_micros(us).unwrap_or_default();
        at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
    };
    WebhookView {
        id,
        user,
        handle: (handle != users::NO_HANDLE).then_some(handle),
        url,
        triggers: Trigger::of_bits(triggers).into_iter().map(Trigger::as_str).collect(),
        created_at: at(created),
        disabled_at: disabled.map(at),
        disabled_reason,
        last_attempt_at: last.map(at),
        last_status,
        last_error,
        failing_since: failing_since.map(at),
        waiting,
        dropped,
    }
}

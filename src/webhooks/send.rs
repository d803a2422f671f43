//! One attempt: a request through the guarded client. Owns what is on the wire; an address and a secret go no further than
//! this.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use url::Url;

use super::format::{ChatHosts, Format};
use super::schedule::Heard;
use super::sign::signatures;
use crate::atproto::guard::{Ask, Guarded};
use crate::outbox::DueDelivery;

/// Of an answer. Nothing in it counts but its status; the rest is read so that the connection can be used again.
const ANSWER_LEN_MAX: usize = 64 << 10;

/// What receivers know us by; their filters are made of it.
const AGENT: &str = "ATCR-Webhook/1";

/// Posts deliveries.
pub(super) struct Post {
    pub(super) guarded: Guarded,
    pub(super) hosts: ChatHosts,
    pub(super) timeout: Duration,
}

impl Post {
    /// Posts a delivery, within the time limit. Cancel-safe: a dropped call breaks the connection off.
    pub(super) async fn post(&self, delivery: &DueDelivery) -> (Format, Heard) {
        let format = Format::of(&delivery.url, &self.hosts);
        let body = format.body(delivery);
        let ask = Ask {
            method: Method::POST,
            url: &delivery.url,
            headers: headers(delivery, format, &body),
            body,
            body_len_max: ANSWER_LEN_MAX,
            timeout: Some(self.timeout),
        };
        let heard = match self.guarded.send(ask).await {
            Ok(answer) => Heard::Answer(answer.status, answer.allowance()),
            Err(error) => Heard::Nothing(error),
        };
        (format, heard)
    }
}

/// The host alone, by which the client counts its turns; an address that cannot be read has none.
pub(super) fn host_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
}

fn headers(delivery: &DueDelivery, format: Format, body: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    let mut insert = |name: &'static str, text: &str| {
        // None of them can hold a character that a header refuses; if one did, its absence tells more than no delivery.
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    insert("x-atcr-event", delivery.trigger.as_str());
    insert("x-atcr-delivery", &delivery.id);
    insert("idempotency-key", &delivery.id);
    // Chats know their own webhooks by the address, and no other signature.
    if let (Format::Json, Some(secret)) = (format, &delivery.secret) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signatures = signatures(secret, &delivery.id, now, body);
        signatures.iter().for_each(|(name, text)| insert(name, text));
    }
    headers
}

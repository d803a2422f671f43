//! Stripe, as far as subscriptions are read: every page of the list, and one by its id. Nothing is ever written there.
//!
//! Owns how a request is tried again, when a list has come to its end, and that no error shows the key.

mod answer;
mod error;

pub use answer::{Status, Subscription};
pub use error::StripeError;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::Rng;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde::de::DeserializeOwned;
use url::Url;

use self::answer::{Customer, Item, List, Page};
use super::errand::{Errand, Halted};
use super::meters;
use crate::atproto::guard::{Allowance, Answer, Ask, Guarded};
use crate::settings::Secret;

/// The version of Stripe's API that is asked for, so that an upgrade of the account changes nothing here. Answers of older and
/// newer shape are read as well: other programs that speak this API ignore it.
const VERSION: &str = "2025-03-31.basil";

/// Stripe's own bound on a page.
const PAGE_LEN: &str = "100";

/// A page of 100 subscriptions with their customers is about 1 MB; with all the metadata that Stripe allows, 10.
const BODY_LEN_MAX: usize = 16 << 20;

/// Pages of one list: a million subscriptions. At double, memory for them is a gigabyte; at half, one would have to think.
const PAGES_MAX: u32 = 10_000;

/// Tries of one request. Stripe asks for a pause of a second or so; one that refuses three times over is one for later.
const TRIES_MAX: u32 = 3;

/// The longest pause that a try waits for; longer ones are for the next refresh.
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// What went wrong, or that nothing may be asked any more.
pub(super) type Asked<T> = Result<Result<T, StripeError>, Halted>;

/// Asks Stripe. Its `Debug` does not show the key.
#[derive(Clone)]
pub struct Stripe {
    client: Guarded,
    base: String,
    headers: HeaderMap,
    first_pause: Duration,
}

impl std::fmt::Debug for Stripe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stripe").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Stripe {
    /// `client` reaches addresses that the operator chose.
    pub fn new(client: Guarded, base: &str, key: &Secret) -> Self {
        let mut shown = HeaderValue::from_str(&format!("Bearer {}", key.reveal()))
            .expect("a secret is visible ASCII: the settings refuse any other");
        shown.set_sensitive(true);
        let version = HeaderValue::from_static(VERSION);
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, shown),
            (HeaderName::from_static("stripe-version"), version),
        ]);
        let base = base.trim_end_matches('/').to_owned();
        Self { client, base, headers, first_pause: Duration::from_millis(500) }
    }

    /// Every subscription that is not canceled, each once; an error, whatever it is, if one page is missing.
    pub(super) async fn subscriptions(&self, errand: &Errand) -> Asked<Vec<Subscription>> {
        let mut listing = Listing::default();
        let mut after: Option<String> = None;
        for page in 0..=PAGES_MAX {
            let parameters = [
                Some(("limit", PAGE_LEN)),
                Some(("expand[]", "data.customer")),
                after.as_deref().map(|id| ("starting_after", id)),
            ];
            let parameters: Vec<_> = parameters.into_iter().flatten().collect();
            let Page { data, has_more } =
                match self.get::<Page>(errand, "/v1/subscriptions", &parameters).await? {
                    Ok(page) => page,
                    Err(error) => return Ok(Err(error)),
                };
            let last = data.last().map(|subscription| subscription.id.clone());
            for raw in data {
                let raw = match self.completed(errand, raw, &mut listing.customers).await? {
                    Ok(raw) => raw,
                    Err(error) => return Ok(Err(error)),
                };
                if !listing.ids.insert(raw.id.clone()) {
                    return Ok(Err(StripeError::Unreadable("a list that goes round")));
                }
                listing.found.push(raw.read());
            }
            match (has_more, last) {
                (false, _) if page == 0 => return Ok(Ok(listing.found)),
                (false, _) => return self.created_meanwhile(errand, listing).await,
                (true, None) => {
                    return Ok(Err(StripeError::Unreadable("an empty page that is not the last")));
                }
                (true, last) => after = last,
            }
        }
        Ok(Err(StripeError::Unreadable("a list without end")))
    }

    /// New subscriptions come at the head of the list, which was left behind when later pages were read: who has just gone
    /// from one subscription to another must not be taken for somebody without any.
    async fn created_meanwhile(&self, errand: &Errand, mut listing: Listing) -> Asked<Vec<Subscription>> {
        let parameters = [("limit", PAGE_LEN), ("expand[]", "data.customer")];
        let page = match self.get::<Page>(errand, "/v1/subscriptions", &parameters).await? {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        for raw in page.data {
            if listing.ids.insert(raw.id.clone()) {
                match self.completed(errand, raw, &mut listing.customers).await? {
                    Ok(raw) => listing.found.push(raw.read()),
                    Err(error) => return Ok(Err(error)),
                }
            }
        }
        Ok(Ok(listing.found))
    }

    /// One subscription, whatever its status; none: this account of Stripe's has no such thing.
    pub(super) async fn subscription(&self, errand: &Errand, id: &str) -> Asked<Option<Subscription>> {
        let path = format!("/v1/subscriptions/{id}");
        match self.get::<answer::Raw>(errand, &path, &[("expand[]", "customer")]).await? {
            Err(error) if error.is_missing() => Ok(Ok(None)),
            Err(error) => Ok(Err(error)),
            Ok(raw) => {
                Ok(self.completed(errand, raw, &mut BTreeMap::new()).await?.map(|raw| Some(raw.read())))
            }
        }
    }

    /// Fetches what a subscription only names: its customer, where they were not expanded, and further items.
    async fn completed(
        &self,
        errand: &Errand,
        mut raw: answer::Raw,
        known: &mut BTreeMap<String, Customer>,
    ) -> Asked<answer::Raw> {
        if let Customer::Named(id) = &raw.customer {
            let customer = match known.get(id) {
                Some(customer) => customer.clone(),
                None => match self.get::<Customer>(errand, &format!("/v1/customers/{id}"), &[]).await? {
                    Ok(customer) => known.entry(id.clone()).or_insert(customer).clone(),
                    Err(error) => return Ok(Err(error)),
                },
            };
            raw.customer = customer;
        }
        if raw.items.has_more {
            // Twenty at most, by Stripe's own bound, and ten of them in a list: this page has them all.
            let parameters = [("subscription", raw.id.as_str()), ("limit", PAGE_LEN)];
            match self.get::<List<Item>>(errand, "/v1/subscription_items", &parameters).await? {
                Ok(items) => raw.items = items,
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(raw))
    }

    /// Asks, and again where that is worth it.
    async fn get<T: DeserializeOwned>(
        &self,
        errand: &Errand,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Asked<T> {
        let mut pause = self.first_pause;
        for tries in 1.. {
            let error = match errand.go(self.get_once::<T>(path, parameters)).await? {
                Ok(answer) => return Ok(Ok(answer)),
                Err(error) => error,
            };
            meters::stripe_failed(&error);
            let wait = error.retry_after().unwrap_or(pause);
            if !error.is_temporary() || tries >= TRIES_MAX || wait > PAUSE_MAX {
                return Ok(Err(error));
            }
            let jitter = rand::rng().random_range(0.0..0.25);
            errand.rest(wait.mul_f64(1.0 + jitter)).await?;
            pause *= 2;
        }
        unreachable!("the tries are bounded")
    }

    async fn get_once<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<T, StripeError> {
        let url = format!("{}{path}", self.base);
        let mut url = Url::parse(&url).map_err(|_| StripeError::Unreadable("an address"))?;
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        let ask = Ask {
            method: Method::GET,
            url: url.as_str(),
            headers: self.headers.clone(),
            body: Vec::new(),
            body_len_max: BODY_LEN_MAX,
            timeout: None,
        };
        let answer = self.client.send(ask).await?;
        judge(&answer)?;
        let read = serde_json::from_slice(&answer.body);
        read.map_err(|_| StripeError::Unreadable("an answer that is not this API's"))
    }
}

/// What was read of a list.
#[derive(Default)]
struct Listing {
    ids: BTreeSet<String>,
    found: Vec<Subscription>,
    customers: BTreeMap<String, Customer>,
}

/// The one place where an answer is sorted into read, later and never.
fn judge(answer: &Answer) -> Result<(), StripeError> {
    let retry_after = match answer.allowance() {
        Allowance::RefusedFor(wait) => Some(wait),
        _ => None,
    };
    match answer.status {
        200..=299 if answer.is_cut => Err(StripeError::Unreadable("an answer without end")),
        200..=299 => Ok(()),
        // 409: a request beside ours had a lock; 424: something behind Stripe.
        status @ (408 | 409 | 424 | 425 | 429 | 500..=599) => {
            Err(StripeError::Trouble { status, retry_after })
        }
        status => Err(StripeError::refused(status, &answer.body)),
    }
}

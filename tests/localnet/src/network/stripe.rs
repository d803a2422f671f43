//! Stripe, as far as subscriptions are read: its list in pages, one by its id, customers, items. Shapes and errors are those of
//! its documents; <https://docs.stripe.com/api/subscriptions/list>.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Net, World};
use crate::http::{Answer, Request};
use crate::lock;

/// The key that is taken.
pub const STRIPE_KEY: &str = "sk_test_localnet_4eC39HqLyjWDarjtT1zdp7dc";

const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 100;
/// Items of a subscription in a list; the rest has a list of its own.
const ITEMS_MAX: usize = 10;
/// 2033-05-18: the end of every period, unless it is set.
const PERIOD_END: i64 = 2_000_000_000;

/// What Stripe has.
#[derive(Debug, Default)]
pub(super) struct Desk {
    made: usize,
    customers: BTreeMap<String, BTreeMap<String, String>>,
    /// Oldest first.
    subscriptions: Vec<Subscription>,
    is_older: bool,
}

#[derive(Debug)]
struct Subscription {
    id: String,
    customer: String,
    status: String,
    prices: Vec<String>,
    period_end: i64,
}

/// Customers and subscriptions.
impl Net {
    /// `http://127.0.0.1:PORT` of Stripe.
    pub fn stripe_url(&self) -> String {
        format!("http://{}", self.stripe.address())
    }

    /// A customer with this DID under this key of its metadata; its id.
    pub fn add_customer(&self, key: &str, did: &str) -> String {
        let mut desk = lock(&self.world.stripe);
        let id = desk.id("cus");
        desk.customers.insert(id.clone(), BTreeMap::from([(key.to_owned(), did.to_owned())]));
        id
    }

    /// A customer's metadata say this from now on.
    pub fn set_metadata(&self, customer: &str, key: &str, value: &str) {
        let mut desk = lock(&self.world.stripe);
        desk.customers.entry(customer.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
    }

    /// An active subscription to these prices; its id.
    pub fn subscribe(&self, customer: &str, prices: &[&str]) -> String {
        let mut desk = lock(&self.world.stripe);
        let id = desk.id("sub");
        let prices = prices.iter().map(|price| (*price).to_owned()).collect();
        let (customer, status) = (customer.to_owned(), "active".to_owned());
        let made = Subscription { id: id.clone(), customer, status, prices, period_end: PERIOD_END };
        desk.subscriptions.push(made);
        id
    }

    /// A subscription stands so from now on: `canceled`, `past_due` and so on. False: there is none.
    pub fn set_subscription(&self, id: &str, status: &str) -> bool {
        self.change(id, |subscription| subscription.status = status.to_owned())
    }

    /// It is to these prices from now on.
    pub fn set_prices(&self, id: &str, prices: &[&str]) -> bool {
        let prices: Vec<String> = prices.iter().map(|price| (*price).to_owned()).collect();
        self.change(id, |subscription| subscription.prices = prices)
    }

    /// It is paid until then (seconds).
    pub fn set_period_end(&self, id: &str, seconds: i64) -> bool {
        self.change(id, |subscription| subscription.period_end = seconds)
    }

    /// Nothing that was made here is known any more, as with the key of another account.
    pub fn forget_subscriptions(&self) {
        lock(&self.world.stripe).subscriptions.clear();
    }

    /// Answers are of an older version of the API: items have plans, the subscription has the end of its period, customers
    /// are not expanded.
    pub fn set_older_stripe(&self, on: bool) {
        lock(&self.world.stripe).is_older = on;
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Subscription)) -> bool {
        let mut desk = lock(&self.world.stripe);
        let found = desk.subscriptions.iter_mut().find(|subscription| subscription.id == id);
        found.map(change).is_some()
    }
}

impl Desk {
    fn id(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}_{:06}", self.made)
    }

    fn customer(&self, id: &str) -> Option<Value> {
        let metadata = self.customers.get(id)?;
        Some(json!({ "id": id, "object": "customer", "metadata": metadata }))
    }

    fn show(&self, subscription: &Subscription, expands: bool) -> Value {
        let Subscription { id, customer, status, prices, period_end } = subscription;
        let expanded = self.customer(customer).filter(|_| expands && !self.is_older);
        let items: Vec<Value> =
            prices.iter().take(ITEMS_MAX).map(|price| self.item(price, *period_end)).collect();
        let mut shown = json!({
            "id": id, "object": "subscription", "status": status, "livemode": false, "metadata": {},
            "customer": expanded.unwrap_or_else(|| json!(customer)),
            "items": { "object": "list", "data": items, "has_more": prices.len() > ITEMS_MAX },
        });
        if self.is_older {
            shown["current_period_end"] = json!(period_end);
        }
        shown
    }

    fn item(&self, price: &str, period_end: i64) -> Value {
        let of = json!({ "id": price, "object": if self.is_older { "plan" } else { "price" } });
        if self.is_older {
            json!({ "object": "subscription_item", "plan": of })
        } else {
            json!({ "object": "subscription_item", "price": of, "current_period_end": period_end })
        }
    }
}

pub(super) fn answer(world: &World, request: &Request) -> Answer {
    let shown = request.header("authorization").unwrap_or_default();
    if shown != format!("Bearer {STRIPE_KEY}") {
        // Stripe's own text has the first and last letters; a server that repeats all of it is the harder test.
        return refusal(401, None, &format!("Invalid API Key provided: {shown}"));
    }
    let desk = lock(&world.stripe);
    let expands = request.query.contains("customer");
    let find = |id: &str| desk.subscriptions.iter().find(|subscription| subscription.id == id);
    match request.path.strip_prefix("/v1/").map(|path| path.split_once('/').unwrap_or((path, ""))) {
        Some(("subscriptions", "")) => list(&desk, request, expands),
        Some(("subscriptions", id)) => {
            find(id).map_or_else(|| missing(id), |found| Answer::json(200, &desk.show(found, expands)))
        }
        Some(("customers", id)) => {
            desk.customer(id).map_or_else(|| missing(id), |found| Answer::json(200, &found))
        }
        Some(("subscription_items", "")) => {
            let id = request.parameter("subscription").unwrap_or_default();
            let items = |found: &Subscription| {
                let data = found.prices.iter().map(|price| desk.item(price, found.period_end));
                Answer::json(
                    200,
                    &json!({ "object": "list", "data": data.collect::<Vec<_>>(), "has_more": false }),
                )
            };
            find(&id).map_or_else(|| missing(&id), items)
        }
        _ => refusal(404, None, "Unrecognized request URL"),
    }
}

/// Newest first; canceled ones are left out, but a cursor may be one.
fn list(desk: &Desk, request: &Request, expands: bool) -> Answer {
    let limit = request.parameter("limit").map_or(Ok(LIMIT_DEFAULT), |limit| limit.parse());
    let Some(limit) = limit.ok().filter(|limit| (1..=LIMIT_MAX).contains(limit)) else {
        return refusal(400, Some("parameter_invalid_integer"), "limit");
    };
    let newest_first = || desk.subscriptions.iter().rev();
    let after = match request.parameter("starting_after") {
        None => 0,
        Some(id) => match newest_first().position(|subscription| subscription.id == id) {
            None => return missing(&id),
            Some(at) => at + 1,
        },
    };
    let mut rest = newest_first().skip(after).filter(|subscription| subscription.status != "canceled");
    let data: Vec<Value> = rest.by_ref().take(limit).map(|found| desk.show(found, expands)).collect();
    let has_more = rest.next().is_some();
    Answer::json(
        200,
        &json!({ "object": "list", "url": "/v1/subscriptions", "data": data, "has_more": has_more }),
    )
}

fn missing(id: &str) -> Answer {
    refusal(404, Some("resource_missing"), &format!("No such object: '{id}'"))
}

/// The error envelope.
pub(super) fn refusal(status: u16, code: Option<&str>, message: &str) -> Answer {
    let kind = if status >= 500 { "api_error" } else { "invalid_request_error" };
    Answer::json(status, &json!({ "error": { "type": kind, "code": code, "message": message } }))
}

//! The shapes of Stripe's answers, as far as they are read: the present one, where an item has a price and the end of the
//! period, and the older one, where it has a plan, and the subscription the end.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::atproto::{Did, Micros};

/// Keys of a customer's metadata that hold the DID, in this order: the registry writes the first, older set-ups the others.
pub(super) const DID_KEYS: [&str; 3] = ["did", "user_did", "userDid"];

/// How a subscription stands. <https://docs.stripe.com/api/subscriptions/object#subscription_object-status>
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It is paid.
    Active,
    /// It will have to be paid.
    Trialing,
    /// A payment is late.
    PastDue,
    /// Stripe has given up asking for one.
    Unpaid,
    /// The first payment has not come.
    Incomplete,
    /// It never came.
    IncompleteExpired,
    /// A trial ended without a way to pay.
    Paused,
    /// It is over.
    Canceled,
    /// A word that is not known here: nothing is given for it.
    Other,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Active,
        Self::Trialing,
        Self::PastDue,
        Self::Unpaid,
        Self::Incomplete,
        Self::IncompleteExpired,
        Self::Paused,
        Self::Canceled,
        Self::Other,
    ];

    /// Stripe's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Trialing => "trialing",
            Self::PastDue => "past_due",
            Self::Unpaid => "unpaid",
            Self::Incomplete => "incomplete",
            Self::IncompleteExpired => "incomplete_expired",
            Self::Paused => "paused",
            Self::Canceled => "canceled",
            Self::Other => "other",
        }
    }

    fn read(word: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.word() == word).unwrap_or(Self::Other)
    }
}

/// A subscription, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Stripe's id.
    pub id: String,
    /// Stripe's id of who pays.
    pub customer: String,
    /// Whose account it is for, if the customer says so.
    pub user: Option<Did>,
    /// How it stands.
    pub status: Status,
    /// The prices of its items, and plans by the same name.
    pub prices: Vec<String>,
    /// Until when it is paid, if that is said: the latest of its items'.
    pub period_end: Option<Micros>,
}

#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) data: Vec<Raw>,
    pub(super) has_more: bool,
}

#[derive(Deserialize)]
pub(super) struct Raw {
    pub(super) id: String,
    status: String,
    pub(super) customer: Customer,
    #[serde(default)]
    pub(super) items: List<Item>,
    plan: Option<Price>,
    current_period_end: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct List<T> {
    data: Vec<T>,
    #[serde(default)]
    pub(super) has_more: bool,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { data: Vec::new(), has_more: false }
    }
}

#[derive(Deserialize)]
pub(super) struct Item {
    price: Option<Price>,
    plan: Option<Price>,
    current_period_end: Option<i64>,
}

#[derive(Deserialize)]
struct Price {
    id: String,
}

/// By its id alone, or expanded. A deleted one has no metadata.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Customer {
    Named(String),
    Known {
        id: String,
        #[serde(default)]
        metadata: Option<BTreeMap<String, String>>,
    },
}

impl Raw {
    pub(super) fn read(self) -> Subscription {
        let (customer, metadata) = match self.customer {
            Customer::Named(id) => (id, None),
            Customer::Known { id, metadata } => (id, metadata),
        };
        let did =
            |key: &&str| metadata.as_ref().and_then(|all| all.get(*key)).filter(|text| !text.is_empty());
        // The first key that is there decides, for good or ill: another one must not stand in for a broken one.
        let user = DID_KEYS.iter().find_map(did).and_then(|text| Did::parse(text.trim()).ok());
        let ends = self.items.data.iter().filter_map(|item| item.current_period_end);
        let period_end = ends.chain(self.current_period_end).max();
        let of_item = |item: Item| [item.price, item.plan];
        let prices = self.items.data.into_iter().flat_map(of_item).chain([self.plan]).flatten();
        Subscription {
            id: stored(&self.id),
            customer: stored(&customer),
            user,
            status: Status::read(&self.status),
            prices: prices.map(|price| price.id).collect(),
            period_end: period_end.and_then(|seconds| seconds.checked_mul(1_000_000)).map(Micros),
        }
    }
}

/// An id as the database and an address take it: Stripe's own have nothing else.
fn stored(id: &str) -> String {
    id.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(255).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn read(raw: Value) -> Subscription {
        serde_json::from_value::<Raw>(raw).unwrap().read()
    }

    #[test]
    fn the_present_shape_and_the_older_one_are_read() {
        let present = read(json!({
            "id": "sub_1", "status": "active", "customer": {"id": "cus_1", "metadata": {"did": "did:plc:a"}},
            "items": {"has_more": false, "data": [
                {"price": {"id": "price_1"}, "plan": {"id": "price_1"}, "current_period_end": 1_900_000_000},
                {"price": {"id": "price_2"}, "current_period_end": 1_800_000_000},
            ]},
        }));
        assert_eq!(present.prices, ["price_1", "price_1", "price_2"]);
        assert_eq!(present.period_end, Some(Micros(1_900_000_000_000_000)));
        let older = read(json!({
            "id": "sub_1", "status": "past_due", "customer": {"id": "cus_1", "metadata": {}},
            "current_period_end": 1_700_000_000, "items": {"data": [{"plan": {"id": "plan_1"}}]},
        }));
        assert_eq!((older.prices, older.user), (vec!["plan_1".to_owned()], None));
        assert_eq!(older.period_end, Some(Micros(1_700_000_000_000_000)));
        let oldest = read(json!({
            "id": "sub_1", "status": "active", "customer": {"id": "cus_1", "deleted": true},
            "plan": {"id": "plan_1"}, "current_period_end": null,
        }));
        assert_eq!((oldest.prices, oldest.period_end), (vec!["plan_1".to_owned()], None));
    }

    #[test]
    fn the_account_is_under_one_of_three_names_and_the_first_decides() {
        for (metadata, user) in [
            (json!({"did": "did:plc:a", "user_did": "did:plc:b"}), Some("did:plc:a")),
            (json!({"user_did": "did:plc:b", "userDid": "did:plc:c"}), Some("did:plc:b")),
            (json!({"userDid": " did:plc:c "}), Some("did:plc:c")),
            (json!({"did": "", "userDid": "did:plc:c"}), Some("did:plc:c")),
            (json!({"did": "alice.example", "userDid": "did:plc:c"}), None),
            (json!({"DID": "did:plc:a"}), None),
        ] {
            let found =
                read(json!({"id": "s", "status": "active", "customer": {"id": "c", "metadata": metadata}}));
            assert_eq!(found.user.as_ref().map(|did| did.as_str()), user, "{metadata}");
        }
    }

    #[test]
    fn a_word_that_is_not_known_is_another_status() {
        let status = |word: &str| read(json!({"id": "s", "status": word, "customer": "c"})).status;
        assert_eq!(status("trialing"), Status::Trialing);
        assert_eq!(status("suspended"), Status::Other);
    }
}

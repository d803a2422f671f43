//! Every status, price and combination that decides a rank.
#![allow(clippy::unwrap_used)]

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn tier(name: &str, prices: &[&str]) -> Tier {
    let price_ids = prices.iter().map(|price| (*price).to_owned()).collect();
    Tier { name: name.to_owned(), price_ids, max_webhooks: 1, all_triggers: false }
}

fn ranks() -> Ranks {
    let tiers = [tier("free", &[]), tier("pro", &["pro_month", "pro_year"]), tier("team", &["team"])];
    Ranks::new(&tiers, DAY * 7)
}

fn did(name: &str) -> Did {
    Did::parse(&format!("did:plc:{name}")).unwrap()
}

fn sub(id: &str, user: &str, status: Status, prices: &[&str]) -> Subscription {
    Subscription {
        id: id.to_owned(),
        customer: format!("cus_{user}"),
        user: Some(did(user)),
        status,
        prices: prices.iter().map(|price| (*price).to_owned()).collect(),
        period_end: Some(Micros(1_000)),
    }
}

fn rank_of(subscriptions: &[Subscription], late: &[(&str, Duration)]) -> (u32, String) {
    let late = late.iter().map(|(id, time)| ((*id).to_owned(), *time)).collect();
    let desired = ranks().desired(subscriptions, &late);
    let alice = &desired.subscribers[&did("alice")];
    (alice.rank, alice.subscription.clone())
}

#[test]
fn only_what_is_paid_gives_a_rank() {
    for status in Status::ALL {
        let paid = matches!(status, Status::Active | Status::Trialing | Status::PastDue);
        let (rank, _) = rank_of(&[sub("s", "alice", status, &["team"])], &[]);
        assert_eq!(rank, if paid { 2 } else { 0 }, "{status:?}");
    }
}

#[test]
fn a_late_payment_keeps_its_rank_for_the_grace_and_not_longer() {
    let late = [sub("s", "alice", Status::PastDue, &["pro_month"])];
    assert_eq!(rank_of(&late, &[("s", DAY * 7 - Duration::from_secs(1))]).0, 1);
    assert_eq!(rank_of(&late, &[("s", DAY * 7)]).0, 0);
    let none = Ranks { grace: Duration::ZERO, ..ranks() };
    assert_eq!(none.desired(&late, &BTreeMap::new()).subscribers[&did("alice")].rank, 0);
}

#[test]
fn the_highest_price_counts_over_items_and_subscriptions_in_any_order() {
    assert_eq!(rank_of(&[sub("s", "alice", Status::Active, &["addon", "team", "pro_year"])], &[]).0, 2);
    let mut several = vec![
        sub("a", "alice", Status::Canceled, &["team"]),
        sub("b", "alice", Status::Active, &["pro_month"]),
        sub("c", "alice", Status::PastDue, &["team"]),
    ];
    let too_late = [("c", DAY * 8)];
    for _ in 0..3 {
        several.rotate_left(1);
        assert_eq!(rank_of(&several, &[]), (2, "c".to_owned()));
        assert_eq!(rank_of(&several, &too_late), (1, "b".to_owned()));
    }
}

#[test]
fn of_two_equal_ones_the_active_and_then_the_longer_one_is_kept() {
    let longer =
        Subscription { period_end: Some(Micros(2_000)), ..sub("a", "alice", Status::Active, &["team"]) };
    let late =
        Subscription { period_end: Some(Micros(9_000)), ..sub("z", "alice", Status::PastDue, &["team"]) };
    let shorter = sub("b", "alice", Status::Active, &["team"]);
    assert_eq!(rank_of(&[late.clone(), longer.clone(), shorter.clone()], &[]).1, "a");
    assert_eq!(rank_of(&[shorter, longer, late], &[]).1, "a");
}

#[test]
fn customers_without_an_account_and_prices_without_a_tier_are_told() {
    let unnamed = Subscription { user: None, ..sub("a", "nobody", Status::Active, &["team"]) };
    let unknown = sub("b", "alice", Status::Active, &["legacy"]);
    let over = sub("c", "bob", Status::Canceled, &["older"]);
    let desired = ranks().desired(&[unnamed, unknown, over], &BTreeMap::new());
    assert_eq!((desired.unnamed, desired.subscribers.len()), (1, 2));
    assert_eq!(desired.unknown_prices.iter().collect::<Vec<_>>(), ["legacy"]);
    assert_eq!(desired.subscribers[&did("alice")].rank, 0);
}

#[test]
fn who_is_listed_no_more_loses_the_rank_only_by_stripes_own_word_or_in_time() {
    let known =
        Subscriber { rank: 2, ..subscriber(&did("alice"), &sub("s", "alice", Status::Active, &[]), 2) };
    let (ranks, now) = (ranks(), Micros(2_000));
    let canceled = sub("s", "alice", Status::Canceled, &["team"]);
    let after = ranks.unlisted(&known, Some(&canceled), now).unwrap();
    assert_eq!((after.rank, after.status.as_str()), (0, "canceled"));
    let still = sub("s", "alice", Status::Active, &["team"]);
    assert_eq!(ranks.unlisted(&known, Some(&still), now).unwrap().rank, 2);
    let moved = sub("s", "bob", Status::Active, &["team"]);
    assert_eq!(ranks.unlisted(&known, Some(&moved), now).unwrap().rank, 0);
    assert_eq!(ranks.unlisted(&known, None, now), None);
    let later = Micros(1_000 + 7 * 86_400_000_000 + 1);
    assert_eq!(ranks.unlisted(&known, None, later).unwrap().status, GONE);
    let endless = Subscriber { period_end: None, ..known };
    assert_eq!(ranks.unlisted(&endless, None, later), None);
}

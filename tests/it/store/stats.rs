//! The sums of counts: right whatever comes first, and whoever writes.

use atcr_workers::atproto::{Change, Collection, State};
use tokio::task::JoinSet;

use super::fixture::Fixture;
use super::on_both;
use super::samples::*;

on_both! {
    a_sum_is_the_same_whatever_comes_first
    a_sum_follows_each_thing_that_it_depends_on
    the_count_of_a_stranger_counts_for_nothing
}

async fn sums(fixture: &Fixture, owner: &str) -> Vec<String> {
    let query = format!(
        "SELECT repository || ' ' || CAST(pull_count AS TEXT) || ' ' || CAST(push_count AS TEXT) || ' '
             || COALESCE(CAST(last_pull AS TEXT), '-') || ' ' || CAST(updated_at AS TEXT) AS line
         FROM repository_stats WHERE did = '{owner}' ORDER BY repository"
    );
    fixture.lines(&query).await
}

/// Everything that one sum over two holds depends on.
fn parts(owner: &str) -> Vec<Change> {
    let (a, b) = (format!("did:web:a-{}", &owner[8..]), format!("did:web:b-{}", &owner[8..]));
    vec![
        present(&a, "self", 1, captain(owner)),
        present(&b, "self", 1, captain(owner)),
        present(&a, "s", 2, stats(owner, "app", 5, 1)),
        present(&b, "s", 2, stats(owner, "app", 7, 2)),
        present(owner, "in-a", 3, manifest("app", Some(&a), 1)),
        present(owner, "in-b", 4, manifest("app", Some(&b), 2)),
    ]
}

const WHOLE: &str = "app 12 3 7 10";

/// All orders of 6 things, as indices: Heap's algorithm.
fn orders(n: usize) -> Vec<Vec<usize>> {
    fn permute(k: usize, order: &mut Vec<usize>, orders: &mut Vec<Vec<usize>>) {
        if k <= 1 {
            return orders.push(order.clone());
        }
        for i in 0..k {
            permute(k - 1, order, orders);
            order.swap(if k.is_multiple_of(2) { i } else { 0 }, k - 1);
        }
    }
    let (mut order, mut orders) = ((0..n).collect(), Vec::new());
    permute(n, &mut order, &mut orders);
    orders
}

async fn a_sum_is_the_same_whatever_comes_first(fixture: Fixture) {
    let term = fixture.term().await;
    // Every twelfth of the 720 orders: each thing stands at each place in some of them.
    let chosen: Vec<_> = orders(6).into_iter().step_by(12).enumerate().collect();
    for step in 0..6 {
        let next = chosen.iter().map(|(i, order)| parts(&format!("did:plc:o{i}")).swap_remove(order[step]));
        fixture.apply(&term, &next.collect::<Vec<_>>()).await;
    }
    for (i, order) in chosen {
        assert_eq!(sums(&fixture, &format!("did:plc:o{i}")).await, [WHOLE], "in order {order:?}");
    }
}

async fn a_sum_follows_each_thing_that_it_depends_on(fixture: Fixture) {
    let term = fixture.term().await;
    let owner = "did:plc:owner";
    let (a, b) = ("did:web:a-owner", "did:web:b-owner");
    let gone = |author, rkey, n, collection| change(author, rkey, n, collection, State::Absent);
    fixture.apply(&term, &parts(owner)).await;
    for (cause, expected) in [
        (gone(b, "s", 10, Collection::Stats), vec!["app 5 1 5 7"]),
        (present(b, "s", 11, stats(owner, "app", 1, 1)), vec!["app 6 2 5 7"]),
        (gone(a, "self", 12, Collection::Captain), vec!["app 1 1 1 3"]),
        (present(a, "self", 13, captain(owner)), vec!["app 6 2 5 7"]),
        (present(owner, "in-a", 14, manifest("moved", Some(a), 1)), vec!["app 1 1 1 3"]),
        (present(a, "s", 15, stats(owner, "moved", 9, 9)), vec!["app 1 1 1 3", "moved 9 9 9 19"]),
        (gone(owner, "in-b", 16, Collection::Manifest), vec!["moved 9 9 9 19"]),
        (gone(owner, "in-a", 17, Collection::Manifest), vec![]),
    ] {
        let what = format!("{cause:?}");
        fixture.apply(&term, &[cause]).await;
        assert_eq!(sums(&fixture, owner).await, expected, "after {what}");
    }
}

async fn the_count_of_a_stranger_counts_for_nothing(fixture: Fixture) {
    let term = fixture.term().await;
    let (owner, stranger, elsewhere) = ("did:plc:owner", "did:plc:stranger", "did:web:elsewhere");
    fixture.apply(&term, &parts(owner)).await;
    let forged = [
        present(stranger, "s", 1, stats(owner, "app", 1_000, 1_000)),
        present(elsewhere, "self", 1, captain(stranger)),
        present(elsewhere, "s", 1, stats(owner, "app", 1_000, 1_000)),
        // It hosts a repository of that name, but another owner's.
        present(stranger, "m", 2, manifest("app", Some(elsewhere), 1)),
    ];
    fixture.apply(&term, &forged).await;
    assert_eq!(sums(&fixture, owner).await, [WHOLE]);
}

/// Only PostgreSQL has two writers at once.
#[tokio::test(flavor = "multi_thread")]
async fn writers_that_meet_at_one_repository_end_in_one_sum() {
    let fixture = std::sync::Arc::new(Fixture::postgres().await);
    let term = fixture.term().await;
    for round in 0..20 {
        let owner = format!("did:plc:r{round}");
        // Known authors: the first row of a new one would make its writers wait for each other by itself.
        let greet = |part: &Change| present(part.did.as_str(), "hello", 1, tag("hello", "hello", 1));
        fixture.apply(&term, &parts(&owner).iter().map(greet).collect::<Vec<_>>()).await;
        let mut writers = JoinSet::new();
        for part in parts(&owner) {
            let (fixture, term) = (fixture.clone(), term.clone());
            writers.spawn(async move { fixture.apply(&term, &[part]).await });
        }
        writers.join_all().await;
        assert_eq!(sums(&fixture, &owner).await, [WHOLE], "round {round}");
    }
}

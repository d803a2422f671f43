//! What is taken out of the outbox: in turn, bounded, with the same id and bytes each time, and withheld where it must be.

use atcr_workers::store::webhooks::Asked;

use super::*;
use crate::store::on_both;

on_both! {
    a_delivery_keeps_its_id_and_bytes_over_attempts_and_redeliveries
    a_retry_that_would_come_too_late_is_given_up
    a_look_is_bounded_and_no_webhook_hides_another
    what_is_taken_down_is_withheld_with_the_reason
    what_a_tier_lacks_is_withheld_with_the_reason
    who_pays_for_a_tier_has_its_triggers
    of_too_many_that_wait_the_oldest_are_failed_and_counted
}

const RETRY: Attempted = Attempted::Retry { code: Some(503), error: String::new(), after: Duration::ZERO };

fn pushed(rkey: &str, n: u32) -> [Change; 2] {
    let of = i64::from(n);
    [present(USER, rkey, n, manifest("app", Some(HOLD), of)), present(USER, rkey, n, tag("app", "v1", of))]
}

async fn a_delivery_keeps_its_id_and_bytes_over_attempts_and_redeliveries(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    stage.apply(&pushed("m", 2)).await;
    let first = stage.due().await.deliveries.remove(0);
    // What is around it changes.
    stage.apply(&[present("did:plc:fan", "s", 1, star(USER, "app"))]).await;
    stage.attempted(&first.id, RETRY).await;
    let second = stage.due().await.deliveries.remove(0);
    assert_eq!((&second.id, &second.payload, second.attempt), (&first.id, &first.payload, 1));
    stage.attempted(&first.id, Attempted::Delivered { code: 204 }).await;
    assert!(stage.due().await.deliveries.is_empty());
    // A second sender's late word changes nothing.
    stage.attempted(&first.id, RETRY).await;
    assert_eq!(stage.standing().await, BTreeMap::from([("delivered".to_owned(), 1)]));

    let asked = stage.fixture.leases.redeliver(first.id.clone()).await.unwrap();
    assert_eq!(asked, Asked::As(first.id.clone()));
    let again = stage.due().await.deliveries.remove(0);
    assert_eq!((&again.id, &again.payload, again.attempt), (&first.id, &first.payload, 0));
    assert!(again.give_up_at > first.give_up_at);
    assert_eq!(stage.fixture.leases.redeliver("whd_none".into()).await.unwrap(), Asked::Unknown);
}

async fn a_retry_that_would_come_too_late_is_given_up(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    stage.apply(&pushed("m", 2)).await;
    let id = stage.due().await.deliveries.remove(0).id;
    let retry = |after| Attempted::Retry { code: None, error: "no answer".into(), after };
    let outcome = stage.attempted(&id, retry(Duration::from_secs(86_000))).await;
    assert!(!outcome.is_given_up);
    let due = stage.due().await;
    assert!(due.deliveries.is_empty() && due.next_in.unwrap() > Duration::from_secs(80_000));
    assert!(stage.attempted(&id, retry(Duration::from_secs(86_500))).await.is_given_up);
    let lines = "SELECT status || CAST(attempt AS TEXT) || last_error AS line FROM webhook_deliveries";
    assert_eq!(stage.fixture.lines(lines).await, ["failed2no answer"]);
}

async fn a_look_is_bounded_and_no_webhook_hides_another(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    for n in 2..12 {
        stage.apply(&pushed(&format!("m{n}"), n)).await;
    }
    let other = add(&stage.fixture, USER, &[Trigger::Push]).await;
    stage.apply(&pushed("m12", 12)).await;
    let look = async |busy: Vec<i64>, per_webhook, limit| {
        let due = stage.look(rules(all_triggers(9)), Look { busy, per_webhook, limit }).await;
        let whose: Vec<i64> = due.deliveries.iter().map(|due| due.webhook).collect();
        (whose, due.next_in)
    };
    let mine = stage.webhook;
    assert_eq!(look(vec![], 2, 10).await, (vec![mine, mine, other], None));
    assert_eq!(look(vec![mine], 2, 10).await, (vec![other], None));
    assert_eq!(look(vec![], 2, 1).await, (vec![mine], Some(Duration::ZERO)));
    assert_eq!(look(vec![mine, other], 2, 10).await, (vec![], None));
    // The longest due first.
    let due =
        stage.look(rules(all_triggers(9)), Look { busy: vec![other], per_webhook: 20, limit: 20 }).await;
    let numbers: Vec<_> =
        due.deliveries.iter().map(|due| json(due)["push_data"]["digest"].to_string()).collect();
    assert!(numbers.len() == 11 && numbers.is_sorted(), "{numbers:?}");
}

async fn what_is_taken_down_is_withheld_with_the_reason(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    let cursor =
        "INSERT INTO labeler_cursor (src, in_effect, verify, saved_at) VALUES ('did:web:l', TRUE, FALSE, 1)";
    stage.fixture.execute(cursor).await;
    let label = |uri: &str, subject: &str, name: &str| {
        format!(
            "INSERT INTO labels (src, uri, val, neg, cts, verified, subject, did, name, changed_at)
             VALUES ('did:web:l', '{uri}', '!takedown', FALSE, 1, FALSE, '{subject}', '{USER}', {name}, 1)"
        )
    };
    let digest = format!("'sha256:{:064x}'", 1_002);
    stage.apply(&pushed("m2", 2)).await;
    stage.apply(&pushed("m3", 3)).await;
    stage.fixture.execute(&label("one", "manifest", &digest)).await;
    assert_eq!(stage.deliver().await.len(), 1);
    assert_eq!(
        stage.standing().await,
        BTreeMap::from([("delivered".to_owned(), 1), ("withheld: taken down".to_owned(), 1)])
    );
    // A repository, a tag, the account.
    for (n, (subject, name)) in (4..).zip([("repository", "'app'"), ("tag", "'m5'"), ("account", "NULL")]) {
        stage.apply(&pushed(&format!("m{n}"), n)).await;
        stage.fixture.execute(&label(subject, subject, name)).await;
        let due = stage.due().await;
        assert_eq!((due.deliveries.len(), due.next_in), (0, Some(Duration::ZERO)), "{subject}");
        assert_eq!(due.withheld.values().sum::<u32>(), 1, "{subject}");
        stage.fixture.execute(&format!("UPDATE labels SET neg = TRUE WHERE uri = '{subject}'")).await;
    }
    // A delivery that was on its way when it was taken down is not tried again.
    stage.apply(&pushed("m9", 9)).await;
    let id = stage.due().await.deliveries.remove(0).id;
    stage.attempted(&id, RETRY).await;
    stage.fixture.execute("UPDATE labels SET neg = FALSE WHERE uri = 'account'").await;
    assert_eq!(stage.deliver().await.len(), 0);
}

async fn what_a_tier_lacks_is_withheld_with_the_reason(fixture: Fixture) {
    let stage = Stage::new(fixture, &Trigger::SETTABLE).await;
    let second = add(&stage.fixture, USER, &[Trigger::ScanFirst]).await;
    stage.apply(&pushed("m", 2)).await;
    stage.apply(&[present(HOLD, "s", 3, scanned(2, 1, 1))]).await;
    let due = stage.due_with(rules(Tiers::default())).await;
    let mut going: Vec<_> = due.deliveries.iter().map(|due| (due.webhook, due.trigger)).collect();
    going.sort();
    assert_eq!(going, [(stage.webhook, Trigger::Push), (stage.webhook, Trigger::ScanFirst)]);
    let withheld =
        "SELECT trigger || ' ' || CAST(webhook_id AS TEXT) || ' ' || reason AS line FROM webhook_deliveries
        WHERE status = 'withheld' ORDER BY trigger";
    let expected = [format!("scan:all {} tier", stage.webhook), format!("scan:first {second} tier")];
    assert_eq!(stage.fixture.lines(withheld).await, expected);
    // The bits are masked, not erased.
    let bits = stage.fixture.lines("SELECT CAST(triggers AS TEXT) AS line FROM webhooks ORDER BY id").await;
    assert_eq!(bits, ["15", "1"]);
}

async fn who_pays_for_a_tier_has_its_triggers(fixture: Fixture) {
    let stage = Stage::new(fixture, &Trigger::SETTABLE).await;
    let tier = |name: &str, all_triggers| Tier {
        name: name.into(),
        price_ids: vec![],
        max_webhooks: 9,
        all_triggers,
    };
    let tiers = Tiers::of(&[tier("free", false), tier("paid", true)]);
    let paid = format!(
        "INSERT INTO billing_subscriptions (user_did, customer_id, subscription_id, status, tier_rank, planned_rank,
             updated_at) VALUES ('{USER}', 'cus_1', 'sub_1', 'active', 1, 1, 1)"
    );
    stage.fixture.execute(&paid).await;
    stage.apply(&pushed("m", 2)).await;
    stage.apply(&[present(HOLD, "s", 3, scanned(2, 1, 1))]).await;
    let due = stage.due_with(rules(tiers)).await;
    let mut going: Vec<_> = due.deliveries.iter().map(|due| due.trigger).collect();
    going.sort();
    let mut wanted = [Trigger::Push, Trigger::ScanFirst, Trigger::ScanAll];
    wanted.sort();
    assert_eq!(going, wanted);
}

/// Public report distribution/distribution#2422: notifications of a dead endpoint piled up without limit.
async fn of_too_many_that_wait_the_oldest_are_failed_and_counted(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    let other = add(&stage.fixture, USER, &[Trigger::Push]).await;
    let full = format!(
        "INSERT INTO webhook_deliveries (id, webhook_id, trigger, dedupe_key, repository, digest, tag, event, status,
             next_attempt_at, created_at, asked_at)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         SELECT 'old' || i, {}, 'test', 'old' || i, '', '', '', '{{\"kind\":\"test\",\"at\":1}}', 'pending', i, i, i
         FROM n",
        stage.webhook
    );
    stage.fixture.execute(&full).await;
    let applied = stage.fixture.apply(&stage.term, &pushed("m", 2)).await;
    assert_eq!((applied.put[&Trigger::Push], applied.dropped), (2, 1));
    let failed = "SELECT id || last_error AS line FROM webhook_deliveries WHERE status = 'failed'";
    assert_eq!(stage.fixture.lines(failed).await, ["old1too many deliveries were waiting"]);
    let views = stage.fixture.leases.webhooks(None).await.unwrap();
    let counts: Vec<_> = views.iter().map(|view| (view.id, view.waiting, view.dropped)).collect();
    assert_eq!(counts, [(stage.webhook, 10_000, 1), (other, 1, 0)]);
    // Few of them come into memory, and the other endpoint's is among what is taken.
    let due = stage.look(rules(all_triggers(9)), Look { busy: vec![], per_webhook: 2, limit: 10 }).await;
    let whose: Vec<_> = due.deliveries.iter().map(|due| due.webhook).collect();
    assert_eq!(whose, [stage.webhook, stage.webhook, other]);
    let report = stage.fixture.database.outbox_report().await.unwrap();
    assert_eq!((report.waiting, report.enabled, report.disabled), (10_001, 2, 0));
}

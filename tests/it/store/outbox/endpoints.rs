//! Webhooks themselves: who may have which, and when one is disabled.

use atcr_workers::store::webhooks::Asked;

use super::*;
use crate::store::on_both;

on_both! {
    an_endpoint_with_nothing_but_failures_for_three_days_is_disabled_until_it_is_enabled
    one_success_in_three_days_keeps_an_endpoint
    a_tier_bounds_what_can_be_added
    a_webhook_goes_with_its_deliveries
    a_test_is_a_delivery_like_any_other
}

const FAILED: Attempted = Attempted::Failed { code: Some(410), error: String::new() };

async fn fail_one(stage: &Stage, n: u32) -> Outcome {
    stage
        .apply(&[present(USER, "m", n, manifest("app", None, 1)), present(USER, "t", n, tag("app", "v1", 1))])
        .await;
    let id = stage.due().await.deliveries.remove(0).id;
    let error = "the endpoint answered 410".to_owned();
    stage.attempted(&id, Attempted::Failed { code: Some(410), error }).await
}

async fn three_days_pass(stage: &Stage) {
    let earlier = "UPDATE webhooks SET failing_since = failing_since - 259200000000";
    stage.fixture.execute(earlier).await;
}

async fn an_endpoint_with_nothing_but_failures_for_three_days_is_disabled_until_it_is_enabled(
    fixture: Fixture,
) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    assert!(!fail_one(&stage, 2).await.is_disabled && !fail_one(&stage, 3).await.is_disabled);
    three_days_pass(&stage).await;
    // Something else waits.
    stage.apply(&[present(USER, "n", 4, manifest("app", None, 2))]).await;
    assert!(fail_one(&stage, 5).await.is_disabled);
    let view = stage.fixture.leases.webhooks(None).await.unwrap().remove(0);
    let reason = view.disabled_reason.clone().unwrap();
    assert!(reason.contains("3 days") && reason.contains("the endpoint answered 410"), "{reason}");
    assert!(view.disabled_at.is_some() && view.last_status == Some(410) && view.waiting == 0, "{view:?}");
    assert_eq!(stage.standing().await["withheld: disabled"], 1);
    // Nothing is put in for it meanwhile.
    assert_eq!(stage.apply(&[present(USER, "o", 6, manifest("app", None, 3))]).await, 0);
    assert_eq!(stage.fixture.leases.test_webhook(stage.webhook).await.unwrap(), Asked::Disabled);

    assert!(stage.fixture.leases.enable_webhook(stage.webhook).await.unwrap());
    assert_eq!(stage.apply(&[present(USER, "o", 7, manifest("app", None, 3))]).await, 1);
    assert!(!fail_one(&stage, 8).await.is_disabled, "its failures count anew");
    // By hand, too.
    assert!(stage.fixture.leases.disable_webhook(stage.webhook, "asked for".into()).await.unwrap());
    let view = stage.fixture.leases.webhooks(None).await.unwrap().remove(0);
    assert_eq!(view.disabled_reason.as_deref(), Some("asked for"));
    assert!(!stage.fixture.leases.enable_webhook(99).await.unwrap());
}

async fn one_success_in_three_days_keeps_an_endpoint(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    fail_one(&stage, 2).await;
    stage
        .apply(&[present(USER, "n", 3, manifest("app", None, 2)), present(USER, "u", 3, tag("app", "v2", 2))])
        .await;
    assert_eq!(stage.deliver().await.len(), 1);
    three_days_pass(&stage).await;
    assert!(!fail_one(&stage, 4).await.is_disabled);
    let view = stage.fixture.leases.webhooks(None).await.unwrap().remove(0);
    assert!(view.failing_since.is_some() && view.disabled_at.is_none(), "{view:?}");
}

async fn a_tier_bounds_what_can_be_added(fixture: Fixture) {
    let term = fixture.term().await;
    fixture.apply(&term, &[present(USER, "self", 1, profile(None, 1))]).await;
    let new = |user: &str, triggers: &[Trigger]| NewWebhook {
        user: User::Did(did(user)),
        url: "https://ci.example/".into(),
        secret: None,
        triggers: triggers.to_vec(),
    };
    let add = async |new, tiers| fixture.leases.add_webhook(new, tiers).await.unwrap();
    let paid = new(USER, &[Trigger::Push, Trigger::ScanChanged]);
    assert_eq!(add(paid.clone(), Tiers::default()).await, Added::Paid(Trigger::ScanChanged));
    assert_eq!(add(new("did:plc:nobody", &[Trigger::Push]), Tiers::default()).await, Added::UnknownUser);
    assert!(matches!(add(new(USER, &[Trigger::Push]), Tiers::default()).await, Added::As(_)));
    assert!(matches!(add(new(USER, &[Trigger::Push]), Tiers::default()).await, Added::TooMany(_)));
    assert!(matches!(add(paid.clone(), all_triggers(2)).await, Added::As(_)));
    assert!(matches!(add(paid, all_triggers(2)).await, Added::TooMany(_)));
}

async fn a_webhook_goes_with_its_deliveries(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    stage.apply(&[present(USER, "m", 2, manifest("app", None, 1))]).await;
    let id = stage.fixture.lines("SELECT id AS line FROM webhook_deliveries").await.remove(0);
    assert!(stage.fixture.leases.remove_webhook(stage.webhook).await.unwrap());
    assert!(!stage.fixture.leases.remove_webhook(stage.webhook).await.unwrap());
    assert!(stage.put_in().await.is_empty() && stage.due().await.deliveries.is_empty());
    assert_eq!(stage.attempted(&id, FAILED).await, Outcome::default());
    assert_eq!(stage.apply(&[present(USER, "m", 3, manifest("app", None, 1))]).await, 0);
}

async fn a_test_is_a_delivery_like_any_other(fixture: Fixture) {
    let stage = Stage::new(fixture, &[Trigger::Push]).await;
    let Asked::As(id) = stage.fixture.leases.test_webhook(stage.webhook).await.unwrap() else {
        panic!("the webhook is there");
    };
    let due = stage.due_with(rules(Tiers::default())).await.deliveries.remove(0);
    assert_eq!((&due.id, due.trigger), (&id, Trigger::Test));
    let payload = json(&due);
    assert_eq!((&payload["trigger"], &payload["userDid"]), (&"test".into(), &USER.into()));
    stage.attempted(&id, Attempted::Delivered { code: 200 }).await;
    let standing = stage.fixture.leases.delivery(&id).await.unwrap().unwrap();
    assert_eq!((standing.status.as_str(), standing.attempts, standing.code), ("delivered", 1, Some(200)));
    assert_eq!(stage.fixture.leases.test_webhook(99).await.unwrap(), Asked::Unknown);
}

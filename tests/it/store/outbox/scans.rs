//! Which scans are told, and that forged ones are not.

use atcr_workers::atproto::{Collection, State};

use super::*;
use crate::store::on_both;

on_both! {
    a_scan_makes_one_delivery_for_each_trigger_that_it_matches
    a_scan_by_who_is_no_hold_or_hosts_nothing_is_told_to_nobody
    a_scan_tells_the_counts_before_only_where_they_changed
}

async fn stage(fixture: Fixture) -> Stage {
    let stage = Stage::new(fixture, &Trigger::SETTABLE).await;
    stage
        .apply(&[
            present(USER, "m", 2, manifest("app", Some(HOLD), 1)),
            present(USER, "t", 2, tag("app", "v1", 1)),
        ])
        .await;
    stage.deliver().await;
    stage.fixture.execute("DELETE FROM webhook_deliveries").await;
    stage
}

async fn a_scan_makes_one_delivery_for_each_trigger_that_it_matches(fixture: Fixture) {
    let stage = stage(fixture).await;
    let mut told = Vec::new();
    // The same counts again; other counts; the same record again; a repeated scan of the same time.
    for (n, critical, at) in [(3, 3, 1), (4, 3, 2), (5, 2, 3), (5, 2, 3), (6, 2, 3)] {
        stage.apply(&[present(HOLD, "s", n, scanned(1, critical, at))]).await;
        let mut triggers: Vec<_> = stage.deliver().await.iter().map(|due| due.trigger).collect();
        triggers.sort();
        told.push(triggers);
    }
    use Trigger::{ScanAll, ScanChanged, ScanFirst};
    assert_eq!(told, [vec![ScanFirst, ScanAll], vec![ScanAll], vec![ScanAll, ScanChanged], vec![], vec![]]);
    // Gone, and scanned again: there is no earlier one.
    stage.apply(&[change(HOLD, "s", 7, Collection::Scan, State::Absent)]).await;
    assert_eq!(stage.apply(&[present(HOLD, "s", 8, scanned(1, 2, 9))]).await, 2);
}

async fn a_scan_by_who_is_no_hold_or_hosts_nothing_is_told_to_nobody(fixture: Fixture) {
    let stage = stage(fixture).await;
    let (stranger, elsewhere) = ("did:plc:stranger", "did:web:elsewhere.example");
    assert_eq!(stage.apply(&[present(stranger, "s", 3, scanned(1, 9, 1))]).await, 0);
    let of_hold =
        [present(elsewhere, "self", 3, captain(USER)), present(elsewhere, "s", 3, scanned(1, 9, 1))];
    assert_eq!(stage.apply(&of_hold).await, 0);
    // Nor is one of somebody else's repository.
    let Record::Scan(about) = scanned(2, 9, 1) else { panic!("a scan is a scan") };
    let about = Record::Scan(Scan { repository: "other".into(), ..about });
    assert_eq!(stage.apply(&[present(HOLD, "o", 3, about)]).await, 0);
    assert_eq!(stage.apply(&[present(HOLD, "s", 3, scanned(1, 9, 1))]).await, 2);
}

async fn a_scan_tells_the_counts_before_only_where_they_changed(fixture: Fixture) {
    let stage = stage(fixture).await;
    for (n, critical) in [(3, 3), (4, 2)] {
        stage.apply(&[present(HOLD, "s", n, scanned(1, critical, i64::from(n)))]).await;
    }
    let due = stage.due().await.deliveries;
    let of = |trigger| json(due.iter().rfind(|due| due.trigger == trigger).unwrap());
    let expected = serde_json::json!({
        "trigger": "scan:changed", "holdDid": HOLD, "holdEndpoint": "https://hold.example",
        "manifest": {
            "digest": format!("sha256:{:064x}", 1_001), "repository": "app", "tag": "v1", "userDid": USER,
            "userHandle": USER,
        },
        "scan": {
            "scannedAt": "1970-01-01T00:00:00.000004Z", "scannerVersion": "v1",
            "vulnerabilities": { "critical": 2, "high": 0, "medium": 0, "low": 1, "total": 3 },
        },
        "previous": { "critical": 3, "high": 0, "medium": 0, "low": 1, "total": 4 },
    });
    assert_eq!(of(Trigger::ScanChanged), expected);
    assert!(
        of(Trigger::ScanAll).get("previous").is_none() && of(Trigger::ScanFirst).get("previous").is_none()
    );
}

//! Hosts with limits, over whole runs of the worker: each counts for itself, and the network's visitors' book tells.

use std::time::Duration;

use localnet::network::{Fault, On, Rate, Site, Told};

use super::stage::Stage;
use crate::store::fixture::Fixture;

/// As the worker of the stage is set up.
const PER_HOST: usize = 2;

// S23: indigo#1247
#[tokio::test(flavor = "multi_thread")]
async fn in_a_whole_run_no_host_is_asked_too_early_or_more_at_once_than_it_allows() {
    let stage = Stage::new(Fixture::sqlite().await).await;
    let names: Vec<String> = (0..20).map(|i| format!("one{i}")).collect();
    names.iter().enumerate().for_each(|(i, name)| drop(stage.account(name, i % 2)));
    for (pds, told) in [(0, Told::RetryAfter), (1, Told::Headers)] {
        stage.net.set_rate(On::site(Site::Pds(pds)), Rate { requests: 40, window_ms: 5_000, told });
        // So slow that two requests meet there on a busy machine, too.
        stage.net.set_fault(On::site(Site::Pds(pds)), Fault::Late(50));
    }
    // Pauses are waited for, so that one run reads everything.
    let mut worker = stage.worker_that_waits(Duration::from_secs(10));
    worker.concurrency = 8;
    stage.run_once_with(worker).await;
    let refused = stage.net.visits().iter().filter(|visit| visit.status == 429).count();
    assert!(refused > 0, "no limit was ever reached");
    assert_eq!(stage.net.pressed(PER_HOST, Duration::ZERO), [""; 0]);
    for pds in [0, 1] {
        assert_eq!(stage.net.most_at_once(&On::site(Site::Pds(pds))), PER_HOST, "as much as is allowed");
    }
    assert_eq!(stage.lines("SELECT did AS line FROM tags").await.len(), names.len());
}

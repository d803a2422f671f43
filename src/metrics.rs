//! The recorder, and the help texts of every metric. Each module names its own metrics; this one knows where they are.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// From a fifth of a hand-over between two processes to more than any TTL.
const SECONDS: [f64; 14] =
    [0.0002, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0];

/// How often histograms are folded: unfolded samples are memory. At double, a burst holds twice as much of it.
const FOLD_EVERY: Duration = Duration::from_secs(5);

/// Installs the recorder of the process. Call once, before anything counts.
///
/// # Errors
/// If there is one already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let recorder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?;
    let handle = recorder.install_recorder()?;
    describe();
    Ok(handle)
}

/// Tells the recorder of this thread, or of the process, what each metric means: all that there are.
pub fn describe() {
    leased_actors::metrics::describe();
    crate::backfill::meters::describe_metrics();
    crate::billing::meters::describe_metrics();
    crate::cleanup::meters::describe_metrics();
    crate::health::meters::describe_metrics();
    crate::ingest::meters::describe_metrics();
    crate::labels::meters::describe_metrics();
    crate::outbox::meters::describe_metrics();
    crate::webhooks::meters::describe_metrics();
}

/// Folds histograms until `stop`.
pub async fn fold(handle: PrometheusHandle, stop: CancellationToken) {
    let mut tick = interval(FOLD_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        handle.run_upkeep();
    }
}

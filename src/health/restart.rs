//! Runs a worker that has no lease, and so no supervisor, and starts it again when it fails. Its failure takes nothing down.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::meters;

/// The first wait; doubles with each failure in a row.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest. At double, a fault that mends itself is felt for ten minutes.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// What has run for so long has not failed in a row.
const IN_A_ROW: Duration = Duration::from_secs(600);

/// Runs what `start` gives until it returns, which it does when told to stop; after a panic, waits and starts anew.
pub(super) async fn keep_running<F: Future<Output = ()>>(
    stop: &CancellationToken,
    mut start: impl FnMut() -> F,
) {
    let mut wait = WAIT_MIN;
    loop {
        let begun = Instant::now();
        // What it shares with others is behind locks that a panic leaves whole.
        let Err(panic) = AssertUnwindSafe(start()).catch_unwind().await else { return };
        if begun.elapsed() >= IN_A_ROW {
            wait = WAIT_MIN;
        }
        meters::restarted();
        tracing::error!(panic = text(&*panic), ?wait, "the hold-health worker failed; it is started again");
        if stop.run_until_cancelled(sleep(wait)).await.is_none() {
            return;
        }
        wait = WAIT_MAX.min(wait * 2);
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

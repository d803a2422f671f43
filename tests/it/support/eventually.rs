//! Waiting for something to become true: by asking again until a deadline, never by sleeping and hoping.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Short against anything that we wait for, long against the cost of asking.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Asks `probe` until it says `Ok`, and gives what is in it. After `within` it panics with `what` was awaited and the
/// last `Err`, which is therefore what the probe saw instead.
pub(crate) async fn eventually<T, E: Debug>(
    what: &str,
    within: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let mut waiting = Waiting::start(what, within);
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) => waiting.saw(seen),
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// [`eventually`] outside a runtime.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "no runtime here, and a pause between two questions")]
pub(crate) fn eventually_blocking<T, E: Debug>(
    what: &str,
    within: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> T {
    let mut waiting = Waiting::start(what, within);
    loop {
        match probe() {
            Ok(value) => return value,
            Err(seen) => waiting.saw(seen),
        }
        std::thread::sleep(ASK_EVERY);
    }
}

struct Waiting<'a> {
    what: &'a str,
    within: Duration,
    since: Instant,
    asked: u32,
}

impl<'a> Waiting<'a> {
    fn start(what: &'a str, within: Duration) -> Self {
        Waiting { what, within, since: Instant::now(), asked: 0 }
    }

    #[track_caller]
    fn saw(&mut self, seen: impl Debug) {
        self.asked += 1;
        let Waiting { what, within, since, asked } = self;
        assert!(
            since.elapsed() < *within,
            "not within {within:?}: {what}\nasked {asked} times, last seen: {seen:?}"
        );
    }
}

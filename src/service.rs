//! What the service manager is told of this process (`sd_notify`): that it is ready, what runs here, that it is alive,
//! that it stops. Started by anything else than systemd, nothing is told to anybody.

use std::time::Duration;

use leased_actors::supervisor::{Pulse, Snapshot};
use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Signs of life in one interval of the manager's watchdog. At half, a single late one ends the process; at double,
/// nothing is gained.
const BEATS: u32 = 3;

/// Tells that the process is ready, then what runs here at each change, and that the supervisor works for as long as it
/// does; until `stop`. A supervisor that does not answer is not told to be alive: the manager then ends the process.
pub async fn report(pulse: Pulse, mut instance: watch::Receiver<Snapshot>, stop: CancellationToken) {
    tell(&[NotifyState::Ready, NotifyState::Status(&summary(&instance.borrow_and_update()))]);
    let watchdog = async {
        match sd_notify::watchdog_enabled() {
            Some(within) => feed(&pulse, within / BEATS).await,
            None => std::future::pending().await,
        }
    };
    let status = async {
        while instance.changed().await.is_ok() {
            let summary = summary(&instance.borrow_and_update());
            tell(&[NotifyState::Status(&summary)]);
        }
        std::future::pending::<()>().await;
    };
    let _ = stop.run_until_cancelled(async { tokio::join!(watchdog, status) }).await;
}

/// Tells that the process has begun to stop.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping: workers, then leases")]);
}

async fn feed(pulse: &Pulse, every: Duration) {
    let mut tick = interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if pulse.beats(every).await {
            tell(&[NotifyState::Watchdog]);
        } else {
            tracing::error!("the supervisor does not answer: the service manager is not told that it lives");
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    // Without a manager this does nothing.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}

/// What `systemctl status` shows.
fn summary(instance: &Snapshot) -> String {
    let running = instance.leases.iter().filter(|lease| lease.state == "running");
    let running: Vec<_> = running.map(|lease| lease.name.to_string()).collect();
    if running.is_empty() {
        return "standing by: no worker runs here".to_owned();
    }
    format!("running here: {}", running.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_without_workers_says_that_it_stands_by() {
        assert_eq!(summary(&Snapshot::default()), "standing by: no worker runs here");
    }
}

//! The process is killed where it is, again and again.

use std::time::Duration;

use localnet::{
    seed::{Size, seed},
    traffic::Traffic,
};
use rand::Rng;
use rustix::process::Signal;
use tokio::task::AbortHandle;

use super::{
    processes::Network,
    rows::{On, as_folded},
    stage::SOON,
};
use crate::support::{eventually::eventually, process::Exit};

/// Steps of traffic in a second, most of them one event.
const PER_SECOND: f64 = 300.0;

/// juni-b-queer/bsky-event-handlers#91 and #75: a cursor is lost on close, and corrupt after a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_kills_lose_no_event_and_never_move_a_position_back_on_sqlite() {
    kills_lose_no_event_and_never_move_a_position_back(On::Sqlite, 100).await;
}

/// The same on PostgreSQL, where a kill may come between the commit and its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_kills_lose_no_event_and_never_move_a_position_back_on_postgres() {
    kills_lose_no_event_and_never_move_a_position_back(On::Postgres, 30).await;
}

async fn kills_lose_no_event_and_never_move_a_position_back(on: On, kills: usize) {
    let network = std::sync::Arc::new(Network::start(on).await);
    network.prepare().await;
    // Without a rewind a position that is saved too early loses what it passed. The host sends in order. Without leases
    // the next process begins at once, not when the killed one's lease has expired.
    let environment = [("ATCR__JETSTREAM__REWIND", "0s"), ("ATCR__LEASES__ENABLED", "false")];
    let host = network.net.jetstream(0).address().to_string();
    let mut instance = network.instance(&environment);
    assert!(network.net.jetstream(0).subscribed(1, SOON).await, "{:?}", instance.lines());
    let traffic = keep_publishing(&network);

    let mut last = None;
    for kill in 0..kills {
        eventually(&format!("the position moves before kill {kill}"), SOON, async || {
            let position = network.rows.cursor(&host).await;
            if position > last { Ok(last = position) } else { Err((position, last, instance.lines().len())) }
        })
        .await;
        tokio::time::sleep(Duration::from_micros(rand::rng().random_range(0..60_000))).await;
        instance.signal(Signal::KILL);
        assert_eq!(instance.wait_exit(SOON), Exit::Signal(9));
        last = network.rows.cursor(&host).await;
        instance = network.instance(&environment);
    }
    traffic.abort();

    eventually("the newest position is saved", 2 * SOON, async || {
        let (saved, newest) = (network.rows.cursor(&host).await, network.net.jetstream(0).newest_us());
        if saved == Some(newest) { Ok(()) } else { Err((saved, newest)) }
    })
    .await;
    eventually("nothing is missing", 2 * SOON, async || as_folded(&network.net, &network.rows, &[]).await)
        .await;
    network.rows.position_never_went_down(&host).await;
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(SOON), Exit::Code(0));
}

/// Publishes until aborted. The first records come at once, so that each account is known.
fn keep_publishing(network: &std::sync::Arc<Network>) -> AbortHandle {
    let seeded = seed(&network.net, Size::default(), 1);
    let network = std::sync::Arc::clone(network);
    let publishing = async move { Traffic::new(&seeded, 1, 0.1).run(&network.net, PER_SECOND).await };
    tokio::spawn(publishing).abort_handle()
}

//! More than the database can take: what waits is bounded, and so is the memory.

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use localnet::{events, ids, records};
use tokio::time::interval;

use super::{
    processes::{Network, resident_bytes},
    rows::{On, as_folded},
    stage::SOON,
};
use crate::support::{eventually::eventually, process::Instance};

const QUEUE: &str = "atcr_stream_queue_frames";
/// `connect::QUEUE_FRAMES`, which is not the tests' to change.
const QUEUE_FRAMES: f64 = 4_096.0;
/// The queue's 64 MiB, a batch of 8 MiB as text, as values and as statements, and what the allocator keeps of those.
const GROWTH_MAX: u64 = 256 << 20;
const FLOOD: Duration = Duration::from_secs(4);
const PER_SECOND: usize = 5_000;

/// snarfed/bridgy-fed#1641, mackuba/skyfall#12: a consumer that is slower than the stream falls behind without end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_events_a_second_keep_queue_and_memory_bounded() {
    let network = Network::start(On::Sqlite).await;
    let instance = network.instance(&[]);
    assert!(network.net.jetstream(0).subscribed(1, SOON).await);
    let before = resident_bytes(instance.pid());
    let mut lines = events::lines(events::Mix {
        registry_share: 1.0,
        start_us: ids::now_us() - FLOOD.as_micros() as i64,
        ..events::Mix::default()
    });
    let (since, mut ticks, mut peaks) =
        (Instant::now(), interval(Duration::from_millis(20)), Peaks::default());
    while since.elapsed() < FLOOD {
        ticks.tick().await;
        for line in lines.by_ref().take(PER_SECOND / 50) {
            network.net.jetstream(0).publish_line(line).unwrap();
        }
        peaks.look(&instance);
    }
    let published = since.elapsed();
    loop {
        peaks.look(&instance);
        let behind = network.net.jetstream(0).backlog() as f64 + instance.metric(QUEUE, &[]).unwrap_or(0.0);
        if behind == 0.0 {
            break;
        }
        assert!(since.elapsed() < 3 * SOON, "{behind} behind");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!(
        "flood of {published:?}, done after {:?}, {peaks:?}, {} MiB before",
        since.elapsed(),
        before >> 20
    );
    peaks.are_bounded(before);
}

/// The same with a database that stands still while records of a hundred kilobytes keep coming.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stands_still_keeps_queue_and_memory_bounded() {
    let network = Network::start(On::Sqlite).await;
    let instance = network.instance(&[]);
    assert!(network.net.jetstream(0).subscribed(1, SOON).await);
    let alice = network.net.add_account("alice");
    network.net.put(&alice, records::PAGE, "web", page(0));
    settles(&network).await;
    let before = resident_bytes(instance.pid());

    let mut lock = network.rows.sqlite();
    lock.batch_execute("BEGIN EXCLUSIVE").unwrap();
    let (since, mut peaks) = (Instant::now(), Peaks::default());
    for number in 1..=1_000 {
        network.net.put(&alice, records::PAGE, "web", page(number));
        peaks.look(&instance);
    }
    while since.elapsed() < FLOOD {
        peaks.look(&instance);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lock.batch_execute("ROLLBACK").unwrap();
    settles(&network).await;
    peaks.look(&instance);
    println!("100 MB at a standstill of {FLOOD:?}: {peaks:?}, {} MiB before", before >> 20);
    assert!(peaks.queue > 100.0, "the database did not stand still: {peaks:?}");
    peaks.are_bounded(before);
}

async fn settles(network: &Network) {
    let host = network.net.jetstream(0).address().to_string();
    eventually("the newest position is saved", 2 * SOON, async || {
        let (saved, newest) = (network.rows.cursor(&host).await, network.net.jetstream(0).newest_us());
        if saved == Some(newest) { Ok(()) } else { Err((saved, newest)) }
    })
    .await;
    eventually("the index is the in-order fold of the events", 2 * SOON, async || {
        as_folded(&network.net, &network.rows, &[]).await
    })
    .await;
}

fn page(number: i64) -> serde_json::Value {
    records::page("web", &format!("{number} {}", "x".repeat(99_000)), ids::now_us())
}

#[derive(Debug, Default)]
struct Peaks {
    queue: f64,
    resident_bytes: u64,
}

impl Peaks {
    fn look(&mut self, instance: &Instance) {
        self.queue = self.queue.max(instance.metric(QUEUE, &[]).unwrap_or(0.0));
        self.resident_bytes = self.resident_bytes.max(resident_bytes(instance.pid()));
    }

    fn are_bounded(&self, before: u64) {
        assert!(self.queue <= QUEUE_FRAMES, "{self:?}");
        assert!(self.resident_bytes <= before + GROWTH_MAX, "{self:?}, {before} before");
    }
}

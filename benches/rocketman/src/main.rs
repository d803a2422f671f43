//! Our decode against rocketman's message handling, on the same frames in the same process.
//!
//! `cargo run --release [-- [FRAMES] [FILE]]`: FRAMES (200,000) events are generated, or repeated from FILE, one JSON
//! event a line. Rounds alternate between the candidates; what counts is events per second of CPU (user and system),
//! because wall time on a shared machine measures the neighbours.

mod generate;

use std::hint::black_box;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use atcr_workers::atproto::records::Collection;
use atcr_workers::ingest::decode::{Event, Kind, decode};
use atcr_workers::ingest::known::Known;
use atcr_workers::ingest::project::{What, project};
use atcr_workers::ingest::wire::Wire;
use rocketman::handler::{Ingestors, handle_message};
use rocketman::ingestion::LexiconIngestor;
use serde_json::Value;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Each candidate runs so often; the median is shown.
const ROUNDS: usize = 9;

/// Takes events and counts them: no work of its own.
struct Count(Arc<Mutex<usize>>);

#[async_trait]
impl LexiconIngestor for Count {
    async fn ingest(&self, event: rocketman::types::event::Event<Value>) -> Result<(), anyhow::Error> {
        black_box(event);
        *self.0.lock().unwrap() += 1;
        Ok(())
    }
}

/// A name and one run over all frames, which tells how many events were kept.
type Candidate<'a> = (&'static str, Box<dyn Fn() -> usize + 'a>);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(200_000, |text| text.parse().expect("FRAMES is a number"));
    let lines = match arguments.next() {
        Some(path) => {
            std::fs::read_to_string(path).expect("FILE is readable").lines().map(str::to_owned).collect()
        }
        None => generate::events(count),
    };
    let frames: Vec<Utf8Bytes> = lines.iter().cycle().take(count).map(|line| line.as_str().into()).collect();
    let bytes: usize = frames.iter().map(|frame| frame.len()).sum();
    println!("{count} frames, {} bytes each on average, {ROUNDS} rounds", bytes / count);

    let candidates: [Candidate<'_>; 3] = [
        ("ours: glance, decode, project", Box::new(|| projected(&frames))),
        ("ours: decode of every frame", Box::new(|| decoded(&frames))),
        ("rocketman: handle_message", Box::new(|| rocketman(&frames))),
    ];
    let mut rates = vec![Vec::new(); candidates.len()];
    let mut kept = vec![0; candidates.len()];
    for _ in 0..ROUNDS {
        for (n, (_, run)) in candidates.iter().enumerate() {
            let before = cpu_seconds();
            kept[n] = run();
            rates[n].push(count as f64 / (cpu_seconds() - before));
        }
    }
    let theirs = rates[2].clone();
    println!("{:<32} {:>12} {:>9} {:>8}", "", "events/CPU-s", "ratio", "kept");
    for (n, (name, _)) in candidates.iter().enumerate() {
        let ratios = rates[n].iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        println!("{name:<32} {:>12.0} {:>8.2}x {:>8}", median(rates[n].clone()), median(ratios), kept[n]);
    }
}

/// What the worker does with a frame before the database: foreign collections and strangers' accounts end at a glance.
fn projected(frames: &[Utf8Bytes]) -> usize {
    let mut known = Known::default();
    known.extend(generate::KNOWN.into_iter());
    let is_kept = |frame: &&Utf8Bytes| {
        !matches!(
            project(Wire::V1, frame.as_bytes(), &known, i64::MAX).what,
            What::Dropped(_) | What::Change(_, Some(_))
        )
    };
    frames.iter().filter(is_kept).count()
}

fn decoded(frames: &[Utf8Bytes]) -> usize {
    frames.iter().filter(|frame| decode(frame.as_bytes()).is_ok_and(is_ours)).count()
}

fn is_ours(event: Event<'_>) -> bool {
    match &black_box(event).kind {
        Kind::Commit(commit) => Collection::from_nsid(&commit.collection).is_some(),
        Kind::Identity { .. } | Kind::Account { .. } | Kind::Unknown(_) => false,
    }
}

/// rocketman's own handler, as its example calls it for each message, with ingestors for what the registry asks for.
fn rocketman(frames: &[Utf8Bytes]) -> usize {
    let kept = Arc::new(Mutex::new(0));
    let ingestor = || Box::new(Count(Arc::clone(&kept))) as Box<dyn LexiconIngestor + Send + Sync>;
    let mut ingestors = Ingestors::new();
    for collection in Collection::ALL {
        ingestors.commits.insert(collection.nsid().to_owned(), ingestor());
    }
    let (reconnect, _keep) = async_channel::unbounded();
    let cursor = Arc::new(Mutex::new(Some(0)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        for frame in frames {
            let message = Message::Text(frame.clone());
            let _ = handle_message(message, &ingestors, reconnect.clone(), Arc::clone(&cursor)).await;
        }
    });
    let kept = *kept.lock().unwrap();
    kept
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// User and system time of this process: what getrusage adds up, in nanoseconds.
fn cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

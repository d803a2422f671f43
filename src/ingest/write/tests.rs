//! What is in a batch.

use leased_actors::clock::Clock;
use leased_actors::lease::{Epoch, Incarnation, Term, TermId, Trust};
use leased_actors::worker::Progress;
use localnet::{ids, records};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ingest::connect::{Frame, queue};
use crate::ingest::wire::Wire;
use crate::store::{Fencing, Options};

/// The queue's room in the test: far less than all of its messages.
const QUEUE_BYTES: usize = 100_000;

/// On a runtime of its own: time does not stand still on one with more than one thread, which migrations need.
fn migrate(options: Options) {
    let migrate = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async { Database::open(&options).await.unwrap().migrate().await.unwrap() });
    };
    std::thread::spawn(migrate).join().unwrap();
}

async fn writer() -> (Writer, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        url: format!("sqlite://{}/atcr.db", directory.path().display()),
        direct_url: None,
        max_connections: 2,
        renew_timeout: Duration::from_secs(10),
        stop_within: Duration::from_secs(20),
        fencing: Fencing::Unleased,
    };
    migrate(options.clone());
    let database = Database::open(&options).await.unwrap();
    let clock = Clock::boottime();
    let trust = Trust::none(clock.clone());
    trust.extend(clock.now() + Duration::from_secs(3600));
    let id = TermId { name: "work".parse().unwrap(), holder: Incarnation::new(), epoch: Epoch(1) };
    let (stop, progress) = (CancellationToken::new(), Progress::new(clock));
    let context = Context { term: Term::new(id, trust), stop, progress };
    (Writer::new(database, context, Arc::default()), directory)
}

fn frame(did: &str, collection: &str, record: &str) -> Frame {
    let (at, rev) = (1_783_175_888_085_434, ids::tid(1_783_175_888_085_434, 1));
    let line = format!(
        r#"{{"did":"{did}","time_us":{at},"kind":"commit","commit":{{"rev":"{rev}","operation":"create","collection":"{collection}","rkey":"app","record":{record}}}}}"#
    );
    Frame { wire: Wire::V1, host: "h:1".into(), received_us: at, bytes: line.into(), room: None }
}

/// Time stands still while anybody has something to do.
#[tokio::test(start_paused = true)]
async fn a_batch_is_filled_with_what_is_ours_and_gives_back_the_room_of_all_else() {
    let (mut writer, _directory) = writer().await;
    let (sender, mut receiver) = queue(4_096, QUEUE_BYTES);
    let page = records::page("app", "about", 1).to_string();
    let ours = move |n: usize| frame(&format!("did:plc:{n:024}"), records::PAGE, &page);
    let sending = tokio::spawn(async move {
        let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(300));
        for n in 0..10 {
            sender.send(ours(n)).await.unwrap();
            for _ in 0..BATCH_FRAMES {
                sender.send(frame("did:plc:stranger", "app.bsky.feed.post", &text)).await.unwrap();
            }
        }
        sender
    });
    let first = receiver.recv().await.unwrap();
    writer.batch(first, &mut receiver).await.map_err(|_| "stopped").unwrap();
    assert_eq!(writer.database.known_dids().await.unwrap().len(), 10);
    drop(sending.await.unwrap());
}

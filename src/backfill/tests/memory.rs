//! How much is held at once.

use localnet::network::{Fault, Made};

use super::*;
use crate::backfill::fetch::Shortfall;

const MIB: usize = 1 << 20;

/// What this process holds of memory, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

/// The most that is resident while the future runs, beyond what was before.
async fn grown<T>(future: impl Future<Output = T>) -> (T, usize) {
    let before = resident();
    let mut most = before;
    let mut looks = tokio::time::interval(millis(2));
    tokio::pin!(future);
    loop {
        tokio::select! {
            done = &mut future => return (done, most.saturating_sub(before)),
            _ = looks.tick() => most = most.max(resident()),
        }
    }
}

// S29: bluesky-social/jetstream#52
#[tokio::test]
async fn eight_answers_of_fifty_megabytes_at_once_are_not_held() {
    let stage = Stage::with(Limits { per_host: 8, ..limits() }, millis(60_000)).await;
    let dids: Vec<Did> = (0..8).map(|i| stage.account(&format!("a{i}"), i % 2, 1)).collect();
    // They wait for each other, and meet it with their first pages; then smaller ones are asked for.
    stage.net.set_fault(On::any().path(LATEST), Fault::Late(500));
    stage.net.set_fault(On::any().path(LIST).times(8), Fault::Overlong(50 * MIB));
    let (fetched, grown) = grown(join_all(dids.iter().map(|did| stage.fetcher.fetch(did, None)))).await;
    // Eight bodies of 4 MiB, their buffers' spare room and the network's own are some 100; whole answers were 400.
    assert!(grown < 200 * MIB, "{} MiB", grown / MIB);
    let listing =
        |fetched| if let Ok(Fetched::Listed(listing)) = fetched { listing } else { panic!("{fetched:?}") };
    let listings: Vec<Listing> = fetched.into_iter().map(listing).collect();
    assert!(listings.iter().all(|listing| listing.shortfall.is_none() && listing.records.len() == 1));
    // Each: the revision, nine collections, and the end of one. The eight were asked for again.
    assert_eq!(listings.iter().map(|listing| listing.requests).sum::<u32>(), 8 * (1 + 9 + 1) + 8);
}

#[tokio::test]
async fn a_repository_of_too_many_bytes_is_read_in_part() {
    let stage = Stage::start().await;
    let made = stage.net.add_made_accounts(1, Made::records(301).padded(300_000)).remove(0);
    let listing = stage.listing(&Did::parse(&made).unwrap()).await;
    let why = Shortfall::TooManyBytes;
    assert_eq!(listing.shortfall, Some(FetchError::Short { collection: Collection::Manifest, why }));
    assert_eq!(listing.complete, Collection::ALL[..4]);
    // Ten in 3 MB.
    assert_eq!(listing.records.len(), 1 + 12 * 10);
}

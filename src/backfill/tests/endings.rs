//! Listings, to their end.

use localnet::network::{Ending, Fault, Made};

use super::*;
use crate::atproto::State;
use crate::backfill::fetch::Shortfall;

const COMPLETE: [Collection; 9] = Collection::ALL;

#[tokio::test]
async fn a_listing_is_whole_whichever_way_its_server_ends_it() {
    let stage = Stage::start().await;
    // Less than a page, whole pages, and some more; the size of a page is 100.
    for (tags, name) in [(0, "none"), (1, "one"), (7, "few"), (200, "pages"), (230, "more")] {
        let did = stage.account(name, 0, tags);
        for ending in [Ending::EmptyPage, Ending::NoCursor, Ending::Repeats] {
            stage.net.set_ending(Site::Pds(0), ending);
            let listing = stage.listing(&did).await;
            assert_eq!(listing.records.len(), tags, "{tags} {ending:?}");
            assert_eq!((&*listing.complete, &listing.shortfall), (&COMPLETE[..], &None), "{tags} {ending:?}");
            assert!(rkeys(&listing).is_sorted_by(|a, b| a > b));
            assert!(listing.records.iter().all(|change| change.rev == listing.rev));
        }
    }
}

#[tokio::test]
async fn a_server_that_ignores_cursors_is_left_and_its_listing_is_not_whole() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 150);
    stage.net.set_ending(Site::Pds(0), Ending::IgnoresCursors);
    let listing = stage.listing(&did).await;
    assert_eq!(listing.records.len(), 100);
    assert!(!listing.complete.contains(&Collection::Tag) && listing.complete.len() == 8);
    let why = Shortfall::NoEnd;
    assert_eq!(listing.shortfall, Some(FetchError::Short { collection: Collection::Tag, why }));
    // One request for the revision, one for each collection, one more for the page that was the same.
    assert_eq!(listing.requests, 1 + 9 + 1);
}

#[tokio::test]
async fn a_relays_list_is_read_to_its_end_whichever_way_that_comes() {
    let stage = Stage::start().await;
    let made = stage.net.add_made_accounts(4_500, Made::records(1));
    for ending in [Ending::EmptyPage, Ending::NoCursor, Ending::Repeats] {
        stage.net.set_ending(Site::Relay(0), ending);
        let (dids, end) = stage.enumerated(0, Collection::Profile).await;
        assert_eq!((dids.len(), end), (made.len(), Turn::End), "{ending:?}");
        assert!(dids.iter().map(Did::as_str).eq(made.iter()));
    }
    stage.net.set_ending(Site::Relay(1), Ending::IgnoresCursors);
    let (dids, end) = stage.enumerated(1, Collection::Profile).await;
    assert_eq!((dids.len(), end), (2_000, Turn::Unclear));
    assert_eq!(stage.enumerated(0, Collection::Star).await, (Vec::new(), Turn::End));
}

#[tokio::test]
async fn a_collection_of_more_than_ten_thousand_records_is_cut_and_the_next_is_read() {
    let stage = Stage::start().await;
    let made = stage.net.add_made_accounts(1, Made::records(20_102)).remove(0);
    let listing = stage.listing(&Did::parse(&made).unwrap()).await;
    let short = |collection| Some(FetchError::Short { collection, why: Shortfall::TooManyRecords });
    assert_eq!(listing.shortfall, short(Collection::Manifest));
    assert!(!listing.shortfall.unwrap().is_temporary());
    let of = |collection| listing.records.iter().filter(|change| change.collection == collection).count();
    assert_eq!([Collection::Manifest, Collection::Tag].map(of), [10_050, 10_051]);
    let whole = COMPLETE.into_iter().filter(|of| ![Collection::Manifest, Collection::Tag].contains(of));
    assert!(listing.complete.into_iter().eq(whole));
}

#[tokio::test]
async fn a_page_that_is_too_large_is_asked_for_in_smaller_ones() {
    let stage = Stage::start().await;
    // Of 30 manifests a page of 100 has 9 MB, one of 10 has 3.
    let made = stage.net.add_made_accounts(1, Made::records(61).padded(300_000)).remove(0);
    let listing = stage.listing(&Did::parse(&made).unwrap()).await;
    assert_eq!((&*listing.complete, &listing.shortfall), (&COMPLETE[..], &None));
    assert_eq!(listing.records.len(), 61);
    assert!(listing.records.iter().all(|change| matches!(change.state, State::Present(_))));
}

#[tokio::test]
async fn a_failure_keeps_what_was_read_and_says_what_was_not() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 3);
    stage.net.put(did.as_str(), records::PROFILE, "self", records::profile("did:web:hold01.test", 0));
    stage.net.put(did.as_str(), records::STAR, "a", json!({ "subject": 5 }));
    // The first requests are answered: captain, crew, and profile with its end.
    stage.net.set_fault(On::any().path(LIST), Fault::Empty(500));
    stage.net.set_fault(On::any().path(LIST).times(4), Fault::Late(1));
    let listing = stage.listing(&did).await;
    assert_eq!(listing.complete, COMPLETE[..3]);
    assert_eq!(rkeys(&listing), ["self"]);
    assert!(listing.shortfall.unwrap().is_temporary());
    // What is refused for good in one collection does not end the others.
    stage.net.clear_faults();
    stage.net.set_fault(On::any().path(LIST).times(1), Fault::Html(404));
    let listing = stage.listing(&did).await;
    assert_eq!(listing.complete, COMPLETE[1..]);
    assert!(!listing.shortfall.unwrap().is_temporary());
    let star = listing.records.iter().find(|change| change.collection == Collection::Star).unwrap();
    assert_eq!(star.state, State::Unreadable);
    stage.net.set_fault(On::any().path(LIST), Fault::CutBody);
    assert!(stage.fetcher.fetch(&did, None).await.unwrap_err().is_temporary());
}

#[tokio::test]
async fn what_changes_during_a_listing_has_a_revision_above_it() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 3);
    stage.net.set_fault(On::any().path(LIST), Fault::Late(50));
    let pages = || stage.net.requests(&On::any().path(LIST));
    let change = async {
        assert!(localnet::until(millis(5_000), || pages() > 0).await);
        stage.net.put(did.as_str(), records::TAG, "late", json!({})).rev
    };
    let (listing, changed) = tokio::join!(stage.listing(&did), change);
    assert!(rkeys(&listing).contains(&"late"));
    assert!(listing.rev.as_str() < changed.as_str());
}

#[tokio::test]
async fn a_fetch_that_is_given_up_gives_its_place_back() {
    let stage = Stage::with(Limits { per_host: 1, ..limits() }, millis(5_000)).await;
    let did = stage.account("alice", 0, 3);
    stage.net.set_fault(On::any().path(LIST), Fault::Never);
    let pages = || stage.net.requests(&On::any().path(LIST));
    tokio::select! {
        fetched = stage.fetcher.fetch(&did, None) => panic!("answered: {fetched:?}"),
        began = localnet::until(millis(5_000), || pages() > 0) => assert!(began),
    }
    stage.net.clear_faults();
    assert_eq!(stage.listing(&did).await.records.len(), 3);
}

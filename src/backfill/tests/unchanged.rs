//! What a repository costs that has not changed, and that an account which has moved is not taken for one.

use localnet::network::Fault;

use super::*;

/// Requests to anybody.
fn requests(stage: &Stage) -> usize {
    stage.net.visits().len()
}

/// As the index knows it, which has just read it whole.
fn known(listing: &Listing) -> Known {
    Known { rev: listing.rev, pds: listing.identity.pds.clone() }
}

#[tokio::test]
async fn an_unchanged_repository_costs_its_pds_one_request_and_nobody_another() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 3);
    let listing = stage.listing(&did).await;
    assert_eq!(listing.identity.pds.as_deref(), Some("http://pds0.test"));
    let known = known(&listing);
    let before = requests(&stage);
    let fetched = stage.fetcher.fetch(&did, Some(&known)).await.unwrap();
    assert!(
        matches!(&fetched, Fetched::Unchanged { rev, identity: None } if *rev == listing.rev),
        "{fetched:?}"
    );
    assert_eq!(requests(&stage) - before, 1);
}

#[tokio::test]
async fn where_it_is_not_known_to_be_it_is_resolved_first() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 3);
    let known = Known { rev: stage.listing(&did).await.rev, pds: None };
    let (pds, plc) = (On::site(Site::Pds(0)), On::site(Site::Plc));
    let before = (stage.net.requests(&pds), stage.net.requests(&plc));
    let fetched = stage.fetcher.fetch(&did, Some(&known)).await.unwrap();
    assert!(matches!(&fetched, Fetched::Unchanged { identity: Some(_), .. }), "{fetched:?}");
    assert_eq!((stage.net.requests(&pds) - before.0, stage.net.requests(&plc) - before.1), (1, 1));
}

#[tokio::test]
async fn a_change_is_listed_without_asking_for_the_revision_twice() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 3);
    let listing = stage.listing(&did).await;
    let known = known(&listing);
    stage.net.delete(did.as_str(), records::TAG, &records::tag_rkey("hello", "v00001"));
    let (latest, pds) = (On::any().path(LATEST), On::site(Site::Pds(0)));
    let before = (stage.net.requests(&latest), stage.net.requests(&pds));
    let Fetched::Listed(changed) = stage.fetcher.fetch(&did, Some(&known)).await.unwrap() else {
        panic!("unchanged")
    };
    assert!(changed.rev > listing.rev && changed.records.len() == 2);
    assert_eq!(stage.net.requests(&latest) - before.0, 1);
    assert_eq!(u64::from(changed.requests), stage.net.requests(&pds) - before.1);
}

#[tokio::test]
async fn a_pds_that_has_it_no_more_has_the_account_resolved_afresh() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 3);
    let known = known(&stage.listing(&did).await);
    stage.net.move_account(did.as_str(), 1);
    let fetched = stage.fetcher.fetch(&did, Some(&known)).await.unwrap();
    let Fetched::Unchanged { identity: Some(identity), .. } = fetched else { panic!("{fetched:?}") };
    assert_eq!(identity.pds.as_deref(), Some("http://pds1.test"));
    // One that is out of order, too.
    stage.net.move_account(did.as_str(), 0);
    stage.net.set_fault(On::site(Site::Pds(1)), Fault::Status(500));
    let known = Known { pds: Some("http://pds1.test".to_owned()), ..known };
    let fetched = stage.fetcher.fetch(&did, Some(&known)).await.unwrap();
    assert!(matches!(fetched, Fetched::Unchanged { identity: Some(_), .. }), "{fetched:?}");
}

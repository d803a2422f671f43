//! Accounts that are gone, that moved, that are elsewhere than they say.

use localnet::network::Fault;

use super::*;
use crate::atproto::Handle;
use crate::atproto::guard::GuardError;
use crate::atproto::identity::HandleCheck;
use crate::atproto::xrpc::XrpcError;
use crate::backfill::ask::AskError;
use crate::backfill::fetch::RepoStatus;

// S22: indigo#1276
#[tokio::test]
async fn a_relays_list_full_of_the_gone_is_worked_off_without_end_or_press() {
    let stage = Stage::with(Limits { wait_max: millis(100), ..limits() }, millis(200)).await;
    let good: Vec<Did> = (0..14).map(|i| stage.account(&format!("good{i}"), 0, 1)).collect();
    let deleted: Vec<Did> = (0..2).map(|i| stage.account(&format!("deleted{i}"), 0, 1)).collect();
    let dead: Vec<Did> = (0..20).map(|i| stage.account(&format!("dead{i}"), 1, 1)).collect();
    let buried = stage.account("buried", 0, 1);
    deleted.iter().for_each(|did| stage.net.set_account(did.as_str(), false, Some("deleted")));
    stage.net.tombstone(buried.as_str());
    stage.net.set_fault(On::site(Site::Pds(1)), Fault::Never);
    let (listed, _) = stage.enumerated(0, Collection::Tag).await;
    assert_eq!(listed.len(), 14 + 2 + 20 + 1);
    let fetched = tokio::time::timeout(
        Duration::from_secs(30),
        join_all(listed.iter().map(|did| stage.fetcher.fetch(did, None))),
    );
    for (did, fetched) in listed.iter().zip(fetched.await.expect("an end")) {
        match fetched {
            Ok(Fetched::Listed(_)) => assert!(good.contains(did)),
            Ok(Fetched::Missing { .. }) => assert!(deleted.contains(did) || *did == buried),
            Err(error) => assert!(dead.contains(did) && error.is_temporary(), "{did}: {error}"),
            other => panic!("{did}: {other:?}"),
        }
    }
    // Not one deadline for each of its accounts.
    assert!(stage.net.requests(&On::site(Site::Pds(1))) <= 4);
    assert_eq!(stage.net.requests(&On::site(Site::Pds(0)).path(LATEST)), 16);
}

// S25: indigo#1407
#[tokio::test]
async fn an_account_that_moved_is_read_where_its_document_says_at_the_time() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 2);
    stage.listing(&did).await;
    stage.net.move_account(did.as_str(), 1);
    stage.net.put_unseen(did.as_str(), records::TAG, "new", json!({}));
    let before = stage.net.requests(&On::site(Site::Pds(0)));
    let listing = stage.listing(&did).await;
    assert_eq!(listing.identity.pds.as_deref(), Some("http://pds1.test"));
    assert_eq!(listing.records.len(), 3);
    assert_eq!(stage.net.requests(&On::site(Site::Pds(0))), before);
    assert!(
        matches!(stage.fetcher.status(&did).await, Ok(RepoStatus::Active { rev: Some(rev) }) if rev == listing.rev)
    );
}

// S30: indigo#621
#[tokio::test]
async fn an_empty_500_is_trouble_and_never_a_deletion() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 1);
    for status in [500, 502] {
        stage.net.clear_faults();
        stage.net.set_fault(On::site(Site::Pds(0)), Fault::Empty(status));
        stage.net.set_fault(On::site(Site::Relay(0)), Fault::Empty(status));
        assert!(stage.fetcher.fetch(&did, None).await.unwrap_err().is_temporary());
        assert!(stage.fetcher.status(&did).await.unwrap_err().is_temporary());
        assert!(stage.relays.page(0, Collection::Tag, None).await.unwrap_err().is_temporary());
    }
    stage.net.clear_faults();
    for status in [500, 503] {
        stage.net.set_fault(On::site(Site::Plc).times(1), Fault::Empty(status));
        assert!(stage.fetcher.fetch(&did, None).await.unwrap_err().is_temporary());
    }
}

#[tokio::test]
async fn only_the_accounts_own_word_counts_as_its_deletion() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 1);
    let status = async || stage.fetcher.status(&did).await;
    for word in ["deactivated", "takendown", "suspended"] {
        stage.net.set_account(did.as_str(), false, Some(word));
        assert_eq!(status().await, Ok(RepoStatus::Inactive(word.to_owned())));
        let fetched = stage.fetcher.fetch(&did, None).await.unwrap();
        assert!(matches!(&fetched, Fetched::Inactive { status, .. } if status == word), "{fetched:?}");
    }
    stage.net.set_account(did.as_str(), false, Some("deleted"));
    assert_eq!(status().await, Ok(RepoStatus::Deleted));
    assert!(matches!(stage.fetcher.fetch(&did, None).await, Ok(Fetched::Missing { .. })));
    for fault in [
        Fault::Html(404),
        Fault::Html(410),
        Fault::Status(400),
        Fault::Status(404),
        Fault::Redirect(1),
        Fault::Html(200),
    ] {
        stage.net.set_fault(On::any().path(STATUS).times(1), fault);
        assert!(status().await.is_err(), "{fault:?}");
    }
    stage.net.set_account(did.as_str(), true, None);
    stage.net.tombstone(did.as_str());
    assert_eq!(status().await, Ok(RepoStatus::Deleted));
    // A host that one may lose says no such thing of its own did:web.
    let hold = Did::parse("did:web:gone.test").unwrap();
    assert!(stage.fetcher.status(&hold).await.is_err());
    assert!(matches!(stage.fetcher.fetch(&hold, None).await, Ok(Fetched::Missing { .. })));
}

/// A repository that goes away while it is listed has no listing: what is missing from it was not deleted by its owner.
#[tokio::test]
async fn an_account_that_goes_away_during_its_listing_is_missing() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 3);
    stage.net.set_fault(On::any().path(LIST), Fault::Late(50));
    let go = async {
        assert!(localnet::until(millis(5_000), || stage.net.requests(&On::any().path(LIST)) > 2).await);
        stage.net.set_account(did.as_str(), false, Some("deactivated"));
    };
    let (fetched, ()) = tokio::join!(stage.fetcher.fetch(&did, None), go);
    assert!(matches!(fetched, Ok(Fetched::Missing { .. })), "{fetched:?}");
}

/// Holds serve no `getLatestCommit`.
#[tokio::test]
async fn a_hold_tells_its_revision_in_its_status() {
    let stage = Stage::start().await;
    let hold = Did::parse(&stage.net.add_web_account("hold01")).unwrap();
    stage.net.put(hold.as_str(), records::CAPTAIN, "self", records::captain("did:plc:alice", 0));
    for fault in [Fault::Html(404), Fault::Status(501)] {
        stage.net.clear_faults();
        stage.net.set_fault(On::any().path(LATEST), fault);
        let listing = stage.listing(&hold).await;
        assert_eq!((rkeys(&listing), listing.complete.len()), (vec!["self"], 9));
        assert!(matches!(
            stage.fetcher.fetch(&hold, Some(&Known { rev: listing.rev, pds: None })).await,
            Ok(Fetched::Unchanged { .. })
        ));
    }
    stage.net.set_account(hold.as_str(), false, Some("takendown"));
    assert!(matches!(stage.fetcher.fetch(&hold, None).await, Ok(Fetched::Inactive { .. })));
    stage.net.set_account(hold.as_str(), false, Some("deleted"));
    assert!(matches!(stage.fetcher.fetch(&hold, None).await, Ok(Fetched::Missing { .. })));
}

// S27: bluesky-social/pds#359
#[tokio::test]
async fn an_account_that_no_relay_lists_is_read_all_the_same() {
    let stage = Stage::start().await;
    let did = stage.account("busy", 1, 0);
    stage.net.throttle(did.as_str(), true);
    stage.net.put(did.as_str(), records::TAG, "a", json!({}));
    assert_eq!(stage.enumerated(0, Collection::Tag).await.0, []);
    assert_eq!(rkeys(&stage.listing(&did).await), ["a"]);
}

// S31: bluesky-social/atproto#5504
#[tokio::test]
async fn a_handle_that_never_answers_costs_one_deadline_and_not_the_listing() {
    let stage = Stage::with(limits(), millis(300)).await;
    let did = stage.account("alice", 0, 1);
    stage.net.set_fault(On::site(Site::Hosts).host("alice.test"), Fault::Never);
    let began = std::time::Instant::now();
    let listing = stage.listing(&did).await;
    assert!(matches!(listing.identity.handle, HandleCheck::Unknown(_)));
    assert!(listing.complete.len() == 9 && began.elapsed() < Duration::from_secs(5));
}

// S31: bluesky-social/atproto#5504
#[tokio::test]
async fn a_document_that_leads_to_a_private_address_is_not_followed() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 1);
    for endpoint in ["http://169.254.169.254", "https://10.0.0.1", "http://[fe80::1]:80", "http://0.0.0.0"] {
        stage.net.set_endpoint(did.as_str(), Some(endpoint));
        let error = stage.fetcher.fetch(&did, None).await.unwrap_err();
        let FetchError::Ask(AskError::Failed { error: XrpcError::Unanswered(asked), .. }) = &error else {
            panic!("{endpoint}: {error}")
        };
        assert!(matches!(asked, GuardError::Forbidden { .. }), "{endpoint}: {error}");
        assert!(!error.is_temporary());
        assert!(stage.fetcher.status(&did).await.is_err());
    }
    for endpoint in ["ftp://pds.test", "", "pds.test"] {
        stage.net.set_endpoint(did.as_str(), Some(endpoint));
        assert!(matches!(stage.fetcher.fetch(&did, None).await, Err(FetchError::NoPds(_))), "{endpoint}");
    }
}

// S32: chive-pub/chive#77
#[tokio::test]
async fn a_handle_with_no_record_in_dns_is_proven_by_its_file() {
    let stage = Stage::start().await;
    let did = stage.account("alice", 0, 1);
    let valid = HandleCheck::Valid(Handle::parse("alice.test").unwrap());
    assert_eq!(stage.listing(&did).await.identity.handle, valid);
}

#[tokio::test]
async fn nobody_and_what_is_no_pds_are_told_apart() {
    let stage = Stage::start().await;
    let nobody = Did::parse("did:plc:nobody").unwrap();
    assert!(matches!(stage.fetcher.fetch(&nobody, None).await, Ok(Fetched::Missing { .. })));
    // Never was there: that is no deletion.
    assert!(stage.fetcher.status(&nobody).await.is_err());
    let did = stage.account("alice", 0, 1);
    for fault in [Fault::Html(200), Fault::Html(404), Fault::Redirect(1), Fault::Overlong(1 << 20)] {
        stage.net.clear_faults();
        stage.net.set_fault(On::site(Site::Pds(0)), fault);
        let error = stage.fetcher.fetch(&did, None).await.unwrap_err();
        assert!(!error.is_temporary() && error.retry_at().is_none(), "{fault:?}: {error}");
    }
}

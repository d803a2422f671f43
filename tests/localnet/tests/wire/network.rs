//! PLC directory, PDS and `*.test` hosts, and their faults.

use std::time::Duration;

use localnet::network::{Fault, On, Site};
use localnet::{Net, NetOptions, records};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::client::{QUIET, address, get, request};

async fn net() -> Net {
    Net::start(NetOptions { pdses: 2, ..NetOptions::default() }).await.unwrap()
}

async fn plc(net: &Net, did: &str) -> crate::client::Answer {
    get(address(&net.plc_url()), "plc.test", &format!("/{did}")).await
}

async fn xrpc(net: &Net, call: &str) -> crate::client::Answer {
    get(address(&net.pds_url()), "pds.test", &format!("/xrpc/com.atproto.{call}")).await
}

fn error(answer: &crate::client::Answer) -> (u16, Value) {
    (answer.status, answer.json()["error"].clone())
}

#[tokio::test]
async fn the_directory_knows_documents_strangers_and_tombstones() {
    let net = net().await;
    let did = net.add_account("alice");
    let document = plc(&net, &did).await.json();
    assert_eq!(document["id"], json!(did));
    assert_eq!(document["alsoKnownAs"], json!(["at://alice.test"]));
    assert_eq!(document["service"][0]["serviceEndpoint"], json!(net.pds_url()));
    assert_eq!(plc(&net, "did:plc:nobody").await.status, 404);
    net.tombstone(&did);
    assert_eq!(plc(&net, &did).await.status, 410);
    assert_eq!(net.requests(&On::site(Site::Plc)), 3);
    assert_eq!(net.requests(&On::site(Site::Plc).path("/did:plc:nobody")), 1);
}

#[tokio::test]
async fn handles_claim_their_did_by_host_name() {
    let net = net().await;
    let did = net.add_account("alice");
    let claim = async |host: &str| get(net.test_hosts(), host, "/.well-known/atproto-did").await;
    assert_eq!(claim("alice.test:80").await.body, did);
    net.change_handle(&did, "alicia.test");
    assert_eq!(claim("alice.test").await.status, 404);
    assert_eq!(claim("ALICIA.test").await.body, did);
    assert_eq!(plc(&net, &did).await.json()["alsoKnownAs"], json!(["at://alicia.test"]));
    net.set_claim(&did, Some("did:plc:other"));
    assert_eq!(claim("alicia.test").await.body, "did:plc:other");
    assert_eq!(net.requests(&On::site(Site::Hosts).host("alice.test")), 2);
}

#[tokio::test]
async fn a_web_account_is_served_by_its_own_host() {
    let net = net().await;
    let hold = net.add_web_account("hold01");
    net.put(&hold, records::CAPTAIN, "self", records::captain(&hold, 0));
    let document = get(net.test_hosts(), "hold01.test", "/.well-known/did.json").await.json();
    assert_eq!(document["id"], "did:web:hold01.test");
    assert_eq!(document["service"][0]["serviceEndpoint"], "http://hold01.test");
    let target =
        format!("/xrpc/com.atproto.repo.getRecord?repo={hold}&collection={}&rkey=self", records::CAPTAIN);
    assert_eq!(get(net.test_hosts(), "hold01.test", &target).await.json()["value"]["owner"], json!(hold));
    assert_eq!(get(net.test_hosts(), "hold01.test", "/xrpc/_health").await.status, 200);
    assert_eq!(get(net.test_hosts(), "other.test", &target).await.status, 400);
    assert_eq!(get(net.test_hosts(), "other.test", "/.well-known/did.json").await.status, 404);
    assert_eq!(plc(&net, &hold).await.status, 404);
}

#[tokio::test]
async fn records_are_listed_newest_key_first_until_an_empty_page() {
    let net = net().await;
    let did = net.add_account("alice");
    for rkey in ["a", "b", "c"] {
        net.put(&did, records::TAG, rkey, json!({}));
    }
    let call = format!("repo.listRecords?repo={did}&collection={}&limit=2", records::TAG);
    let rkeys = |page: &Value| -> Vec<String> {
        let uris = page["records"].as_array().unwrap().iter().map(|r| r["uri"].as_str().unwrap());
        uris.map(|uri| uri.rsplit('/').next().unwrap().to_owned()).collect()
    };
    let first = xrpc(&net, &call).await.json();
    assert_eq!(rkeys(&first), ["c", "b"]);
    let second = xrpc(&net, &format!("{call}&cursor={}", first["cursor"].as_str().unwrap())).await.json();
    assert_eq!((rkeys(&second), &second["cursor"]), (vec!["a".to_owned()], &json!("a")));
    assert_eq!(xrpc(&net, &format!("{call}&cursor=a")).await.json(), json!({ "records": [] }));
    assert_eq!(rkeys(&xrpc(&net, &format!("{call}&reverse=true")).await.json()), ["a", "b"]);
    for bad in [call.replace("limit=2", "limit=101"), call.replace(&did, "did:plc:nobody")] {
        assert_eq!(error(&xrpc(&net, &bad).await), (400, json!("InvalidRequest")));
    }
}

#[tokio::test]
async fn a_pds_tells_revisions_and_states_apart() {
    let net = net().await;
    let did = net.add_account("alice");
    let put = net.put(&did, records::TAG, "a", json!({}));
    let unseen = net.put_unseen(&did, records::TAG, "b", json!({}));
    assert!(unseen.rev > put.rev);
    assert_eq!(net.jetstream(0).published_commits().len(), 1);
    let latest = format!("sync.getLatestCommit?did={did}");
    let status = format!("sync.getRepoStatus?did={did}");
    assert_eq!(xrpc(&net, &latest).await.json()["rev"], json!(unseen.rev));
    assert_eq!(xrpc(&net, &status).await.json(), json!({ "did": did, "active": true, "rev": unseen.rev }));
    net.set_account(&did, false, Some("deactivated"));
    assert_eq!(error(&xrpc(&net, &latest).await), (400, json!("RepoDeactivated")));
    assert_eq!(xrpc(&net, &status).await.json()["status"], "deactivated");
    net.set_account(&did, false, Some("deleted"));
    assert_eq!(error(&xrpc(&net, &status).await), (400, json!("RepoNotFound")));
    let record = format!("repo.getRecord?repo={did}&collection={}&rkey=", records::TAG);
    assert_eq!(error(&xrpc(&net, &format!("{record}a")).await), (400, json!("InvalidRequest")));
    net.set_account(&did, true, None);
    assert_eq!(xrpc(&net, &format!("{record}a")).await.json()["cid"], json!(put.cid));
    assert_eq!(error(&xrpc(&net, &format!("{record}z")).await), (400, json!("RecordNotFound")));
    assert_eq!(xrpc(&net, "server.describeServer").await.json()["did"], "did:web:pds0.test");
    assert_eq!(xrpc(&net, "sync.getRepo").await.status, 501);
}

#[tokio::test]
async fn a_moved_account_is_known_to_its_new_pds_only() {
    let net = net().await;
    let did = net.add_account("alice");
    net.put(&did, records::TAG, "a", json!({}));
    net.move_account(&did, 1);
    assert_eq!(plc(&net, &did).await.json()["service"][0]["serviceEndpoint"], json!(net.pds_url_of(1)));
    let target = format!("/xrpc/com.atproto.sync.getLatestCommit?did={did}");
    assert_eq!(get(address(&net.pds_url_of(0)), "x", &target).await.status, 400);
    assert_eq!(get(address(&net.pds_url_of(1)), "x", &target).await.status, 200);
}

#[tokio::test]
async fn faults_meet_the_requests_they_are_meant_for() {
    let net = net().await;
    let did = net.add_account("alice");
    let status = format!("sync.getRepoStatus?did={did}");
    let on = || On::site(Site::Pds(0)).path("/xrpc/com.atproto.sync.");
    net.set_fault(on().times(1), Fault::Status(500));
    assert_eq!(xrpc(&net, &status).await.status, 500);
    assert_eq!(xrpc(&net, &status).await.status, 200);
    net.set_fault(on(), Fault::RetryAfter(7));
    let limited = xrpc(&net, &status).await;
    assert!(limited.status == 429 && limited.head.contains("retry-after: 7"));
    assert_eq!(xrpc(&net, "server.describeServer").await.status, 200);
    net.set_fault(on(), Fault::Html(429));
    assert!(xrpc(&net, &status).await.body.starts_with("<!doctype html>"));
    net.set_fault(on(), Fault::Empty(500));
    assert_eq!(xrpc(&net, &status).await.body, "");
    net.set_fault(on(), Fault::Redirect(1));
    assert!(xrpc(&net, &status).await.head.contains("location: http://127.0.0.1:1/"));
    net.set_fault(on(), Fault::Overlong(3 << 20));
    assert_eq!(xrpc(&net, &status).await.body.len(), 3 << 20);
    net.clear_faults();
    assert_eq!(xrpc(&net, &status).await.status, 200);
    assert_eq!(net.requests(&on()), 8);
}

#[tokio::test]
async fn bodies_can_be_slow_cut_or_never_sent() {
    let net = net().await;
    let did = net.add_account("alice");
    net.set_fault(On::site(Site::Plc), Fault::Never);
    assert!(timeout(QUIET, plc(&net, &did)).await.is_err());
    net.set_fault(On::site(Site::Plc), Fault::CutBody);
    let cut = plc(&net, &did).await;
    assert!(cut.status == 200 && serde_json::from_str::<Value>(&cut.body).is_err());
    net.set_fault(On::site(Site::Plc), Fault::SlowBody);
    assert!(timeout(Duration::from_secs(1), plc(&net, &did)).await.is_err());
    assert_eq!(net.requests(&On::any()), 3);
}

#[tokio::test]
async fn several_requests_share_a_connection() {
    let net = net().await;
    let two = "GET /xrpc/_health HTTP/1.1\r\nhost: a\r\n\r\n\
               GET /nothing HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = request(address(&net.pds_url()), two).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("HTTP/1.1 404"));
}

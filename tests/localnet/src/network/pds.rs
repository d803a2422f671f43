//! A PDS as far as readers of public records need one. Shapes and errors are those of the reference PDS.

use serde_json::{Value, json};

use super::account::PageOf;
use super::endings::{Ending, Step};
use super::{Account, World, answers};
use crate::http::{Answer, Request};
use crate::{ids, lock};

const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 100;

/// Answers for the PDS of this number; None: for the host that was asked, which serves its did:web account.
pub(super) fn answer(world: &World, number: Option<usize>, ending: Ending, request: &Request) -> Answer {
    // Nothing is copied: a repository may be large, and one page of it is asked for.
    let accounts = lock(&world.accounts);
    let repo = |name: &str| {
        let of = accounts.find(&request.parameter(name)?).filter(|account| account.pds == number)?;
        let ours = number.is_some() || of.did == format!("did:web:{}", request.host);
        ours.then_some(of)
    };
    match request.path.as_str() {
        "/xrpc/_health" => Answer::json(200, &json!({ "version": "localnet" })),
        "/.well-known/atproto-did" => answers::handle_claim(&accounts, &request.host),
        "/xrpc/com.atproto.server.describeServer" => describe_server(number, &request.host),
        "/xrpc/com.atproto.repo.listRecords" => list_records(repo("repo"), ending, request),
        "/xrpc/com.atproto.repo.getRecord" => get_record(repo("repo"), request),
        "/xrpc/com.atproto.sync.getLatestCommit" => latest_commit(repo("did"), request),
        "/xrpc/com.atproto.sync.getRepoStatus" => repo_status(repo("did"), request),
        path if path.starts_with("/xrpc/") => Answer::error(501, "MethodNotImplemented", path),
        _ => Answer::text(404, "Not Found"),
    }
}

fn describe_server(number: Option<usize>, host: &str) -> Answer {
    let did = number.map_or_else(|| format!("did:web:{host}"), |n| format!("did:web:pds{n}.test"));
    let body = json!({ "did": did, "availableUserDomains": [".test"], "inviteCodeRequired": false });
    Answer::json(200, &body)
}

/// Newest record key first; the cursor is the record key of the last entry.
fn list_records(account: Option<&Account>, ending: Ending, request: &Request) -> Answer {
    let (Some(repo), Some(collection)) = (request.parameter("repo"), request.parameter("collection")) else {
        return invalid("Params must have the properties \"repo\" and \"collection\"");
    };
    let limit = request.parameter("limit").map_or(Ok(LIMIT_DEFAULT), |l| l.parse());
    let Some(limit) = limit.ok().filter(|limit| (1..=LIMIT_MAX).contains(limit)) else {
        return invalid("limit can not be less than 1 or greater than 100");
    };
    let Some(account) = account.filter(|account| account.active) else {
        return invalid(&format!("Could not find repo: {repo}"));
    };
    let asked = request.parameter("cursor");
    let reverse = request.parameter("reverse").as_deref() == Some("true");
    let beyond = asked.as_deref().filter(|_| ending != Ending::IgnoresCursors);
    // One more than asked for, to see whether more follow.
    let mut rows = account.page(&PageOf { collection: &collection, beyond, reverse, limit: limit + 1 });
    let more_follow = rows.len() > limit;
    rows.truncate(limit);
    let cursor = match ending.of(rows.is_empty(), more_follow) {
        Step::Stop => None,
        Step::Cursor => rows.last().map(|(rkey, _)| rkey.clone()),
        Step::Again => {
            rows = asked
                .iter()
                .filter_map(|key| Some((key.clone(), account.record(&collection, key)?)))
                .collect();
            asked
        }
    };
    let mut body = json!({ "records": rows.iter().map(|(rkey, record)| json!({
        "uri": format!("at://{}/{collection}/{rkey}", account.did), "cid": record.cid, "value": record.value,
    })).collect::<Vec<Value>>() });
    if let Some(cursor) = cursor {
        body["cursor"] = cursor.into();
    }
    Answer::json(200, &body)
}

fn get_record(account: Option<&Account>, request: &Request) -> Answer {
    let [repo, collection, rkey] =
        ["repo", "collection", "rkey"].map(|n| request.parameter(n).unwrap_or_default());
    let Some(account) = account.filter(|account| account.active) else {
        return invalid(&format!("Could not find repo: {repo}"));
    };
    let uri = format!("at://{}/{collection}/{rkey}", account.did);
    match account.record(&collection, &rkey) {
        Some(record) => Answer::json(200, &json!({ "uri": uri, "cid": record.cid, "value": record.value })),
        None => Answer::error(400, "RecordNotFound", &format!("Could not locate record: {uri}")),
    }
}

fn latest_commit(account: Option<&Account>, request: &Request) -> Answer {
    let did = request.parameter("did").unwrap_or_default();
    let Some(account) = account else { return repo_not_found(&did) };
    match (account.active, account.status.as_deref()) {
        (true, _) => {
            // A fresh repository has a commit too, from before any record.
            let rev = account.rev.clone().unwrap_or_else(|| ids::tid(1, 0));
            Answer::json(200, &json!({ "cid": ids::cid(&json!({ "rev": rev })), "rev": rev }))
        }
        (false, Some("deactivated")) => {
            Answer::error(400, "RepoDeactivated", &format!("Repo deactivated: {did}"))
        }
        (false, Some("takendown")) => Answer::error(400, "RepoTakendown", &format!("Repo taken down: {did}")),
        (false, Some("suspended")) => Answer::error(400, "RepoSuspended", &format!("Repo suspended: {did}")),
        (false, _) => repo_not_found(&did),
    }
}

/// A deleted account is unknown to the reference PDS; the others keep their status.
fn repo_status(account: Option<&Account>, request: &Request) -> Answer {
    match account.filter(|account| account.status.as_deref() != Some("deleted")) {
        None => repo_not_found(&request.parameter("did").unwrap_or_default()),
        Some(Account { did, active: true, rev, .. }) => {
            Answer::json(200, &json!({ "did": did, "active": true, "rev": rev }))
        }
        Some(Account { did, status, .. }) => {
            Answer::json(200, &json!({ "did": did, "active": false, "status": status }))
        }
    }
}

fn repo_not_found(did: &str) -> Answer {
    Answer::error(400, "RepoNotFound", &format!("Could not find repo for DID: {did}"))
}

fn invalid(message: &str) -> Answer {
    Answer::error(400, "InvalidRequest", message)
}

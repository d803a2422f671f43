//! A relay, as far as its list of repositories by collection goes. It is only ever added to: accounts that are gone stay on
//! it (indigo#1276); did:web accounts and those that are throttled never come onto it.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::endings::Ending;
use super::{Account, World};
use crate::http::{Answer, Request};
use crate::lock;

const LIMIT_DEFAULT: usize = 500;
const LIMIT_MAX: usize = 2_000;

/// What one relay knows.
#[derive(Debug, Default)]
pub(super) struct Relay {
    lists: BTreeMap<String, List>,
}

/// In the order in which they were first seen.
#[derive(Debug, Default)]
struct List {
    dids: Vec<String>,
    known: HashSet<String>,
}

impl Relay {
    pub(super) fn observe(&mut self, account: &Account, collection: &str) {
        if account.throttled || !account.did.starts_with("did:plc:") {
            return;
        }
        let list = self.lists.entry(collection.to_owned()).or_default();
        if list.known.insert(account.did.clone()) {
            list.dids.push(account.did.clone());
        }
    }

    pub(super) fn clear(&mut self) {
        self.lists.clear();
    }
}

pub(super) fn answer(world: &World, number: usize, ending: Ending, request: &Request) -> Answer {
    match request.path.as_str() {
        "/xrpc/_health" => Answer::json(200, &json!({ "version": "localnet" })),
        "/xrpc/com.atproto.sync.listReposByCollection" => list_repos(world, number, ending, request),
        path if path.starts_with("/xrpc/") => Answer::error(501, "MethodNotImplemented", path),
        _ => Answer::text(404, "Not Found"),
    }
}

fn list_repos(world: &World, number: usize, ending: Ending, request: &Request) -> Answer {
    let invalid = |message| Answer::error(400, "InvalidRequest", message);
    let Some(collection) = request.parameter("collection") else {
        return invalid("collection is required");
    };
    let limit = request.parameter("limit").map_or(Ok(LIMIT_DEFAULT), |limit| limit.parse());
    let Some(limit) = limit.ok().filter(|limit| (1..=LIMIT_MAX).contains(limit)) else {
        return invalid("limit must be between 1 and 2000");
    };
    // Opaque to clients: how many came before.
    let asked = request.parameter("cursor");
    let Ok(before) = asked.as_deref().map_or(Ok(0), str::parse::<usize>) else {
        return invalid("cursor is none of ours");
    };
    let relays = lock(&world.relays);
    let dids = relays[number].lists.get(&collection).map_or(&[][..], |list| &list.dids);
    let from = if ending == Ending::IgnoresCursors { 0 } else { before.min(dids.len()) };
    let page: Vec<_> = dids[from..].iter().take(limit).collect();
    let rest = dids.len() - from - page.len();
    let reached = || (from + page.len()).to_string();
    let (page, cursor) = match ending.of(page.is_empty(), rest > 0) {
        super::endings::Step::Stop => (page, None),
        super::endings::Step::Cursor => (page.clone(), Some(reached())),
        super::endings::Step::Again => (dids.last().into_iter().collect(), asked),
    };
    let mut body = json!({ "repos": page.iter().map(|did| json!({ "did": did })).collect::<Vec<Value>>() });
    if let Some(cursor) = cursor {
        body["cursor"] = cursor.into();
    }
    Answer::json(200, &body)
}

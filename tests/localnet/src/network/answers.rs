//! What the PLC directory and the `*.test` hosts answer.

use serde_json::{Value, json};

use super::account::Accounts;
use super::endings::Ending;
use super::{Account, World, holds, pds};
use crate::http::{Answer, Request};
use crate::lock;

/// `GET /{did}`
pub(super) fn plc(world: &World, request: &Request) -> Answer {
    let did = request.path.trim_start_matches('/');
    if did == "_health" {
        return Answer::json(200, &json!({ "version": "localnet" }));
    }
    let accounts = lock(&world.accounts);
    match accounts.get(did).filter(|_| did.starts_with("did:plc:")) {
        None => Answer::json(404, &json!({ "message": format!("DID not registered: {did}") })),
        Some(account) if account.tombstoned => {
            Answer::json(410, &json!({ "message": format!("DID not available: {did}") }))
        }
        Some(account) => Answer::json(200, &document(world, account)),
    }
}

/// A `*.test` host: the claims of handles, the documents of did:web, and the PDS of did:web accounts.
pub(super) fn host(world: &World, ending: Ending, request: &Request) -> Answer {
    match request.path.as_str() {
        "/.well-known/atproto-did" => handle_claim(&lock(&world.accounts), &request.host),
        "/.well-known/did.json" => web_document(world, &request.host),
        _ => pds::answer(world, None, ending, request),
    }
}

pub(super) fn handle_claim(accounts: &Accounts, host: &str) -> Answer {
    let claim = accounts.by_handle(host).and_then(|account| account.claims.clone());
    claim.map_or_else(|| Answer::text(404, "User not found"), |did| Answer::text(200, did))
}

fn web_document(world: &World, host: &str) -> Answer {
    let accounts = lock(&world.accounts);
    match accounts.get(&format!("did:web:{host}")).filter(|account| !account.tombstoned) {
        Some(account) => Answer::json(200, &document(world, account)),
        None => Answer::text(404, "Not Found"),
    }
}

fn document(world: &World, account: &Account) -> Value {
    let url = pds_url(world, account);
    let mut document = account.document(&url);
    if holds::is_hold(world, &account.did)
        && let Some(services) = document["service"].as_array_mut()
    {
        services.push(json!({ "id": "#atcr_hold", "type": "AtcrHoldService", "serviceEndpoint": url }));
    }
    document
}

fn pds_url(world: &World, account: &Account) -> String {
    if let Some(endpoint) = &account.endpoint {
        return endpoint.clone();
    }
    let host = account.did.strip_prefix("did:web:").unwrap_or_default();
    let own = || format!("http://{host}");
    account.pds.and_then(|number| lock(&world.pds_urls).get(number).cloned()).unwrap_or_else(own)
}

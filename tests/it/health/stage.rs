//! Holds on a network in small, an index that names them, and what an instance says of them.

use std::collections::BTreeMap;

use localnet::network::{Fault, On, Site};
use serde_json::Value;

use crate::support::{
    eventually::eventually_blocking,
    http,
    place::{Kind, Place},
    process::{Exit, Instance},
    stage::{PATIENCE, Stage},
};

/// What a hold is asked.
pub(crate) const HEALTH: &str = "/xrpc/_health";

/// An empty index, and instances that do nothing but ask holds.
pub(crate) async fn stage(kind: Kind) -> Stage {
    let stage = Stage::bare(Place::fresh(kind).await).await;
    let (exit, text) = stage.command(&["migrate"]);
    assert_eq!(exit, Exit::Code(0), "{text}");
    stage.with("ATCR__JETSTREAM__ENABLED", "false").with("ATCR__HOLD_HEALTH__ENABLED", "true")
}

/// The index has a captain of this hold.
pub(crate) async fn has_captain(stage: &Stage, hold: &str) {
    let sql = format!(
        "INSERT INTO users (did, first_seen) VALUES ('{hold}', 1);
         INSERT INTO captains (hold_did, owner_did, public, allow_all_crew)
         VALUES ('{hold}', 'did:plc:owner', TRUE, FALSE)"
    );
    stage.place.execute(&sql).await;
}

/// The index has a manifest that names this hold.
pub(crate) async fn has_manifest(stage: &Stage, hold: &str) {
    let sql = format!(
        "INSERT INTO users (did, first_seen) VALUES ('did:plc:pusher', 1) ON CONFLICT DO NOTHING;
         INSERT INTO manifests (did, rkey, repository, digest, media_type, schema_version, hold_did, created_at)
         VALUES ('did:plc:pusher', 'at {hold}', 'app', 'sha256:0', 'type/x', 2, '{hold}', 1)"
    );
    stage.place.execute(&sql).await;
}

/// Requests to a `*.test` hold go wrong from now on.
pub(crate) fn fails(stage: &Stage, host: &str, fault: Fault) {
    stage.net.set_fault(On::site(Site::Hosts).host(host).path(HEALTH), fault);
}

/// What the instance says at `/holds` with this query.
pub(crate) fn told(instance: &Instance, query: &str) -> (u16, Value) {
    let answer = http::get(&format!("http://{}/holds{query}", instance.admin_address())).unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

/// Waits for the end of the first round, and gives the state of each hold.
#[track_caller]
pub(crate) fn after_a_round(instance: &Instance) -> BTreeMap<String, Value> {
    let list = eventually_blocking("a round has ended", PATIENCE, || {
        let (_, list) = told(instance, "");
        if list["round_ended_at"].is_string() { Ok(list) } else { Err(list) }
    });
    let holds = list["holds"].as_array().unwrap().iter();
    holds.map(|hold| (hold["did"].as_str().unwrap().to_owned(), hold.clone())).collect()
}

/// How often the holds were asked, all of them or the one of this name.
pub(crate) fn asked(stage: &Stage, host: Option<&str>) -> usize {
    let visits = stage.net.visits();
    let of = |host: &str| visits.iter().filter(|visit| visit.path == HEALTH && visit.host == host).count();
    match host {
        Some(host) => of(host),
        None => visits.iter().filter(|visit| visit.path == HEALTH).count(),
    }
}

//! What one record says, from the lexicons' text: required fields, their types and bounds in bytes, and both shapes
//! that are on the network.

use chrono::DateTime;
use serde_json::{Map, Value, json};

/// A record's rows by table. None: it breaks its lexicon.
pub(super) type Read = Option<Vec<(&'static str, Value)>>;

pub(super) fn read(did: &str, collection: &str, rkey: &str, value: &Value) -> Read {
    let record = Record { did, rkey, fields: value.as_object()? };
    match collection {
        "io.atcr.manifest" => manifest(record),
        "io.atcr.tag" => Some(vec![("tags", tag(record)?)]),
        "io.atcr.repo.page" => Some(vec![("repo_pages", page(record)?)]),
        "io.atcr.sailor.profile" => Some(vec![("profiles", profile(record)?)]),
        "io.atcr.sailor.star" => Some(vec![("stars", star(record)?)]),
        "io.atcr.hold.captain" => Some(vec![("captains", captain(record)?)]),
        "io.atcr.hold.crew" => Some(vec![("crew", crew(record)?)]),
        "io.atcr.hold.stats" => Some(vec![("hold_repository_stats", stats(record)?)]),
        "io.atcr.hold.scan" => Some(vec![("scans", scan(record)?)]),
        _ => panic!("no collection of the registry: {collection}"),
    }
}

#[derive(Clone, Copy)]
struct Record<'a> {
    did: &'a str,
    rkey: &'a str,
    fields: &'a Map<String, Value>,
}

fn manifest(record: Record<'_>) -> Read {
    let (did, rkey) = (record.did, record.rkey);
    let config = optional(record.fields.get("config"), descriptor)?;
    let subject = optional(record.fields.get("subject"), descriptor)?;
    let hold = match record.did("holdDid")? {
        Some(hold) => Some(hold),
        None => record.fields.get("holdEndpoint").and_then(Value::as_str).and_then(did_web),
    };
    let config_type = config.as_ref().and_then(|config| config["media_type"].as_str());
    let mut rows = vec![(
        "manifests",
        json!({
            "did": did, "rkey": rkey, "repository": record.text("repository", 255)?,
            "digest": record.text("digest", 128)?, "media_type": record.text("mediaType", 128)?,
            "schema_version": record.fields.get("schemaVersion")?.as_i64()?, "hold_did": hold,
            "created_at": record.time("createdAt")?,
            "artifact_type": artifact_type(config_type, record.fields.get("artifactType")),
            "config_digest": config.as_ref().map(|config| &config["digest"]),
            "config_size": config.as_ref().map(|config| &config["size"]),
            "config_media_type": config_type,
            "subject_digest": subject.map(|subject| subject["digest"].clone()),
        }),
    )];
    for (index, layer) in record.list("layers")?.iter().enumerate() {
        rows.push((
            "layers",
            extended(descriptor(layer)?, &json!({ "did": did, "rkey": rkey, "layer_index": index })),
        ));
    }
    for (index, reference) in record.list("manifests")?.iter().enumerate() {
        let key = json!({ "did": did, "rkey": rkey, "reference_index": index });
        let platform = |name: &str| reference["platform"].get(name).cloned().unwrap_or_default();
        let about = json!({
            "os": platform("os"), "architecture": platform("architecture"), "variant": platform("variant"),
            "os_version": platform("os.version"),
            "is_attestation": reference["annotations"]["vnd.docker.reference.type"] == "attestation-manifest",
        });
        rows.push(("manifest_references", extended(extended(descriptor(reference)?, &key), &about)));
    }
    for (key, value) in record.fields.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        if value.is_string() {
            let row = json!({ "did": did, "rkey": rkey, "key": key, "value": value });
            rows.push(("manifest_annotations", row));
        }
    }
    Some(rows)
}

/// A tag names its manifest by address, whose key is the digest; older tags by digest.
fn tag(record: Record<'_>) -> Option<Value> {
    let address = record.fields.get("manifest").and_then(Value::as_str);
    let digest = match address.and_then(|address| digest_of_key(address.rsplit('/').next()?)) {
        Some(digest) => digest,
        None => record.text("manifestDigest", 128)?,
    };
    let set_at = ["updatedAt", "createdAt"].into_iter().find(|name| record.fields.contains_key(*name));
    Some(json!({
        "did": record.did, "rkey": record.rkey, "repository": record.text("repository", 255)?,
        "tag": record.text("tag", 128)?, "digest": digest,
        "created_at": set_at.map_or(Some(0), |name| record.time(name))?,
    }))
}

/// A page's key is the repository, which a name with a slash cannot be.
fn page(record: Record<'_>) -> Option<Value> {
    let repository = record.text("repository", 256)?;
    (repository == record.rkey || repository.contains('/')).then_some(())?;
    Some(json!({
        "did": record.did, "rkey": record.rkey, "repository": repository,
        "description": record.optional_text("description", 100_000)?,
        "avatar_cid": record.fields.get("avatar").and_then(|avatar| avatar["ref"]["$link"].as_str()),
        "created_at": record.time("createdAt")?, "updated_at": record.time("updatedAt")?,
    }))
}

/// One that was never updated counts as updated when it was made.
fn profile(record: Record<'_>) -> Option<Value> {
    (record.rkey == "self").then_some(())?;
    let created_at = record.time("createdAt")?;
    Some(json!({
        "did": record.did, "rkey": record.rkey, "default_hold_did": record.did("defaultHold")?,
        "auto_remove_untagged": record.fields.get("autoRemoveUntagged").map_or(Some(false), Value::as_bool)?,
        "created_at": created_at, "updated_at": record.optional_time("updatedAt")?.unwrap_or(created_at),
    }))
}

/// The subject is an object, or in newer records the address of the repository's page.
fn star(record: Record<'_>) -> Option<Value> {
    let (owner, repository) = match record.fields.get("subject")? {
        Value::String(address) => {
            let mut parts = address.strip_prefix("at://")?.splitn(3, '/');
            let (owner, collection, repository) = (parts.next()?, parts.next()?, parts.next()?);
            (collection == "io.atcr.repo.page").then_some((owner, repository))?
        }
        subject => (subject["did"].as_str()?, subject["repository"].as_str()?),
    };
    (is_did(owner) && !repository.is_empty() && repository.len() <= 255).then_some(())?;
    Some(json!({
        "did": record.did, "rkey": record.rkey, "owner_did": owner, "repository": repository,
        "created_at": record.time("createdAt")?,
    }))
}

fn captain(record: Record<'_>) -> Option<Value> {
    (record.rkey == "self").then_some(())?;
    Some(json!({
        "hold_did": record.did, "owner_did": record.did("owner")??, "public": record.flag("public")?,
        "allow_all_crew": record.flag("allowAllCrew")?, "deployed_at": record.time("deployedAt")?,
        "region": record.optional_text("region", 64)?, "provider": record.optional_text("provider", 64)?,
        "successor_did": record.did("successor")?,
    }))
}

fn crew(record: Record<'_>) -> Option<Value> {
    let permissions = record.fields.get("permissions")?.as_array()?;
    permissions.iter().all(|one| one.as_str().is_some_and(|one| one.len() <= 64)).then_some(())?;
    Some(json!({
        "hold_did": record.did, "rkey": record.rkey, "member_did": record.did("member")??,
        "role": record.text("role", 32)?, "permissions": serde_json::to_string(permissions).unwrap(),
        "added_at": record.time("addedAt")?, "tier": record.optional_text("tier", 32)?,
    }))
}

/// Counts below zero are taken for zero.
fn stats(record: Record<'_>) -> Option<Value> {
    Some(json!({
        "hold_did": record.did, "rkey": record.rkey, "owner_did": record.did("ownerDid")??,
        "repository": record.text("repository", 256)?,
        "pull_count": record.number("pullCount")?, "push_count": record.number("pushCount")?,
        "last_pull": record.optional_time("lastPull")?, "last_push": record.optional_time("lastPush")?,
        "updated_at": record.time("updatedAt")?,
    }))
}

/// A scan's key is the digest of what was scanned.
fn scan(record: Record<'_>) -> Option<Value> {
    let address = record.fields.get("manifest")?.as_str()?;
    let digest = digest_of_key(address.rsplit('/').next()?).or_else(|| digest_of_key(record.rkey))?;
    Some(json!({
        "hold_did": record.did, "rkey": record.rkey, "manifest_digest": digest,
        "repository": record.text("repository", 256)?, "owner_did": record.did("userDid")??,
        "critical": record.number("critical")?, "high": record.number("high")?,
        "medium": record.number("medium")?, "low": record.number("low")?, "total": record.number("total")?,
        "scanner_version": record.text("scannerVersion", 64)?, "scanned_at": record.time("scannedAt")?,
    }))
}

impl Record<'_> {
    fn text(&self, name: &str, bytes_max: usize) -> Option<String> {
        let text = self.fields.get(name)?.as_str()?;
        (!text.is_empty() && text.len() <= bytes_max).then(|| text.to_owned())
    }

    /// Some(None): it is not there.
    fn optional_text(&self, name: &str, bytes_max: usize) -> Option<Option<String>> {
        optional(self.fields.get(name), |text| {
            text.as_str().filter(|text| text.len() <= bytes_max).map(str::to_owned)
        })
    }

    /// Some(None): it is not there.
    fn did(&self, name: &str) -> Option<Option<String>> {
        optional(self.fields.get(name), |did| did.as_str().filter(|did| is_did(did)).map(str::to_owned))
    }

    fn time(&self, name: &str) -> Option<i64> {
        self.optional_time(name)?
    }

    /// Some(None): it is not there.
    fn optional_time(&self, name: &str) -> Option<Option<i64>> {
        optional(self.fields.get(name), |time| {
            Some(DateTime::parse_from_rfc3339(time.as_str()?).ok()?.timestamp_micros())
        })
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.fields.get(name)?.as_bool()
    }

    fn number(&self, name: &str) -> Option<i64> {
        Some(self.fields.get(name)?.as_i64()?.max(0))
    }

    fn list(&self, name: &str) -> Option<Vec<Value>> {
        Some(optional(self.fields.get(name), |list| list.as_array().cloned())?.unwrap_or_default())
    }
}

/// What is absent or null is not there; what is there must be right.
fn optional<T>(field: Option<&Value>, read: impl FnOnce(&Value) -> Option<T>) -> Option<Option<T>> {
    match field {
        None | Some(Value::Null) => Some(None),
        Some(value) => read(value).map(Some),
    }
}

fn descriptor(value: &Value) -> Option<Value> {
    let (digest, media_type) = (value["digest"].as_str()?, value["mediaType"].as_str()?);
    Some(json!({ "digest": digest, "size": value["size"].as_i64()?, "media_type": media_type }))
}

/// What kind of artifact it is, by the media type of its configuration; indexes and old records have none.
fn artifact_type(config: Option<&str>, told: Option<&Value>) -> &'static str {
    match config.or(told.and_then(Value::as_str)) {
        Some("application/vnd.cncf.helm.config.v1+json") => "helm-chart",
        None
        | Some(
            "application/vnd.oci.image.config.v1+json" | "application/vnd.docker.container.image.v1+json",
        ) => "container-image",
        Some(_) => "unknown",
    }
}

fn digest_of_key(rkey: &str) -> Option<String> {
    let is_hex = rkey.len() == 64 && rkey.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| format!("sha256:{rkey}"))
}

fn is_did(text: &str) -> bool {
    let mut parts = text.splitn(3, ':');
    parts.next() == Some("did")
        && parts.next().is_some_and(|method| !method.is_empty())
        && parts.next().is_some()
}

/// `https://hold01.atcr.io` is `did:web:hold01.atcr.io`; a port's colon is escaped there.
fn did_web(endpoint: &str) -> Option<String> {
    let host = endpoint.split_once("://")?.1.split('/').next()?;
    Some(format!("did:web:{}", host.replace(':', "%3A")))
}

fn extended(mut row: Value, more: &Value) -> Value {
    row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    row
}

//! What we read in a DID document.

use serde_json::Value;
use url::Url;

use crate::atproto::did::Did;
use crate::atproto::handle::Handle;
use crate::atproto::key::PublicKey;

/// The parts of a document that matter here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Document {
    /// What it claims to be called; unproven.
    pub(super) handle: Option<Handle>,
    pub(super) pds: Option<String>,
    /// Where it answers as a hold.
    pub(super) hold: Option<String>,
    /// Where its labels are.
    pub(super) labeler: Option<String>,
    /// What its labels are signed with. No other key of the document can stand in for it.
    pub(super) label_key: Option<PublicKey>,
}

impl Document {
    /// Reads the document of `did`. Parts that break their rules are as good as absent.
    pub(super) fn read(did: &Did, json: &[u8], plain_http: bool) -> Result<Self, &'static str> {
        let document: Value = serde_json::from_slice(json).map_err(|_| "it is not json")?;
        if document["id"].as_str() != Some(did.as_str()) {
            return Err("it is of another did");
        }
        let service = |id, kind| service(did, &document, id, kind, plain_http);
        let pds = service("#atproto_pds", Some("AtprotoPersonalDataServer"));
        Ok(Self {
            handle: handle(&document),
            // A hold's own repository is served at the same address, so an older document without the service leads there.
            hold: service("#atcr_hold", None).or_else(|| pds.clone()),
            pds,
            labeler: service("#atproto_labeler", Some("AtprotoLabeler")),
            label_key: key(did, &document, "#atproto_label"),
        })
    }
}

/// The first that is one: <https://atproto.com/specs/did#did-documents>.
fn handle(document: &Value) -> Option<Handle> {
    let claims = document["alsoKnownAs"].as_array()?;
    claims.iter().find_map(|claim| Handle::parse(claim.as_str()?.strip_prefix("at://")?).ok())
}

/// The first of that name, for good or ill: a later one must not be able to stand in for it.
fn first<'a>(did: &Did, list: &'a Value, name: &str) -> Option<&'a Value> {
    let is_it = |entry: &&Value| {
        let id = entry["id"].as_str().unwrap_or_default();
        id.strip_prefix(did.as_str()).unwrap_or(id) == name
    };
    list.as_array()?.iter().find(is_it)
}

/// The origin of a service.
fn service(did: &Did, document: &Value, name: &str, kind: Option<&str>, plain_http: bool) -> Option<String> {
    let service = first(did, &document["service"], name)?;
    if kind.is_some() && service["type"].as_str() != kind {
        return None;
    }
    let url = Url::parse(service["serviceEndpoint"].as_str()?).ok()?;
    let scheme_ok = url.scheme() == "https" || (plain_http && url.scheme() == "http");
    scheme_ok.then(|| url.origin().ascii_serialization())
}

fn key(did: &Did, document: &Value, name: &str) -> Option<PublicKey> {
    let method = first(did, &document["verificationMethod"], name)?;
    PublicKey::from_method(method["type"].as_str()?, method["publicKeyMultibase"].as_str()?).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(document: &Value) -> Result<Document, &'static str> {
        Document::read(&Did::parse("did:plc:alice").unwrap(), document.to_string().as_bytes(), false)
    }

    fn pds_of(services: &Value) -> Option<String> {
        read(&json!({"id": "did:plc:alice", "service": services})).unwrap().pds
    }

    #[test]
    fn the_first_sound_handle_is_the_claim() {
        let claim =
            |names: Value| read(&json!({"id": "did:plc:alice", "alsoKnownAs": names})).unwrap().handle;
        let mixed =
            json!([5, "https://alice.example", "at://not a handle", "at://Alice.Example", "at://b.example"]);
        assert_eq!(claim(mixed).unwrap().as_str(), "alice.example");
        for none in [json!([]), json!("at://alice.example"), Value::Null, json!(["at://did:plc:alice"])] {
            assert_eq!(claim(none), None);
        }
    }

    #[test]
    fn the_pds_is_an_origin_without_a_path() {
        let service =
            |id: &str, kind: &str, url: &str| json!({"id": id, "type": kind, "serviceEndpoint": url});
        let kind = "AtprotoPersonalDataServer";
        for (id, url, pds) in [
            ("#atproto_pds", "https://pds.example", Some("https://pds.example")),
            (
                "did:plc:alice#atproto_pds",
                "https://Pds.example:8443/path?q",
                Some("https://pds.example:8443"),
            ),
            ("#atproto_pds", "https://user:word@pds.example/", Some("https://pds.example")),
            ("did:plc:bob#atproto_pds", "https://pds.example", None),
            ("#other", "https://pds.example", None),
            ("#atproto_pds", "http://pds.example", None),
            ("#atproto_pds", "file:///etc/passwd", None),
            ("#atproto_pds", "pds.example", None),
        ] {
            assert_eq!(pds_of(&json!([service(id, kind, url)])).as_deref(), pds, "{id} {url}");
        }
        let second = service("#atproto_pds", kind, "https://second.example");
        let other_kind = service("#atproto_pds", "Other", "https://first.example");
        assert_eq!(pds_of(&json!([other_kind, second])), None);
    }

    #[test]
    fn a_hold_is_where_its_own_service_says_or_at_its_repository() {
        let pds = json!({"id": "#atproto_pds", "type": "AtprotoPersonalDataServer",
            "serviceEndpoint": "https://pds.example"});
        let hold = |url: &str| json!({"id": "#atcr_hold", "type": "AtcrHoldService", "serviceEndpoint": url});
        for (services, found) in [
            (json!([pds, hold("https://hold.example/x")]), Some("https://hold.example")),
            (json!([pds]), Some("https://pds.example")),
            (json!([hold("https://hold.example")]), Some("https://hold.example")),
            (json!([hold("http://hold.example")]), None),
            (json!([]), None),
        ] {
            let document = read(&json!({"id": "did:plc:alice", "service": services})).unwrap();
            assert_eq!(document.hold.as_deref(), found, "{services}");
        }
    }

    #[test]
    fn what_is_no_document_of_the_account_is_refused() {
        let did = Did::parse("did:plc:alice").unwrap();
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        for body in ["", "<html>", "null", "[]", "{}", r#"{"id":"did:plc:bob"}"#, r#"{"id":5}"#, &deep] {
            assert!(Document::read(&did, body.as_bytes(), false).is_err());
        }
    }

    #[test]
    fn the_label_key_is_the_one_of_that_name_and_no_other() {
        let text = "zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme";
        let method = |id: &str| json!({"id": id, "type": "Multikey", "publicKeyMultibase": text});
        let key_of = |methods: Value| {
            read(&json!({"id": "did:plc:alice", "verificationMethod": methods})).unwrap().label_key
        };
        for id in ["#atproto_label", "did:plc:alice#atproto_label"] {
            assert_eq!(key_of(json!([method("#atproto"), method(id)])).unwrap().to_string(), text);
        }
        for id in ["#atproto", "did:plc:alice#atproto", "did:plc:bob#atproto_label", "#atproto_label2"] {
            assert_eq!(key_of(json!([method(id)])), None, "{id}");
        }
        let broken = json!({"id": "#atproto_label", "type": "Multikey", "publicKeyMultibase": "z1"});
        assert_eq!(key_of(json!([broken, method("#atproto_label")])), None, "a later one stands in for none");
    }
}

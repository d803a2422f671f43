//! What holds for every collection. `bounds` has what a stranger's record cannot do, `shapes` the records
//! themselves in both publications of their lexicons.

#![allow(clippy::unwrap_used)]

mod bounds;
mod shapes;

use serde_json::{Value, json};

use super::*;

pub(super) const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
pub(super) const TIME: &str = "2026-01-16T10:00:00.000Z";
pub(super) const TIME_MICROS: i64 = 1_768_557_600_000_000;

pub(super) fn read_at(collection: Collection, key: &str, record: &Value) -> Result<Record, RecordError> {
    read(collection, &Rkey::parse(key).unwrap(), &record.to_string())
}

/// A sound record of each collection, in its newer shape.
pub(super) fn sound(collection: Collection) -> (&'static str, Value) {
    let digest = format!("sha256:{HEX}");
    let manifest = format!("at://did:plc:alice/io.atcr.manifest/{HEX}");
    match collection {
        Collection::Manifest => (
            HEX,
            json!({"repository": "app", "digest": digest, "mediaType": "m", "schemaVersion": 2, "createdAt": TIME}),
        ),
        Collection::Tag => {
            ("app_v1", json!({"repository": "app", "tag": "v1", "manifest": manifest, "updatedAt": TIME}))
        }
        Collection::Page => ("app", json!({"repository": "app", "createdAt": TIME, "updatedAt": TIME})),
        Collection::Profile => ("self", json!({"createdAt": TIME})),
        Collection::Star => {
            ("s", json!({"subject": "at://did:plc:bob/io.atcr.repo.page/app", "createdAt": TIME}))
        }
        Collection::Captain => (
            "self",
            json!({"owner": "did:plc:alice", "public": true, "allowAllCrew": false, "enableBlueskyPosts": false,
                "deployedAt": TIME}),
        ),
        Collection::Crew => (
            "c",
            json!({"member": "did:plc:bob", "role": "write", "permissions": ["blob:write"], "addedAt": TIME}),
        ),
        Collection::Stats => (
            "mfrggzdfmztwq2lk",
            json!({"ownerDid": "did:plc:alice", "repository": "app", "pullCount": 7, "pushCount": 3,
                "updatedAt": TIME}),
        ),
        Collection::Scan => (
            HEX,
            json!({"manifest": manifest, "repository": "app", "userDid": "did:plc:alice", "critical": 1, "high": 2,
                "medium": 3, "low": 4, "total": 10, "scannerVersion": "atcr-scanner-v1.0.0", "scannedAt": TIME}),
        ),
    }
}

fn read_with(collection: Collection, field: &str, value: Value) -> Result<Record, RecordError> {
    let (key, mut record) = sound(collection);
    record[field] = value;
    read_at(collection, key, &record)
}

#[test]
fn a_record_is_read_with_its_own_type_or_none_and_not_with_another() {
    for collection in Collection::ALL {
        let (key, record) = sound(collection);
        let plain = read_at(collection, key, &record).unwrap();
        assert_eq!(read_with(collection, "$type", json!(collection.nsid())).as_ref(), Ok(&plain));
        assert_eq!(read_with(collection, "unknown", json!({"a": [1, {"b": null}]})).as_ref(), Ok(&plain));
        for other in ["io.atcr.hold", "", "IO.ATCR.TAG"] {
            assert_eq!(read_with(collection, "$type", json!(other)), Err(RecordError::WrongType));
        }
        assert_eq!(read_with(collection, "$type", json!(1)), Err(RecordError::BadField("$type")));
    }
}

/// What the lexicons require and the index stands on. (`enableBlueskyPosts` it does not; absent flags are false; a newer
/// tag may have no time.)
#[test]
fn each_required_field_is_missed_and_refused_by_name() {
    for collection in Collection::ALL {
        let (key, record) = sound(collection);
        for field in record.as_object().unwrap().keys() {
            let mut without = record.clone();
            without.as_object_mut().unwrap().remove(field);
            let (missing, wrong) =
                (read_at(collection, key, &without), read_with(collection, field, json!({"no": "such"})));
            match &**field {
                "enableBlueskyPosts" => assert!(missing.is_ok() && wrong.is_ok()),
                "updatedAt" if collection == Collection::Tag => assert!(missing.is_ok() && wrong.is_err()),
                "public" | "allowAllCrew" => assert!(missing.is_ok() && wrong.is_err(), "{field}"),
                _ => {
                    assert_eq!(missing.unwrap_err().kind(), "missing_field", "{collection:?} {field}");
                    assert_eq!(wrong.unwrap_err().kind(), "bad_field", "{collection:?} {field}");
                }
            }
        }
    }
}

#[test]
fn null_counts_as_absent() {
    assert_eq!(
        read_with(Collection::Tag, "repository", Value::Null),
        Err(RecordError::MissingField("repository"))
    );
    assert!(read_with(Collection::Profile, "defaultHold", Value::Null).is_ok());
}

#[test]
fn what_is_no_json_object_is_refused() {
    for json in ["", "null", "1", "\"x\"", "[]", "{", "{}{}", "{\"a\":}", "<html>"] {
        let read = read(Collection::Profile, &Rkey::parse("self").unwrap(), json);
        assert_eq!(read, Err(RecordError::NotJson), "{json}");
    }
}

#[test]
fn a_key_that_contradicts_the_record_is_refused() {
    for (collection, key) in [
        (Collection::Manifest, "f".repeat(64)),
        (Collection::Page, "other".to_owned()),
        (Collection::Profile, "other".to_owned()),
        (Collection::Captain, "other".to_owned()),
    ] {
        let (_, record) = sound(collection);
        assert_eq!(read_at(collection, &key, &record), Err(RecordError::WrongKey), "{collection:?}");
    }
    // Keys of the lexicon's own kind, and names that cannot be keys, contradict nothing.
    let (_, manifest) = sound(Collection::Manifest);
    assert!(read_at(Collection::Manifest, "3jzfcijpj2z2a", &manifest).is_ok());
    assert!(read_with(Collection::Page, "repository", json!("team/app")).is_ok());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_reading_panic(json in r#"[\[\]{}:,"a$\\0 ]{0,40}"#) {
        for collection in Collection::ALL {
            let _ = read(collection, &Rkey::parse("self").unwrap(), &json);
        }
    }
}

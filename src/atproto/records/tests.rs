//! What holds for every collection. `shapes` has the records themselves, in both publications of their lexicons.

#![allow(clippy::unwrap_used)]

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
fn the_lexicons_lengths_are_kept_in_bytes() {
    use Collection::{Crew, Manifest, Page, Scan, Star, Stats, Tag};
    for (collection, field, len_max) in [
        (Manifest, "repository", 255),
        (Manifest, "mediaType", 128),
        (Tag, "repository", 255),
        (Tag, "tag", 128),
        (Crew, "role", 32),
        (Stats, "repository", 256),
        (Scan, "repository", 256),
        (Scan, "scannerVersion", 64),
    ] {
        assert!(read_with(collection, field, json!("a".repeat(len_max))).is_ok(), "{collection:?} {field}");
        for bad in ["a".repeat(len_max + 1), "é".repeat(len_max), String::new()] {
            assert_eq!(read_with(collection, field, json!(bad)), Err(RecordError::BadField(field)));
        }
    }
    let page_of = |len| {
        let name = "a".repeat(len);
        read_at(Page, &name, &json!({"repository": name, "createdAt": TIME, "updatedAt": TIME}))
    };
    assert!(page_of(256).is_ok() && page_of(257).is_err());
    let star_of =
        |len| read_with(Star, "subject", json!({"did": "did:plc:bob", "repository": "a".repeat(len)}));
    assert!(star_of(255).is_ok() && star_of(256).is_err());
}

/// PostgreSQL refuses it in any text, and a refused statement would stop the stream at this event for ever.
#[test]
fn no_nul_reaches_the_database() {
    for collection in Collection::ALL {
        let (key, record) = sound(collection);
        for (field, value) in record.as_object().unwrap() {
            if let Value::String(text) = value {
                assert!(
                    read_with(collection, field, json!(format!("{text}\0"))).is_err(),
                    "{collection:?} {field}"
                );
            }
        }
        // The optional texts of all collections at once.
        let mut record = record;
        let nul = "\0a\0b";
        for field in ["description", "region", "provider", "tier", "artifactType", "holdDid", "successor"] {
            record[field] = json!(nul);
        }
        let blob = json!({"digest": "sha256:00", "mediaType": nul, "size": 1,
            "platform": {"os": nul, "architecture": nul, "variant": nul, "os.version": nul}});
        record["config"] = blob.clone();
        record["layers"] = json!([blob]);
        record["manifests"] = json!([blob]);
        record["annotations"] = json!({"a": nul, "b\0": "c"});
        let read = format!("{:?}", read_at(collection, key, &record).unwrap());
        assert!(!read.contains("\\0"), "{read}");
    }
}

#[test]
fn absurd_times_are_bad_fields() {
    for text in ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2026-01-16T10:00:00", "yesterday", ""] {
        for (collection, field) in [
            (Collection::Manifest, "createdAt"),
            (Collection::Tag, "updatedAt"),
            (Collection::Crew, "addedAt"),
            (Collection::Stats, "updatedAt"),
        ] {
            assert_eq!(read_with(collection, field, json!(text)), Err(RecordError::BadField(field)));
        }
        // Go writes its zero time for what never happened.
        let Ok(Record::Stats(stats)) = read_with(Collection::Stats, "lastPull", json!(text)) else {
            panic!()
        };
        assert_eq!(stats.last_pull, None);
    }
}

#[test]
fn counts_are_cut_to_what_can_be_summed() {
    for (written, kept) in [(-5, 0), (0, 0), (41, 41), (i64::MAX, 1_000_000_000_000)] {
        let Ok(Record::Stats(stats)) = read_with(Collection::Stats, "pullCount", json!(written)) else {
            panic!()
        };
        assert_eq!(stats.pull_count, kept);
    }
    for bad in [json!(1.5), json!("1"), json!(u64::MAX)] {
        assert_eq!(read_with(Collection::Scan, "high", bad), Err(RecordError::BadField("high")));
    }
}

#[test]
fn nesting_of_any_depth_is_an_error_and_no_crash() {
    for depth in [70, 200, 100_000] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let nest = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let known = format!(r#"{{"createdAt":"{TIME}","defaultHold":{nest}}}"#);
            let unknown = format!(r#"{{"createdAt":"{TIME}","x":{nest}}}"#);
            for json in [&nest, &known, &unknown, &open.repeat(depth)] {
                let read = read(Collection::Profile, &Rkey::parse("self").unwrap(), json);
                assert_eq!(read, Err(RecordError::TooDeep));
            }
        }
    }
    // Brackets in texts are not nesting.
    assert!(read_with(Collection::Page, "description", json!(format!("\\\"{}", "[".repeat(1_000)))).is_ok());
}

#[test]
fn size_is_bounded_in_bytes_and_in_entries() {
    let filler = |len: usize| json!("x".repeat(len));
    assert!(read_with(Collection::Profile, "x", filler(RECORD_LEN_MAX - 100)).is_ok());
    assert_eq!(read_with(Collection::Profile, "x", filler(RECORD_LEN_MAX)), Err(RecordError::TooLarge));
    let layers = |count: usize| {
        read_with(Collection::Manifest, "layers", json!(vec![json!({"digest": "sha256:00"}); count]))
    };
    assert!(layers(1_000).is_ok());
    assert_eq!(layers(1_001), Err(RecordError::TooLarge));
    let annotations: serde_json::Map<_, _> = (0..1_001).map(|i| (i.to_string(), json!(""))).collect();
    assert_eq!(
        read_with(Collection::Manifest, "annotations", json!(annotations)),
        Err(RecordError::TooLarge)
    );
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

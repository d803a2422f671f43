//! What no record can do, whoever wrote it.

use super::*;

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

/// A row that an index cannot hold would stop the stream like a U+0000.
#[test]
fn no_stranger_can_make_an_entry_too_long_for_an_index() {
    let did = |len: usize| format!("did:web:{}", "a".repeat(len - 8));
    for (collection, field) in [
        (Collection::Captain, "owner"),
        (Collection::Crew, "member"),
        (Collection::Stats, "ownerDid"),
        (Collection::Scan, "userDid"),
    ] {
        assert!(read_with(collection, field, json!(did(261))).is_ok());
        assert_eq!(read_with(collection, field, json!(did(262))), Err(RecordError::BadField(field)));
    }
    let star = |len| {
        read_with(Collection::Star, "subject", json!(format!("at://{}/io.atcr.repo.page/app", did(len))))
    };
    assert!(star(261).is_ok());
    assert_eq!(star(262), Err(RecordError::BadField("subject")));
    let Ok(Record::Manifest(manifest)) = read_with(
        Collection::Manifest,
        "annotations",
        json!({"a".repeat(255): "kept", "a".repeat(256): "dropped", "": "dropped"}),
    ) else {
        panic!()
    };
    assert_eq!(manifest.annotations.into_values().collect::<Vec<_>>(), ["kept"]);
    let Ok(Record::Manifest(manifest)) = read_with(Collection::Manifest, "holdDid", json!(did(262))) else {
        panic!()
    };
    assert_eq!(manifest.hold, None);
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

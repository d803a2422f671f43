//! The records of each lexicon, as its publications describe them and as writers of the network write them.

use super::*;
use crate::atproto::{Did, Micros};

const AT: Micros = Micros(TIME_MICROS);

fn did(text: &str) -> Did {
    Did::parse(text).unwrap()
}

/// The record of the wanted kind, or a panic that shows what was read instead.
macro_rules! expect {
    ($kind:ident, $key:expr, $json:tt) => {
        match read_at(Collection::$kind, $key, &json!($json)) {
            Ok(Record::$kind(record)) => record,
            other => panic!("{other:?}"),
        }
    };
}

fn image(extra: Value) -> Manifest {
    let (key, mut record) = sound(Collection::Manifest);
    record.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    match read_at(Collection::Manifest, key, &record) {
        Ok(Record::Manifest(manifest)) => manifest,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_image_is_read_with_its_layers() {
    let manifest = image(json!({
        "$type": "io.atcr.manifest", "holdDid": "did:web:hold01.atcr.io", "holdEndpoint": "https://old.example",
        "config": {"digest": "sha256:c0", "size": 512, "mediaType": "application/vnd.oci.image.config.v1+json"},
        "layers": [{"digest": "sha256:a1", "size": 10, "mediaType": "l"}, {"size": 4}, 5, {"digest": "sha256:a2"}],
        "annotations": {"org.opencontainers.image.title": "App", "number": 5},
        "manifestBlob": {"$type": "blob", "ref": {"$link": "bafy"}, "mimeType": "m", "size": 3},
    }));
    let blob = |digest: &str, size, media_type: &str| Blob {
        digest: digest.to_owned(),
        size,
        media_type: media_type.to_owned(),
    };
    assert_eq!(manifest.digest, format!("sha256:{HEX}"));
    assert_eq!((&*manifest.repository, &*manifest.media_type, manifest.schema_version), ("app", "m", 2));
    assert_eq!((manifest.created_at, manifest.artifact_type), (AT, ArtifactType::ContainerImage));
    assert_eq!(manifest.hold, Some(did("did:web:hold01.atcr.io")));
    assert_eq!(manifest.config, Some(blob("sha256:c0", 512, "application/vnd.oci.image.config.v1+json")));
    assert_eq!(manifest.layers, [blob("sha256:a1", 10, "l"), blob("sha256:a2", 0, "")]);
    assert_eq!(
        manifest.annotations.into_iter().collect::<Vec<_>>(),
        [("org.opencontainers.image.title".to_owned(), "App".to_owned())]
    );
}

#[test]
fn an_index_is_read_with_its_platforms() {
    let manifest = image(json!({"manifests": [
        {"digest": "sha256:b1", "size": 5, "mediaType": "m",
            "platform": {"os": "windows", "architecture": "arm64", "variant": "v8", "os.version": "10.0"}},
        {"digest": "sha256:b2", "size": 6, "mediaType": "m",
            "platform": {"os": "unknown", "architecture": "unknown"},
            "annotations": {"vnd.docker.reference.type": "attestation-manifest"}},
    ]}));
    let [image, attestation] = &manifest.references[..] else { panic!("{manifest:?}") };
    assert_eq!((&*image.digest, image.size, &*image.media_type), ("sha256:b1", 5, "m"));
    assert_eq!((image.os.as_deref(), image.architecture.as_deref()), (Some("windows"), Some("arm64")));
    assert_eq!((image.variant.as_deref(), image.os_version.as_deref()), (Some("v8"), Some("10.0")));
    assert!(!image.is_attestation && attestation.is_attestation);
    assert_eq!(manifest.artifact_type, ArtifactType::ContainerImage);
}

#[test]
fn the_older_hold_endpoint_becomes_a_did() {
    for (endpoint, hold) in [
        ("https://hold01.atcr.io", Some("did:web:hold01.atcr.io")),
        ("https://Hold01.atcr.io/x", Some("did:web:hold01.atcr.io")),
        ("http://172.28.0.3:8080", Some("did:web:172.28.0.3%3A8080")),
        ("did:web:hold01.atcr.io", Some("did:web:hold01.atcr.io")),
        ("ftp://hold01.atcr.io", None),
        ("https://[::1]:80", None),
        ("hold01.atcr.io", None),
        ("", None),
    ] {
        for bad_did in [Value::Null, json!("nonsense"), json!(5)] {
            let manifest = image(json!({"holdDid": bad_did, "holdEndpoint": endpoint}));
            assert_eq!(manifest.hold, hold.map(did), "{endpoint}");
        }
    }
}

#[test]
fn an_artifact_is_told_by_its_type_or_its_configuration() {
    let of_config = |media_type: &str| {
        image(json!({"config": {"digest": "sha256:c0", "mediaType": media_type}})).artifact_type.as_str()
    };
    assert_eq!(of_config("application/vnd.docker.container.image.v1+json"), "container-image");
    assert_eq!(of_config("application/vnd.cncf.helm.config.v1+json"), "helm-chart");
    assert_eq!(of_config("application/vnd.oci.empty.v1+json"), "unknown");
    let stated = json!({"artifactType": "application/vnd.example.sbom"});
    assert_eq!(image(stated).artifact_type, ArtifactType::Unknown);
}

#[test]
fn a_signature_keeps_its_subject_or_is_refused() {
    let signed = image(json!({"subject": {"digest": "sha256:b1", "size": 5, "mediaType": "m"}}));
    assert_eq!(signed.subject_digest.as_deref(), Some("sha256:b1"));
    for bad in [json!({"size": 5}), json!({"digest": "b1"}), json!("sha256:b1")] {
        assert_eq!(read_with(Collection::Manifest, "subject", bad), Err(RecordError::BadField("subject")));
    }
}

#[test]
fn a_tag_is_read_in_both_shapes() {
    let newer = expect!(Tag, "app_v1", {"repository": "app", "tag": "v1", "updatedAt": TIME,
        "manifest": format!("at://did:plc:alice/io.atcr.manifest/{HEX}"), "manifestDigest": "sha256:ff"});
    let older = expect!(Tag, "app_v1", {"repository": "app", "tag": "v1", "createdAt": TIME,
        "manifestDigest": format!("sha256:{HEX}")});
    let digest = format!("sha256:{HEX}");
    assert_eq!(newer, Tag { repository: "app".to_owned(), tag: "v1".to_owned(), digest, created_at: AT });
    assert_eq!(newer, older);
    let timeless = expect!(Tag, "k", {"repository": "app", "tag": "v1", "manifestDigest": "sha256:ff"});
    assert_eq!(timeless.created_at, Micros(0));
    // An address whose key is opaque tells no digest.
    let opaque = expect!(Tag, "k", {"repository": "app", "tag": "v1", "createdAt": TIME,
        "manifest": "at://did:plc:alice/io.atcr.manifest/3jzfcijpj2z2a", "manifestDigest": "sha256:ff"});
    assert_eq!(opaque.digest, "sha256:ff");
}

#[test]
fn a_page_keeps_its_description_and_a_sound_avatar() {
    let page = |avatar: Value, description: &str| {
        expect!(Page, "app", {"repository": "app", "createdAt": TIME, "updatedAt": TIME,
            "description": description, "avatar": avatar})
    };
    let blob = |media_type, size| json!({"$type": "blob", "ref": {"$link": "bafkrei1"}, "mimeType": media_type, "size": size});
    let good = page(blob("image/png", 3_000_000), "# App");
    assert_eq!((good.avatar_cid.as_deref(), good.description.as_deref()), (Some("bafkrei1"), Some("# App")));
    assert_eq!((good.created_at, good.updated_at), (AT, AT));
    for bad in [blob("image/svg+xml", 1), blob("image/png", 3_000_001), json!("bafkrei1"), json!({})] {
        assert_eq!(page(bad, "").avatar_cid, None);
    }
    assert!(page(Value::Null, &"a".repeat(100_000)).description.is_some());
    assert_eq!(page(Value::Null, &"a".repeat(100_001)).description, None);
}

#[test]
fn a_profile_may_opt_out_of_a_hold() {
    let full = expect!(Profile, "self", {"createdAt": TIME, "updatedAt": "2026-01-16T10:00:01Z",
        "defaultHold": "did:web:hold01.atcr.io", "autoRemoveUntagged": true});
    assert_eq!(full.default_hold, Some(did("did:web:hold01.atcr.io")));
    assert!(full.auto_remove_untagged);
    assert_eq!(full.updated_at, Micros(TIME_MICROS + 1_000_000));
    let bare = expect!(Profile, "self", {"createdAt": TIME, "defaultHold": null});
    assert_eq!(
        bare,
        Profile { default_hold: None, auto_remove_untagged: false, created_at: AT, updated_at: AT }
    );
}

#[test]
fn a_star_is_read_in_both_shapes() {
    let newer = expect!(Star, "s", {"subject": "at://did:plc:bob/io.atcr.repo.page/app", "createdAt": TIME});
    let older =
        expect!(Star, "s", {"subject": {"did": "did:plc:bob", "repository": "app"}, "createdAt": TIME});
    assert_eq!(newer, Star { owner: did("did:plc:bob"), repository: "app".to_owned(), created_at: AT });
    assert_eq!(newer, older);
    let nested =
        expect!(Star, "s", {"subject": "at://did:plc:bob/io.atcr.repo.page/tools/app", "createdAt": TIME});
    assert_eq!(nested.repository, "tools/app");
    for bad in [
        "at://did:plc:bob/io.atcr.tag/app",
        "at://did:plc:bob/io.atcr.repo.page/",
        "at://did:plc:bob",
        "did:plc:bob",
        "",
    ] {
        assert_eq!(read_with(Collection::Star, "subject", json!(bad)), Err(RecordError::BadField("subject")));
    }
}

#[test]
fn a_captain_is_read_in_both_shapes() {
    let older = expect!(Captain, "self", {"owner": "did:plc:alice", "public": true, "allowAllCrew": true,
        "enableBlueskyPosts": false, "deployedAt": TIME, "region": "us-east", "provider": "fly"});
    assert!(older.public && older.allow_all_crew);
    assert_eq!((older.region.as_deref(), older.provider.as_deref()), (Some("us-east"), Some("fly")));
    let newer = expect!(Captain, "self", {"owner": "did:plc:alice", "public": false, "allowAllCrew": false,
        "enableBlueskyPosts": false, "deployedAt": TIME, "region": "x".repeat(65), "successor": "did:web:new.example"});
    assert_eq!((newer.owner, newer.deployed_at), (did("did:plc:alice"), AT));
    assert_eq!((newer.region, newer.successor), (None, Some(did("did:web:new.example"))));
}

#[test]
fn a_member_of_the_crew_keeps_the_rights_that_are_readable() {
    let crew = expect!(Crew, "c", {"member": "did:plc:bob", "role": "write", "addedAt": TIME, "tier": "pro",
        "permissions": ["blob:read", 5, "x".repeat(65), "crew:\u{0}admin", "blob:write"]});
    assert_eq!(crew.permissions, ["blob:read", "blob:write"]);
    assert_eq!((crew.member, &*crew.role, crew.tier.as_deref()), (did("did:plc:bob"), "write", Some("pro")));
    let default = expect!(Crew, "c", {"member": "did:plc:bob", "role": "read", "addedAt": TIME, "tier": "",
        "permissions": []});
    assert_eq!((default.tier, default.added_at), (None, AT));
}

#[test]
fn stats_are_read_with_and_without_their_last_times() {
    let (key, record) = sound(Collection::Stats);
    let bare = match read_at(Collection::Stats, key, &record) {
        Ok(Record::Stats(stats)) => stats,
        other => panic!("{other:?}"),
    };
    assert_eq!((bare.pull_count, bare.push_count, bare.last_pull, bare.last_push), (7, 3, None, None));
    assert_eq!((bare.owner, &*bare.repository, bare.updated_at), (did("did:plc:alice"), "app", AT));
    let Ok(Record::Stats(full)) = read_with(Collection::Stats, "lastPush", json!(TIME)) else { panic!() };
    assert_eq!(full.last_push, Some(AT));
}

#[test]
fn a_scan_belongs_to_the_manifest_of_its_address_or_of_its_key() {
    let of = |manifest: &str, key: &str| {
        let (_, mut record) = sound(Collection::Scan);
        record["manifest"] = json!(manifest);
        match read_at(Collection::Scan, key, &record) {
            Ok(Record::Scan(scan)) => Ok(scan),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        }
    };
    let scan = of(&format!("at://did:plc:alice/io.atcr.manifest/{HEX}"), "k").unwrap();
    assert_eq!(scan.manifest_digest, format!("sha256:{HEX}"));
    assert_eq!((scan.critical, scan.high, scan.medium, scan.low, scan.total), (1, 2, 3, 4, 10));
    assert_eq!(
        (scan.owner, &*scan.scanner_version, scan.scanned_at),
        (did("did:plc:alice"), "atcr-scanner-v1.0.0", AT)
    );
    let by_key = of("at://did:plc:alice/io.atcr.manifest/3jzfcijpj2z2a", HEX).unwrap();
    assert_eq!(by_key.manifest_digest, format!("sha256:{HEX}"));
    assert_eq!(
        of("at://did:plc:alice/io.atcr.manifest/3jzfcijpj2z2a", "k"),
        Err(RecordError::BadField("manifest"))
    );
}

//! Small records to write.

use std::collections::BTreeMap;

use atcr_workers::atproto::records::{
    ArtifactType, Blob, Captain, Crew, Manifest, Page, Profile, Reference, Scan, Star, Stats, Tag,
};
use atcr_workers::atproto::{Change, Collection, Did, Micros, Record, Rev, Rkey, State};
use atcr_workers::store::Database;

pub(crate) fn did(text: &str) -> Did {
    Did::parse(text).unwrap()
}

/// The revision number `n`.
pub(crate) fn rev(n: u32) -> Rev {
    let digits = b"234567abcdefghijklmnopqrstuvwxyz";
    let digit = |place: u32| char::from(digits[(n >> (5 * place)) as usize % 32]);
    let low: String = (0..6).rev().map(digit).collect();
    Rev::parse(&format!("3aaaaaa{low}")).unwrap()
}

pub(crate) fn change(author: &str, rkey: &str, n: u32, collection: Collection, state: State) -> Change {
    let cid = matches!(state, State::Present(_)).then(|| format!("cid-{n}"));
    Change { did: did(author), collection, rkey: Rkey::parse(rkey).unwrap(), rev: rev(n), cid, state }
}

pub(crate) fn present(author: &str, rkey: &str, n: u32, record: Record) -> Change {
    change(author, rkey, n, collection_of(&record), State::Present(Box::new(record)))
}

fn collection_of(record: &Record) -> Collection {
    match record {
        Record::Manifest(_) => Collection::Manifest,
        Record::Tag(_) => Collection::Tag,
        Record::Page(_) => Collection::Page,
        Record::Profile(_) => Collection::Profile,
        Record::Star(_) => Collection::Star,
        Record::Captain(_) => Collection::Captain,
        Record::Crew(_) => Collection::Crew,
        Record::Stats(_) => Collection::Stats,
        Record::Scan(_) => Collection::Scan,
    }
}

fn blob(n: i64) -> Blob {
    Blob { digest: format!("sha256:{n:064x}"), size: n, media_type: format!("type/{n}") }
}

/// A manifest with `n` layers, references and annotations.
pub(crate) fn manifest(repository: &str, hold: Option<&str>, n: i64) -> Record {
    let reference = |i| Reference {
        digest: blob(i).digest,
        size: i,
        media_type: "type/index".into(),
        os: Some("linux".into()),
        architecture: None,
        variant: None,
        os_version: (i > 1).then(|| "1".into()),
        is_attestation: i > 1,
    };
    Record::Manifest(Manifest {
        repository: repository.into(),
        digest: blob(1000 + n).digest,
        media_type: "application/vnd.oci.image.manifest.v1+json".into(),
        schema_version: 2,
        hold: hold.map(did),
        created_at: Micros(1_000 + n),
        artifact_type: ArtifactType::ContainerImage,
        config: (n > 0).then(|| blob(n)),
        subject_digest: (n > 2).then(|| blob(7).digest),
        layers: (0..n).map(blob).collect(),
        references: (0..n).map(reference).collect(),
        annotations: (0..n)
            .map(|i| (format!("key{i}"), format!("{n}: it's a \"v\" ?, {{rows}}")))
            .collect::<BTreeMap<_, _>>(),
    })
}

pub(crate) fn tag(repository: &str, tag: &str, n: i64) -> Record {
    Record::Tag(Tag {
        repository: repository.into(),
        tag: tag.into(),
        digest: blob(1000 + n).digest,
        created_at: Micros(n),
    })
}

pub(crate) fn star(owner: &str, repository: &str) -> Record {
    Record::Star(Star { owner: did(owner), repository: repository.into(), created_at: Micros(5) })
}

pub(crate) fn page(repository: &str, n: i64) -> Record {
    let description = (n > 1).then(|| format!("about {n}"));
    let (created_at, updated_at) = (Micros(1), Micros(n));
    Record::Page(Page {
        repository: repository.into(),
        description,
        avatar_cid: None,
        created_at,
        updated_at,
    })
}

pub(crate) fn profile(hold: Option<&str>, n: i64) -> Record {
    let (created_at, updated_at) = (Micros(1), Micros(n));
    Record::Profile(Profile {
        default_hold: hold.map(did),
        auto_remove_untagged: n % 2 == 1,
        created_at,
        updated_at,
    })
}

pub(crate) fn captain(owner: &str) -> Record {
    Record::Captain(Captain {
        owner: did(owner),
        public: true,
        allow_all_crew: false,
        deployed_at: Micros(1),
        region: None,
        provider: Some("here".into()),
        successor: None,
    })
}

pub(crate) fn crew(member: &str, n: i64) -> Record {
    Record::Crew(Crew {
        member: did(member),
        role: "write".into(),
        permissions: vec!["blob:read".into(), format!("p{n}")],
        added_at: Micros(n),
        tier: None,
    })
}

pub(crate) fn stats(owner: &str, repository: &str, pull_count: i64, push_count: i64) -> Record {
    Record::Stats(Stats {
        owner: did(owner),
        repository: repository.into(),
        pull_count,
        push_count,
        last_pull: (pull_count > 0).then_some(Micros(pull_count)),
        last_push: None,
        updated_at: Micros(pull_count + push_count + 1),
    })
}

pub(crate) fn scan(owner: &str, repository: &str, n: i64) -> Record {
    Record::Scan(Scan {
        manifest_digest: blob(n).digest,
        repository: repository.into(),
        owner: did(owner),
        critical: n,
        high: 0,
        medium: 0,
        low: 1,
        total: n + 1,
        scanner_version: "v1".into(),
        scanned_at: Micros(n),
    })
}

/// The position of `host`'s stream on this wire.
pub(crate) async fn cursor(database: &Database, wire: &str, host: &str) -> Option<i64> {
    let cursors = database.stream_cursors().await.unwrap();
    cursors.into_iter().find(|of| of.wire == wire && of.host == host).map(|of| of.time_us)
}

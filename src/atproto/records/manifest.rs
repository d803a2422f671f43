//! `io.atcr.manifest`: an image, an index of images, or another artifact.

use std::collections::BTreeMap;

use super::RecordError::{self, BadField, WrongKey};
use super::digest::digest_of_rkey;
use super::fields::{Fields, without_nul};
use super::reference::Reference;
use crate::atproto::did::Did;
use crate::atproto::times::Micros;
use crate::atproto::uri::Rkey;

/// The lexicon's bounds, in bytes.
pub(super) const REPOSITORY_LEN_MAX: usize = 255;
const MEDIA_TYPE_LEN_MAX: usize = 128;

/// The lexicon does not bound these names; they are part of an index, and those in use have some 40 bytes.
const ANNOTATION_NAME_LEN_MAX: usize = 255;

/// A manifest. Its layers and references replace those of an earlier version.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Manifest {
    pub repository: String,
    pub digest: String,
    pub media_type: String,
    pub schema_version: i64,
    /// Where the blobs are: `holdDid`, else the did:web of the older `holdEndpoint`.
    pub hold: Option<Did>,
    pub created_at: Micros,
    pub artifact_type: ArtifactType,
    pub config: Option<Blob>,
    /// What this is an attestation or signature of.
    pub subject_digest: Option<String>,
    pub layers: Vec<Blob>,
    /// The manifests of an index.
    pub references: Vec<Reference>,
    /// Those with a text as value.
    pub annotations: BTreeMap<String, String>,
}

/// What a manifest is of, for the eyes of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ArtifactType {
    ContainerImage,
    HelmChart,
    Unknown,
}

/// A piece of content in a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Its address.
    pub digest: String,
    /// In bytes, as stated; 0 where nothing is stated.
    pub size: i64,
    /// Empty where nothing is stated.
    pub media_type: String,
}

impl Manifest {
    pub(super) fn read(rkey: &Rkey, fields: &Fields<'_>) -> Result<Self, RecordError> {
        let digest = fields.digest("digest")?;
        // A delete tells nothing but the key, so the key must not stand for some other manifest.
        if digest_of_rkey(rkey).is_some_and(|keyed| keyed != digest) {
            return Err(WrongKey);
        }
        let config = fields.object("config").ok().flatten().and_then(|config| Blob::read(&config));
        Ok(Self {
            repository: fields.name("repository", REPOSITORY_LEN_MAX)?,
            digest,
            media_type: fields.name("mediaType", MEDIA_TYPE_LEN_MAX)?,
            schema_version: fields.integer("schemaVersion")?,
            hold: fields.hold_if_any("holdDid").or_else(|| fields.hold_if_any("holdEndpoint")),
            created_at: fields.time("createdAt")?,
            artifact_type: ArtifactType::of(fields, config.as_ref()),
            config,
            subject_digest: subject_digest(fields)?,
            layers: fields.list("layers", |json| Blob::read(&Fields::read(json).ok()?))?,
            references: fields.list("manifests", |json| Reference::read(&Fields::read(json).ok()?))?,
            annotations: annotations(fields)?,
        })
    }
}

impl ArtifactType {
    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContainerImage => "container-image",
            Self::HelmChart => "helm-chart",
            Self::Unknown => "unknown",
        }
    }

    /// A stated `artifactType` decides, else the configuration's media type. A manifest with neither is an index, or so
    /// old that it can only be an image.
    fn of(fields: &Fields<'_>, config: Option<&Blob>) -> Self {
        let stated = fields.prose("artifactType", MEDIA_TYPE_LEN_MAX);
        match stated.as_deref().or(config.map(|config| &*config.media_type)).unwrap_or_default() {
            ""
            | "application/vnd.oci.image.config.v1+json"
            | "application/vnd.docker.container.image.v1+json" => Self::ContainerImage,
            "application/vnd.cncf.helm.config.v1+json" => Self::HelmChart,
            _ => Self::Unknown,
        }
    }
}

impl Blob {
    /// The lexicon does not document these objects, so only the digest is insisted on.
    pub(super) fn read(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            digest: fields.digest("digest").ok()?,
            size: fields.count("size").unwrap_or(0),
            media_type: fields.prose("mediaType", MEDIA_TYPE_LEN_MAX).unwrap_or_default(),
        })
    }
}

/// Strict: a signature that lost its subject would be shown as an image of its own.
fn subject_digest(fields: &Fields<'_>) -> Result<Option<String>, RecordError> {
    let subject = fields.object("subject")?;
    subject.map(|subject| subject.digest("digest").map_err(|_| BadField("subject"))).transpose()
}

fn annotations(fields: &Fields<'_>) -> Result<BTreeMap<String, String>, RecordError> {
    let Some(annotations) = fields.object("annotations").ok().flatten() else { return Ok(BTreeMap::new()) };
    let texts = annotations.entries()?.filter_map(|(name, value)| {
        let value: String = serde_json::from_str(value.get()).ok()?;
        let name_ok = (1..=ANNOTATION_NAME_LEN_MAX).contains(&name.len()) && !name.contains('\0');
        name_ok.then(|| (name.to_owned(), without_nul(value)))
    });
    Ok(texts.collect())
}

//! The records of a hold: `io.atcr.hold.captain`, `.crew`, `.stats`, `.scan`.

use super::RecordError::{self, BadField, MissingField};
use super::digest::digest_of_rkey;
use super::fields::Fields;
use super::user::{PAGE_REPOSITORY_LEN_MAX as REPOSITORY_LEN_MAX, must_be_self};
use crate::atproto::did::Did;
use crate::atproto::times::Micros;
use crate::atproto::uri::{AtUri, Rkey};

/// The lexicons' bounds, in bytes.
const PLACE_LEN_MAX: usize = 64;
const ROLE_LEN_MAX: usize = 32;
const PERMISSION_LEN_MAX: usize = 64;
const TIER_LEN_MAX: usize = 32;
const SCANNER_LEN_MAX: usize = 64;

/// What a hold says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Captain {
    pub owner: Did,
    /// Anybody may pull.
    pub public: bool,
    pub allow_all_crew: bool,
    pub deployed_at: Micros,
    pub region: Option<String>,
    pub provider: Option<String>,
    /// The hold that has taken over from this one.
    pub successor: Option<Did>,
}

/// A member of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Crew {
    pub member: Did,
    pub role: String,
    pub permissions: Vec<String>,
    pub added_at: Micros,
    /// `None` is the default tier.
    pub tier: Option<String>,
}

/// A hold's count of pulls and pushes of a repository, since ever.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Stats {
    pub owner: Did,
    pub repository: String,
    pub pull_count: i64,
    pub push_count: i64,
    pub last_pull: Option<Micros>,
    pub last_push: Option<Micros>,
    pub updated_at: Micros,
}

/// A hold's scan of a manifest: the vulnerabilities found, by severity.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the lexicon's")]
pub struct Scan {
    pub manifest_digest: String,
    pub repository: String,
    pub owner: Did,
    pub critical: i64,
    pub high: i64,
    pub medium: i64,
    pub low: i64,
    pub total: i64,
    pub scanner_version: String,
    pub scanned_at: Micros,
}

impl Captain {
    pub(super) fn read(rkey: &Rkey, fields: &Fields<'_>) -> Result<Self, RecordError> {
        must_be_self(rkey)?;
        Ok(Self {
            owner: fields.did("owner")?,
            public: fields.flag("public")?,
            allow_all_crew: fields.flag("allowAllCrew")?,
            deployed_at: fields.time("deployedAt")?,
            region: fields.prose("region", PLACE_LEN_MAX),
            provider: fields.prose("provider", PLACE_LEN_MAX),
            successor: fields.did_if_any("successor"),
        })
    }
}

impl Crew {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, RecordError> {
        if !fields.has("permissions") {
            return Err(MissingField("permissions"));
        }
        // Leaving out an entry that breaks its rule can only take a right away.
        let permission = |json| {
            let text: String = serde_json::from_str(json).ok()?;
            ((1..=PERMISSION_LEN_MAX).contains(&text.len()) && !text.contains('\0')).then_some(text)
        };
        Ok(Self {
            member: fields.did("member")?,
            role: fields.name("role", ROLE_LEN_MAX)?,
            permissions: fields.list("permissions", permission)?,
            added_at: fields.time("addedAt")?,
            tier: fields.prose("tier", TIER_LEN_MAX),
        })
    }
}

impl Stats {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, RecordError> {
        Ok(Self {
            owner: fields.did("ownerDid")?,
            repository: fields.name("repository", REPOSITORY_LEN_MAX)?,
            pull_count: fields.count("pullCount")?,
            push_count: fields.count("pushCount")?,
            last_pull: fields.time_if_any("lastPull"),
            last_push: fields.time_if_any("lastPush"),
            updated_at: fields.time("updatedAt")?,
        })
    }
}

impl Scan {
    pub(super) fn read(rkey: &Rkey, fields: &Fields<'_>) -> Result<Self, RecordError> {
        Ok(Self {
            manifest_digest: manifest_digest(rkey, fields)?,
            repository: fields.name("repository", REPOSITORY_LEN_MAX)?,
            owner: fields.did("userDid")?,
            critical: fields.count("critical")?,
            high: fields.count("high")?,
            medium: fields.count("medium")?,
            low: fields.count("low")?,
            total: fields.count("total")?,
            scanner_version: fields.name("scannerVersion", SCANNER_LEN_MAX)?,
            scanned_at: fields.time("scannedAt")?,
        })
    }
}

/// From the manifest's address, else from the scan's own key: both are the digest's hexadecimal digits.
fn manifest_digest(rkey: &Rkey, fields: &Fields<'_>) -> Result<String, RecordError> {
    let address = fields.string("manifest")?.ok_or(MissingField("manifest"))?;
    let uri = AtUri::parse(&address).map_err(|_| BadField("manifest"))?;
    digest_of_rkey(&uri.rkey).or_else(|| digest_of_rkey(rkey)).ok_or(BadField("manifest"))
}

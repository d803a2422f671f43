//! Bodies of the registry's records, as clients write them. Both shapes of a star and of a tag are here.

use rand::Rng;
use serde_json::{Value, json};

use crate::ids;

/// NSIDs of the records, in the order in which a backfill reads them.
pub const COLLECTIONS: [&str; 9] = [CAPTAIN, CREW, PROFILE, PAGE, MANIFEST, TAG, STAR, STATS, SCAN];
/// `io.atcr.manifest`
pub const MANIFEST: &str = "io.atcr.manifest";
/// `io.atcr.tag`
pub const TAG: &str = "io.atcr.tag";
/// `io.atcr.repo.page`
pub const PAGE: &str = "io.atcr.repo.page";
/// `io.atcr.sailor.profile`
pub const PROFILE: &str = "io.atcr.sailor.profile";
/// `io.atcr.sailor.star`
pub const STAR: &str = "io.atcr.sailor.star";
/// `io.atcr.hold.captain`
pub const CAPTAIN: &str = "io.atcr.hold.captain";
/// `io.atcr.hold.crew`
pub const CREW: &str = "io.atcr.hold.crew";
/// `io.atcr.hold.stats`
pub const STATS: &str = "io.atcr.hold.stats";
/// `io.atcr.hold.scan`
pub const SCAN: &str = "io.atcr.hold.scan";

const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// RFC 3339 with microseconds, from the same.
pub fn time_us(time_us: i64) -> String {
    let millis = time(time_us);
    format!("{}{:03}Z", millis.trim_end_matches('Z'), time_us.rem_euclid(1000))
}

/// RFC 3339 with milliseconds, from microseconds since the Unix epoch.
pub fn time(time_us: i64) -> String {
    let (days, in_day) = (time_us.div_euclid(86_400_000_000), time_us.rem_euclid(86_400_000_000) / 1000);
    // Days to a civil date (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// What a manifest is written with.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// Repository name.
    pub repository: &'a str,
    /// DID of the hold.
    pub hold: &'a str,
    /// Microseconds.
    pub at_us: i64,
}

/// An image with a few layers and annotations; its digest differs with every draw.
pub fn image(push: Push<'_>, random: &mut impl Rng) -> Value {
    let layers: Vec<Value> = (0..random.random_range(1..=6)).map(|_| blob(LAYER, random)).collect();
    let mut manifest = manifest(push, IMAGE, random);
    manifest["config"] = blob(CONFIG, random);
    manifest["layers"] = layers.into();
    manifest["annotations"] = json!({
        "org.opencontainers.image.title": push.repository,
        "org.opencontainers.image.description": "a test image",
        "org.opencontainers.image.licenses": "MIT",
        "org.opencontainers.image.source": format!("https://example.com/{}", push.repository),
        "org.opencontainers.image.version": format!("1.{}", random.random_range(0..100)),
    });
    manifest
}

/// An index over amd64, arm64/v8 and an attestation of the first.
pub fn index(push: Push<'_>, random: &mut impl Rng) -> Value {
    let mut references: Vec<Value> = (0..3).map(|_| blob(IMAGE, random)).collect();
    references[0]["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    references[1]["platform"] = json!({ "architecture": "arm64", "os": "linux", "variant": "v8" });
    references[2]["platform"] = json!({ "architecture": "unknown", "os": "unknown" });
    references[2]["annotations"] = json!({
        "vnd.docker.reference.digest": references[0]["digest"],
        "vnd.docker.reference.type": "attestation-manifest",
    });
    let mut manifest = manifest(push, INDEX, random);
    manifest["manifests"] = references.into();
    manifest
}

fn manifest(push: Push<'_>, media_type: &str, random: &mut impl Rng) -> Value {
    let body = blob("application/octet-stream", random);
    json!({
        "$type": MANIFEST, "repository": push.repository, "digest": draw_digest(random),
        "mediaType": media_type, "schemaVersion": 2, "holdDid": push.hold, "createdAt": time(push.at_us),
        "manifestBlob": {
            "$type": "blob", "mimeType": media_type, "size": body["size"],
            "ref": { "$link": ids::cid(&body) },
        },
    })
}

fn blob(media_type: &str, random: &mut impl Rng) -> Value {
    json!({ "mediaType": media_type, "digest": draw_digest(random), "size": random.random_range(200..80_000_000) })
}

fn draw_digest(random: &mut impl Rng) -> String {
    ids::digest(&random.random::<[u8; 16]>())
}

/// The record key of a manifest or scan: the digest without `sha256:`.
pub fn digest_rkey(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap_or(digest)
}

/// The record key of a tag.
pub fn tag_rkey(repository: &str, tag: &str) -> String {
    format!("{repository}_{tag}").replace('/', "_")
}

/// A tag in the newer shape: at-uri of the manifest and `updatedAt`.
pub fn tag(did: &str, repository: &str, tag: &str, digest: &str, at_us: i64) -> Value {
    json!({
        "$type": TAG, "repository": repository, "tag": tag, "updatedAt": time(at_us),
        "manifest": format!("at://{did}/{MANIFEST}/{}", digest_rkey(digest)),
    })
}

/// A tag in the old shape: `manifestDigest` and `createdAt`.
pub fn old_tag(repository: &str, tag: &str, digest: &str, at_us: i64) -> Value {
    json!({
        "$type": TAG, "repository": repository, "tag": tag, "manifestDigest": digest, "createdAt": time(at_us),
    })
}

/// A star in the newer shape: the subject is the at-uri of the repository's page. A name with a slash cannot stand
/// in an at-uri and gets the old shape.
pub fn star(owner: &str, repository: &str, at_us: i64) -> Value {
    if repository.contains('/') {
        return old_star(owner, repository, at_us);
    }
    json!({ "$type": STAR, "subject": format!("at://{owner}/{PAGE}/{repository}"), "createdAt": time(at_us) })
}

/// A star in the old shape: the subject is an object.
pub fn old_star(owner: &str, repository: &str, at_us: i64) -> Value {
    json!({
        "$type": STAR, "subject": { "did": owner, "repository": repository }, "createdAt": time(at_us),
    })
}

/// The record key of a page: the repository's name, as far as a record key may be that.
pub fn page_rkey(repository: &str) -> String {
    repository.replace('/', "_")
}

/// A repository's page.
pub fn page(repository: &str, description: &str, at_us: i64) -> Value {
    json!({
        "$type": PAGE, "repository": repository, "description": description,
        "createdAt": time(at_us), "updatedAt": time(at_us),
    })
}

/// A user's profile.
pub fn profile(hold: &str, at_us: i64) -> Value {
    json!({ "$type": PROFILE, "createdAt": time(at_us), "defaultHold": hold })
}

/// A hold's captain record.
pub fn captain(owner: &str, at_us: i64) -> Value {
    json!({
        "$type": CAPTAIN, "owner": owner, "public": true, "allowAllCrew": true, "enableBlueskyPosts": false,
        "deployedAt": time(at_us), "region": "loopback", "provider": "test",
    })
}

/// A hold's crew record.
pub fn crew(member: &str, at_us: i64) -> Value {
    json!({
        "$type": CREW, "member": member, "role": "write", "permissions": ["blob:read", "blob:write"],
        "addedAt": time(at_us), "tier": "free",
    })
}

/// A hold's statistics of one repository; the record key is [`ids::stats_rkey`].
pub fn stats(owner: &str, repository: &str, pulls: u64, pushes: u64, at_us: i64) -> Value {
    json!({
        "$type": STATS, "ownerDid": owner, "repository": repository, "pullCount": pulls, "pushCount": pushes,
        "lastPull": time(at_us), "lastPush": time(at_us), "updatedAt": time(at_us),
    })
}

/// A hold's scan of one manifest: critical, high, medium, low.
pub fn scan(owner: &str, repository: &str, digest: &str, found: [u32; 4], at_us: i64) -> Value {
    let [critical, high, medium, low] = found;
    json!({
        "$type": SCAN, "manifest": format!("at://{owner}/{MANIFEST}/{}", digest_rkey(digest)),
        "repository": repository, "userDid": owner, "critical": critical, "high": high, "medium": medium,
        "low": low, "total": found.iter().sum::<u32>(), "scannerVersion": "atcr-scanner-v1.0.0",
        "scannedAt": time(at_us),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(951_782_400_123_000), "2000-02-29T00:00:00.123Z");
        assert_eq!(time(1_783_175_888_085_434), "2026-07-04T14:38:08.085Z");
        assert_eq!(time_us(1_783_175_888_085_434), "2026-07-04T14:38:08.085434Z");
        assert_eq!(time(-1_000), "1969-12-31T23:59:59.999Z");
    }
}

//! One entry of an index of images.

use super::fields::Fields;
use super::manifest::Blob;

/// The lexicon does not bound these; nothing real comes near.
const PLATFORM_LEN_MAX: usize = 64;

/// A manifest that an index refers to, with the platform it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of an OCI descriptor")]
pub struct Reference {
    pub digest: String,
    pub size: i64,
    pub media_type: String,
    pub os: Option<String>,
    pub architecture: Option<String>,
    pub variant: Option<String>,
    pub os_version: Option<String>,
    /// It is about another entry of the index (provenance, SBOM), and no image to run.
    pub is_attestation: bool,
}

impl Reference {
    pub(super) fn read(fields: &Fields<'_>) -> Option<Self> {
        let Blob { digest, size, media_type } = Blob::read(fields)?;
        let platform = fields.object("platform").ok().flatten();
        let part = |name| platform.as_ref()?.prose(name, PLATFORM_LEN_MAX);
        Some(Self {
            digest,
            size,
            media_type,
            os: part("os"),
            architecture: part("architecture"),
            variant: part("variant"),
            os_version: part("os.version"),
            is_attestation: is_attestation(fields),
        })
    }
}

/// BuildKit's mark: <https://github.com/moby/buildkit/blob/master/docs/attestations/attestation-storage.md>.
fn is_attestation(fields: &Fields<'_>) -> bool {
    let annotations = fields.object("annotations").ok().flatten();
    let mark = annotations.and_then(|found| found.string("vnd.docker.reference.type").ok().flatten());
    mark.as_deref() == Some("attestation-manifest")
}

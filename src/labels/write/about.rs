//! What a label is about, by the address of its subject. Pure.

use crate::atproto::records::digest_of_rkey;
use crate::atproto::{AtUri, Collection, Did};
use crate::store::labels::About;

/// The lexicon's bound on a repository's name, in bytes.
const REPOSITORY_LEN_MAX: usize = 256;

/// What a subject is to the registry. A label on anything else is kept, and means nothing here.
pub(super) fn about(uri: &str) -> Option<About> {
    if let Ok(did) = Did::parse(uri) {
        return Some(About::Account(did));
    }
    let (did, path) = uri.strip_prefix("at://")?.split_once('/')?;
    let (collection, rest) = path.split_once('/')?;
    if collection == Collection::Page.nsid() {
        // All that follows is the repository: a name with a slash makes no valid address, and is meant all the same.
        let fits = (1..=REPOSITORY_LEN_MAX).contains(&rest.len());
        return Some(About::Repository(Did::parse(did).ok()?, rest.to_owned())).filter(|_| fits);
    }
    let AtUri { did, rkey, .. } = AtUri::parse(uri).ok()?;
    match collection {
        _ if collection == Collection::Manifest.nsid() => Some(About::Manifest(did, digest_of_rkey(&rkey)?)),
        _ if collection == Collection::Tag.nsid() => Some(About::Tag(did, rkey)),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_what_the_registry_knows_by_that_address() {
        let (did, hex) = (Did::parse("did:plc:a").unwrap(), "ab".repeat(32));
        let tag = || About::Tag(did.clone(), "app_v1".parse().unwrap());
        for (uri, expected) in [
            ("did:plc:a".to_owned(), Some(About::Account(did.clone()))),
            (
                "at://did:plc:a/io.atcr.repo.page/app".into(),
                Some(About::Repository(did.clone(), "app".into())),
            ),
            (
                "at://did:plc:a/io.atcr.repo.page/org/app".into(),
                Some(About::Repository(did.clone(), "org/app".into())),
            ),
            (
                format!("at://did:plc:a/io.atcr.manifest/{hex}"),
                Some(About::Manifest(did.clone(), format!("sha256:{hex}"))),
            ),
            ("at://did:plc:a/io.atcr.tag/app_v1".into(), Some(tag())),
            ("at://did:plc:a/io.atcr.manifest/abc".into(), None),
            ("at://did:plc:a/io.atcr.tag/a/b".into(), None),
            ("at://did:plc:a/io.atcr.sailor.star/x".into(), None),
            ("at://did:plc:a/io.atcr.repo.page/".into(), None),
            ("at://alice.test/io.atcr.tag/x".into(), None),
            ("at://did:plc:a".into(), None),
            ("https://example.com".into(), None),
        ] {
            assert_eq!(about(&uri), expected, "{uri}");
        }
    }
}
